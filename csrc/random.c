/* random.c - random numbers that are the same on every machine, backend and thread count. */
#include "common.h"
#include <math.h>

/* Philox4x32-10, Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011). */
void nn_philox(uint32_t out[4], uint32_t seed, uint64_t counter, uint32_t stream, uint32_t lane)
{
    philox(out, seed, (uint32_t)counter, (uint32_t)(counter >> 32), stream, lane);
}

static double unit(uint32_t high, uint32_t low)
{
    return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53;
}

void nn_uniform(double *out, int64_t n, uint32_t seed, uint32_t stream)
{
    for (int64_t i = 0; i < n; i += 2) {
        uint32_t word[4];
        nn_philox(word, seed, (uint64_t)i / 2, stream, 0);
        out[i] = unit(word[0], word[1]);
        if (i + 1 < n)
            out[i + 1] = unit(word[2], word[3]);
    }
}

void nn_normal(double *out, int64_t n, uint32_t seed, uint32_t stream)
{
    const double two_pi = 6.283185307179586;
    for (int64_t i = 0; i < n; i += 2) {
        uint32_t word[4];
        nn_philox(word, seed, (uint64_t)i / 2, stream, 0);
        /* 1 - u lies in (0, 1], where the logarithm is finite */
        double radius = sqrt(-2 * log(1 - unit(word[0], word[1]))), angle = two_pi * unit(word[2], word[3]);
        out[i] = radius * cos(angle);
        if (i + 1 < n)
            out[i + 1] = radius * sin(angle);
    }
}

/* order[i] changes places with one of order[i .. n-1]: the one that 64 random bits, a fraction of 2^64, point at. */
static void swap_with_later(int64_t *order, int64_t n, int64_t i, uint32_t high, uint32_t low)
{
    int64_t j = i + (int64_t)((unsigned __int128)((uint64_t)high << 32 | low) * (uint64_t)(n - i) >> 64);
    int64_t other = order[j];
    order[j] = order[i];
    order[i] = other;
}

void nn_shuffle(int64_t *order, int64_t n, uint32_t seed, uint32_t stream, uint32_t lane)
{
    for (int64_t i = 0; i < n; i += 2) {
        uint32_t word[4];
        nn_philox(word, seed, (uint64_t)i / 2, stream, lane);
        swap_with_later(order, n, i, word[0], word[1]);
        if (i + 1 < n)
            swap_with_later(order, n, i + 1, word[2], word[3]);
    }
}

/* glibc's additive feedback generator, r[i] = r[i-3] + r[i-31]: a ring of 31 words; state[33] is the position. */
void nn_glibc_srand(uint32_t state[34], uint32_t seed)
{
    int32_t word = seed == 0 ? 1 : (int32_t)seed;
    state[0] = (uint32_t)word;
    for (int i = 1; i < 31; i++) {
        /* 16807 word mod 2147483647 without overflow (Schrage), as glibc does it, negative seeds too */
        word = 16807 * (word % 127773) - 2836 * (word / 127773);
        if (word < 0)
            word += 2147483647;
        state[i] = (uint32_t)word;
    }
    state[31] = state[32] = 0;
    state[33] = 3;                      /* r[34] is the first sum; it replaces r[3] in the ring of 31 */
    for (int i = 0; i < 310; i++)
        nn_glibc_rand(state);
}

uint32_t nn_glibc_rand(uint32_t state[34])
{
    uint32_t at = state[33];            /* state[at] is r[i-31], the oldest; r[i-3] stands 28 after it */
    state[at] += state[(at + 28) % 31];
    state[33] = (at + 1) % 31;
    return state[at] >> 1;
}

void nn_glibc_uniform(double *out, int64_t n, uint32_t state[34])
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (double)nn_glibc_rand(state) / 2147483647;
}

void nn_glibc_shuffle(int64_t *order, int64_t n, uint32_t state[34])
{
    for (int64_t i = 0; i < n - 1; i++) {
        int64_t j = i + nn_glibc_rand(state) / (2147483647 / (n - i) + 1);
        int64_t other = order[j];
        order[j] = order[i];
        order[i] = other;
    }
}
