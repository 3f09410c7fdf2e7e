/* dropout.c - rows of ../plain.c with many Philox blocks at a time. The mask has channels first; it is transposed
 * before it is applied.
 */
#include "../core.h"
#include "transpose.h"
#if defined(__SSE2__) && !defined(__clang__)
#include <immintrin.h>
#endif

enum { BLOCKS = VECTOR_BYTES / 8 };             /* drawn together, each word in a place of 64 bits */
typedef uint64_t words __attribute__((vector_size(VECTOR_BYTES)));

#if VECTOR_BYTES == 64
#define FIRST_BLOCKS 0, 8, 1, 9, 2, 10, 3, 11
#define LAST_BLOCKS 4, 12, 5, 13, 6, 14, 7, 15
#elif VECTOR_BYTES == 32
#define FIRST_BLOCKS 0, 4, 1, 5
#define LAST_BLOCKS 2, 6, 3, 7
#else
#define FIRST_BLOCKS 0, 2
#define LAST_BLOCKS 1, 3
#endif
#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE_WORDS(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE_WORDS(a, b, ...) __builtin_shuffle(a, b, (words){__VA_ARGS__})
#endif

/* a b, a taken from the lower half of each word; the upper halves are ignored. GCC would multiply whole words, in three
 * times the time; clang needs no help. */
INLINE words times_low(words a, uint32_t b)
{
#if !defined(__SSE2__) || defined(__clang__)
    return (a & 0xFFFFFFFFu) * b;
#elif VECTOR_BYTES == 64
    return (words)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(b));
#elif VECTOR_BYTES == 32
    return (words)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(b));
#else
    return (words)_mm_mul_epu32((__m128i)a, _mm_set1_epi64x(b));
#endif
}

/* Blocks block, block + 1, ...: the lower half of word[j][i] is word j of block + i. */
INLINE void draw_blocks(words word[4], uint64_t block, uint32_t seed, uint32_t step, uint32_t layer)
{
    static const uint64_t count[] = {0, 1, 2, 3, 4, 5, 6, 7};
    words numbers, c0, c1, c2 = (words){} + step, c3 = (words){} + layer;
    uint32_t k0 = seed, k1 = 0;
    memcpy(&numbers, count, sizeof numbers);
    numbers += block;
    c0 = numbers, c1 = numbers >> 32;
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        words p0 = times_low(c0, 0xD2511F53u), p1 = times_low(c2, 0xCD9E8D57u);
        c0 = (p1 >> 32) ^ c1 ^ k0;
        c2 = (p0 >> 32) ^ c3 ^ k1;
        c1 = p1;
        c3 = p0;
    }
    word[0] = c0, word[1] = c1, word[2] = c2, word[3] = c3;
}

/* factor[k] of n values, the first of which is value 4 * block of the batch; n is rounded up to whole draws */
static void draw_factors(real *factor, int64_t n, uint64_t block, double rate, const batch *b, int layer)
{
    const uint64_t least = (uint64_t)ceil(rate * 0x1p32);
    const real scale = (real)(1 / (1 - rate));
    const uint32_t seed = b->seed, step = (uint32_t)b->step;
    uint64_t bits = 0;
    memcpy(&bits, &scale, sizeof scale);
    for (int64_t k = 0; k < n; k += 4 * BLOCKS, block += BLOCKS) {
        words w[4];
        draw_blocks(w, block, seed, step, (uint32_t)layer);
        for (int j = 0; j < 4; j++)
            w[j] = (words)((w[j] & 0xFFFFFFFFu) >= least) & bits;
#ifdef REAL_IS_FLOAT
        words even = w[0] | w[1] << 32, odd = w[2] | w[3] << 32;        /* pairs of factors */
        words in_order[2] = {SHUFFLE_WORDS(even, odd, FIRST_BLOCKS), SHUFFLE_WORDS(even, odd, LAST_BLOCKS)};
#else
        words even[2] = {SHUFFLE_WORDS(w[0], w[2], FIRST_BLOCKS), SHUFFLE_WORDS(w[0], w[2], LAST_BLOCKS)};
        words odd[2] = {SHUFFLE_WORDS(w[1], w[3], FIRST_BLOCKS), SHUFFLE_WORDS(w[1], w[3], LAST_BLOCKS)};
        words in_order[4] = {
            SHUFFLE_WORDS(even[0], odd[0], FIRST_BLOCKS), SHUFFLE_WORDS(even[0], odd[0], LAST_BLOCKS),
            SHUFFLE_WORDS(even[1], odd[1], FIRST_BLOCKS), SHUFFLE_WORDS(even[1], odd[1], LAST_BLOCKS),
        };
#endif
        memcpy(factor + k, in_order, sizeof in_order);
    }
}

/* to (pixels, channels) = from * the factors (channels, pixels) of VECTOR of each from (p, c) on */
INLINE void scale_block(real *to, const real *from, const real *factor, int64_t p, int64_t c, int64_t pixels,
                        int64_t channels)
{
    vec row[VECTOR];
    #pragma GCC unroll 16
    for (int i = 0; i < VECTOR; i++)
        row[i] = load(factor + (c + i) * pixels + p);
    transpose_in_registers(row);
    #pragma GCC unroll 16
    for (int i = 0; i < VECTOR; i++)
        store(to + (p + i) * channels + c, load(from + (p + i) * channels + c) * row[i]);
}

/* The same of a whole image; the last blocks overlap those before. */
static void scale_image(real *to, const real *from, const real *factor, int64_t pixels, int64_t channels)
{
    if (pixels < VECTOR || channels < VECTOR) {
        for (int64_t p = 0; p < pixels; p++)
            for (int64_t c = 0; c < channels; c++)
                to[p * channels + c] = from[p * channels + c] * factor[c * pixels + p];
        return;
    }
    for (int64_t p = 0; p < pixels; p += VECTOR)
        for (int64_t c = 0; c < channels; c += VECTOR)
            scale_block(to, from, factor, min_i64(p, pixels - VECTOR), min_i64(c, channels - VECTOR), pixels, channels);
}

/* Factors as drawn begin with those of the values that share the row's first block. */
static int64_t dropout_scratch(const nn_layer *spec, int64_t n)
{
    (void)n;
    return (values(spec->in) + 3 + 4 * BLOCKS) * (int64_t)sizeof(real);
}

static void dropout_row(const layer *l, real *to, const real *from, int64_t r, const batch *b)
{
    int64_t n = l->inputs, e = (b->first_row + r) * n;
    real *drawn = b->scratch, *factor = drawn + e % 4;
    draw_factors(drawn, n + e % 4, (uint64_t)(e / 4), l->spec.rate, b, l->index);
    if (!same_layout(l->spec.in)) {
        scale_image(to, from, factor, (int64_t)l->spec.in[1] * l->spec.in[2], l->spec.in[0]);
        return;
    }
    for (int64_t k = 0; k < n; k++)
        to[k] = from[k] * factor[k];
}
