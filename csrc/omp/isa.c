/* isa.c - which copy of the fast kernels this processor runs. build.py numbers them, best first. */
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#include "../nn.h"

int nn_isa_index(void);

static const char *const names[] = {
#ifdef NN_HAS_AMX
    [NN_HAS_AMX] = "amx",
#endif
#ifdef NN_HAS_AVX512
    [NN_HAS_AVX512] = "avx512",
#endif
#ifdef NN_HAS_AVX2
    [NN_HAS_AVX2] = "avx2",
#endif
    [NN_HAS_BASELINE] = "baseline",
};

#if defined(__x86_64__)
/* Whether the processor has the matrix unit, and the system lets this process use it: that has to be asked for, as
 * its registers make a thread's state larger by 8 KB. */
static int matrix_unit(void)
{
#if defined(__linux__)
    const unsigned tiles = 1u << 24, bfloat16 = 1u << 22;
    const long ask_for_state = 0x1023, tile_data = 18;     /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA */
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & tiles) && (d & bfloat16)
        && syscall(SYS_arch_prctl, ask_for_state, tile_data) == 0;
#else
    return 0;
#endif
}

static int supported(const char *name)
{
    __builtin_cpu_init();
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
            && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    if (strcmp(name, "avx2") == 0)
        return avx2;
    int avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
              && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (strcmp(name, "avx512") == 0)
        return avx512;
    if (strcmp(name, "amx") == 0)
        return avx512 && matrix_unit();
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
