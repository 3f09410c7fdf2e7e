/* common.c - memory, clock and the barrier; built once per extension. */
#define _DEFAULT_SOURCE
#include "common.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif

void *nn_alloc(int64_t bytes)
{
    const int64_t huge = 1 << 21;       /* a large page: rows of a wide layer lie on fewer of them than of small ones */
    void *memory = NULL;
    bytes += OVERREAD;
    if (bytes < OVERREAD || posix_memalign(&memory, bytes >= 2 * huge ? huge : ALIGNMENT, (size_t)bytes))
        return NULL;
#ifdef MADV_HUGEPAGE
    if (bytes >= 2 * huge)
        madvise(memory, (size_t)bytes, MADV_HUGEPAGE);
#endif
    return memset(memory, 0, (size_t)bytes);
}

void nn_free(void *pointer)
{
    free(pointer);
}

/* One block of memory waits here for whoever asks next: fresh pages cost a product of 512 rows a tenth of its time. */
typedef struct {
    _Alignas(ALIGNMENT) int64_t bytes;
} loan;
static loan *kept;

void *nn_borrow(int64_t bytes)
{
    loan *l = __atomic_exchange_n(&kept, NULL, __ATOMIC_ACQUIRE);
    if (!l || l->bytes < bytes) {
        nn_free(l);
        l = nn_alloc((int64_t)sizeof *l + bytes);
        if (!l)
            return NULL;
        l->bytes = bytes;
    }
    return l + 1;
}

void nn_give_back(void *borrowed)
{
    nn_free(__atomic_exchange_n(&kept, (loan *)borrowed - 1, __ATOMIC_ACQ_REL));
}

double nn_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int nn_has_openmp(void)
{
#ifdef _OPENMP
    return 1;
#else
    return 0;
#endif
}

team nn_team_here(barrier *meet)
{
#ifdef _OPENMP
    return (team){omp_get_thread_num(), omp_get_num_threads(), meet};
#else
    return (team){0, 1, meet};
#endif
}

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Spin for some microseconds, as long as a neighbour's share of a small layer takes; then give the core away:
 * with more threads than cores, the one everybody waits for may have none. */
void nn_team_wait(team t)
{
    enum { SPINS = 1000 };
    barrier *meet = t.meet;
    int generation = __atomic_load_n(&meet->generation, __ATOMIC_RELAXED);
    if (__atomic_add_fetch(&meet->arrived, 1, __ATOMIC_ACQ_REL) == t.count) {
        __atomic_store_n(&meet->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&meet->generation, generation + 1, __ATOMIC_RELEASE);
        return;
    }
    for (int spin = 0; __atomic_load_n(&meet->generation, __ATOMIC_ACQUIRE) == generation; spin++) {
        if (spin < SPINS)
            relax();
        else
            sched_yield();
    }
}
