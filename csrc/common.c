/* common.c - memory, clock and the barrier; built once per extension. */
#define _DEFAULT_SOURCE
#include "common.h"
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

void *nn_alloc(int64_t bytes)
{
    /* a large page: the rows of a wide layer then need fewer pages */
    const int64_t huge = 1 << 21;
    void *memory = NULL;
    bytes += OVERREAD;
    if (bytes < OVERREAD ||
        posix_memalign(&memory, bytes >= 2 * huge ? huge : ALIGNMENT, (size_t)bytes))
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

thread_team nn_this_team(thread_barrier *barrier)
{
#ifdef _OPENMP
    return (thread_team){omp_get_thread_num(), omp_get_num_threads(), barrier};
#else
    return (thread_team){0, 1, barrier};
#endif
}

static int computing;                   /* threads of this process that compute */

int nn_begin(int threads, int yields)
{
    static _Thread_local pid_t home;    /* the process in which this thread first had a team */
    if (yields)
        threads = (int)max_i64(1, threads - __atomic_load_n(&computing, __ATOMIC_RELAXED));
    if (threads > 1 && !home)
        home = getpid();
    if (threads > 1 && home != getpid())
        /* forked: OpenMP would wait for the team, which has stayed in the parent */
        threads = 1;
    __atomic_fetch_add(&computing, threads, __ATOMIC_RELAXED);
    return threads;
}

void nn_end(int threads) { __atomic_fetch_sub(&computing, threads, __ATOMIC_RELAXED); }

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Spins for some microseconds, the time of a share of a small layer; then gives the core away:
 * with more threads than cores, the thread that all wait for may have none. */
void nn_barrier_wait(thread_team t)
{
    enum { SPINS = 1000 };
    thread_barrier *barrier = t.barrier;
    int generation = __atomic_load_n(&barrier->generation, __ATOMIC_RELAXED);
    if (__atomic_add_fetch(&barrier->arrived, 1, __ATOMIC_ACQ_REL) == t.count) {
        __atomic_store_n(&barrier->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&barrier->generation, generation + 1, __ATOMIC_RELEASE);
        return;
    }
    for (int spin = 0; __atomic_load_n(&barrier->generation, __ATOMIC_ACQUIRE) == generation;
         spin++) {
        if (spin < SPINS)
            relax();
        else
            sched_yield();
    }
}

static char lost_line[4096];
static int lost_code;

static void tell_lost(int number)
{
    (void)number;
    (void)!write(STDERR_FILENO, lost_line, strlen(lost_line));
    _exit(lost_code);
}

void nn_tell_lost(const char *line, int code)
{
    lost_code = code;
    strncpy(lost_line, line, sizeof lost_line - 1);
    void (*before)(int) = signal(SIGBUS, tell_lost);
    if (before != SIG_DFL && before != tell_lost)
        signal(SIGBUS, before);     /* the program's own */
}
