/* common.h - what all C files share, for every number type: threads, alignment, memory,
 * counter-based random words. */
#ifndef NN_COMMON_H
#define NN_COMMON_H
#include <stddef.h>
#include <stdint.h>
#include "nn.h"

#define ALIGNMENT 64                    /* a cache line, and the widest vector */
/* bytes past the end that kernels may read (and then ignore) */
#define OVERREAD (2 * ALIGNMENT)

static inline int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

/* Where the threads of one parallel region wait for each other. */
typedef struct {
    _Alignas(ALIGNMENT) int arrived;
    _Alignas(ALIGNMENT) int generation;
} thread_barrier;

/* The threads that run one step together, as one of them sees them. */
typedef struct {
    int id, count;
    thread_barrier *barrier;
} thread_team;

void nn_barrier_wait(thread_team t);
/* The thread team of the parallel region around the caller. */
thread_team nn_this_team(thread_barrier *barrier);

static inline void barrier_wait(thread_team t)
{
    if (t.count > 1)
        nn_barrier_wait(t);
}

/* This thread's share [*first, *last) of n items, in whole groups of `group`; it may be empty. */
static inline void thread_share(thread_team t, int64_t n, int64_t group, int64_t *first,
                                int64_t *last)
{
    int64_t groups = (n + group - 1) / group;
    *first = min_i64(n, groups * t.id / t.count * group);
    *last = min_i64(n, groups * (t.id + 1) / t.count * group);
}

/* Divides n into the fewest equal sizes of at most `most`; returns the first, which is the
 * largest. */
static inline int64_t even_size(int64_t n, int64_t most)
{
    int64_t count = max_i64(1, (n + most - 1) / most);
    return (n + count - 1) / count;
}

/* Philox4x32-10; counter words 0 and 1 count blocks, 2 and 3 name the stream. */
static inline void philox(uint32_t out[4], uint32_t seed, uint32_t c0, uint32_t c1, uint32_t c2,
                          uint32_t c3)
{
    uint32_t k0 = seed, k1 = 0;
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* Begins a computation on up to `threads` threads; returns how many it takes, for nn_end. One
 * that `yields` takes those that others leave. */
int nn_begin(int threads, int yields);
void nn_end(int threads);

double nn_seconds(void);                /* a clock that only goes forward */
void *nn_alloc(int64_t bytes);          /* aligned, zeroed; NULL when memory runs out */
#endif
