/* random.c - random numbers that are the same on every machine, backend and thread count. */
#include "common.h"
#include <math.h>

/* Philox4x32-10, Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC
 * 2011). */
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

/* Logarithm, sine and cosine out of sums, products and quotients, which every processor rounds
 * alike: C libraries differ in the last bit, and one library from processor to processor. They
 * err by about one unit in the last place. _seq, which draws, is built without fused
 * multiply-adds (-ffp-contract=off). */

/* log(x), x in (0, 1]: x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), and log(1 + f) = 2
 * atanh(s), s = f / (2 + f). f, the largest part, is added last. */
static double portable_log(double x)
{
    /* e times the first is exact */
    const double log_2_high = 0x1.62e42fee00000p-1, log_2_low = 0x1.a39ef35793c76p-33;
    int e;
    double f = frexp(x, &e);
    if (f < 0.7071067811865476) {
        f *= 2;
        e--;
    }
    f -= 1;
    const double s = f / (2 + f), square = s * s, half = 0.5 * f * f;
    double rest = 0;                    /* 2 (atanh(s) - s) / s */
    #pragma GCC unroll 10                   /* the quotients become constants */
    for (int power = 21; power >= 3; power -= 2)
        rest = square * (rest + 2.0 / power);
    return e * log_2_high - ((half - (s * (half + rest) + e * log_2_low)) - f);
}

/* sin and cos of 2 pi u, u in [0, 1): at most an eighth of a turn from the nearest quarter,
 * where Taylor's series end soon. */
static void portable_sincos(double u, double *sine, double *cosine)
{
    const int quarter = (int)(4 * u + 0.5);
    const double x = 2 * M_PI * (u - 0.25 * quarter), square = x * x;
    double sum_s = 0, sum_c = 0;        /* sin(x) / x - 1 and cos(x) - 1 */
    #pragma GCC unroll 9
    for (int n = 18; n >= 2; n -= 2) {
        sum_s = square * (-1.0 / (n * (n + 1))) * (1 + sum_s);
        sum_c = square * (-1.0 / (n * (n - 1))) * (1 + sum_c);
    }
    const double s = x + x * sum_s, c = 1 + sum_c;
    *sine = quarter % 4 == 0 ? s : quarter % 4 == 1 ? c : quarter % 4 == 2 ? -s : -c;
    *cosine = quarter % 4 == 0 ? c : quarter % 4 == 1 ? -s : quarter % 4 == 2 ? -c : s;
}

void nn_normal(double *out, int64_t n, uint32_t seed, uint32_t stream)
{
    for (int64_t i = 0; i < n; i += 2) {
        uint32_t word[4];
        double sine, cosine;
        nn_philox(word, seed, (uint64_t)i / 2, stream, 0);
        /* 1 - u lies in (0, 1], where the logarithm is finite */
        double radius = sqrt(-2 * portable_log(1 - unit(word[0], word[1])));
        portable_sincos(unit(word[2], word[3]), &sine, &cosine);
        out[i] = radius * cosine;
        if (i + 1 < n)
            out[i + 1] = radius * sine;
    }
}

/* order[i] changes places with one of order[i .. n-1]: the one that 64 random bits, a fraction
 * of 2^64, point at. */
static void swap_with_later(int64_t *order, int64_t n, int64_t i, uint32_t high, uint32_t low)
{
    int64_t j =
        i + (int64_t)((unsigned __int128)((uint64_t)high << 32 | low) * (uint64_t)(n - i) >> 64);
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

/* glibc's additive feedback generator, r[i] = r[i-3] + r[i-31]: a ring of 31 words; state[33] is
 * the position. */
void nn_glibc_srand(uint32_t state[34], uint32_t seed)
{
    int32_t word = seed == 0 ? 1 : (int32_t)seed;
    state[0] = (uint32_t)word;
    for (int i = 1; i < 31; i++) {
        /* 16807 word mod 2147483647 without overflow (Schrage), as glibc does it, negative seeds
         * too */
        word = 16807 * (word % 127773) - 2836 * (word / 127773);
        if (word < 0)
            word += 2147483647;
        state[i] = (uint32_t)word;
    }
    state[31] = state[32] = 0;
    /* r[34] is the first sum; it replaces r[3] in the ring of 31 */
    state[33] = 3;
    for (int i = 0; i < 310; i++)
        nn_glibc_rand(state);
}

uint32_t nn_glibc_rand(uint32_t state[34])
{
    /* state[at] is r[i-31], the oldest; r[i-3] stands 28 after it */
    uint32_t at = state[33];
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
