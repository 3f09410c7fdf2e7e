/* isa.c - which copy of the fast kernels this processor runs. build.py numbers them, best first. */
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <string.h>
#include "../nn.h"

int nn_isa_index(void);

static const char *const names[] = {
#ifdef NN_HAS_AVX512
    [NN_HAS_AVX512] = "avx512",
#endif
#ifdef NN_HAS_AVX2
    [NN_HAS_AVX2] = "avx2",
#endif
    [NN_HAS_BASELINE] = "baseline",
};

#if defined(__x86_64__)
static int supported(const char *name)
{
    __builtin_cpu_init();
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
            && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    if (strcmp(name, "avx2") == 0)
        return avx2;
    if (strcmp(name, "avx512") == 0)
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
            && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return strcmp(name, "baseline") == 0;
}
#else
static int supported(const char *name) { return strcmp(name, "baseline") == 0; }
#endif

static int choose(void)
{
    const char *asked = getenv("NN_ISA");
    for (int i = 0; i < NN_HAS_BASELINE; i++)
        if ((!asked || strcmp(asked, names[i]) == 0) && supported(names[i]))
            return i;
    return NN_HAS_BASELINE;
}

int nn_isa_index(void)
{
    static int index = -1;              /* threads that race here write the same value */
    int known = __atomic_load_n(&index, __ATOMIC_RELAXED);
    if (known < 0)
        __atomic_store_n(&index, known = choose(), __ATOMIC_RELAXED);
    return known;
}

const char *nn_isa(void) { return names[nn_isa_index()]; }
