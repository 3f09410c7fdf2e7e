/* dropout.c - rows of ../plain.c: a row's factors, then their products. The mask has channels
 * first; it is transposed before it is applied.
 * uses: layout.c (same_layout, image_in)
 */
#include "../core.h"
#include <math.h>

/* Factors as drawn, which begin with those of the values that share the row's first block; and
 * transposed. */
static int64_t room_to_draw(int64_t n) { return row_stride(n + 6); }

static int64_t dropout_scratch(const nn_layer *spec, int64_t n)
{
    (void)n;
    return 2 * room_to_draw(values(spec->in)) * (int64_t)sizeof(real);
}

/* factor[k] of n values, the first of which is value 4 * block of the batch; of whole blocks.
 * GCC makes vectors of blocks where the processor has those of AVX-512. */
static void draw_factors(real *restrict factor, int64_t n, uint64_t block, double rate,
                         const batch *b, int layer)
{
    const uint64_t least = (uint64_t)ceil(rate * 0x1p32);
    const real scale = (real)(1 / (1 - rate));
    const uint32_t seed = b->seed, step = (uint32_t)b->step;
    for (int64_t i = 0; i < (n + 3) / 4; i++) {
        uint64_t number = block + (uint64_t)i;
        uint32_t word[4];
        philox(word, seed, (uint32_t)number, (uint32_t)(number >> 32), step, (uint32_t)layer);
        for (int j = 0; j < 4; j++)
            factor[4 * i + j] = word[j] >= least ? scale : 0;
    }
}

static void dropout_row(const layer *l, real *to, const real *from, int64_t r, const batch *b)
{
    int64_t n = l->inputs, e = (b->first_row + r) * n;
    real *drawn = b->scratch, *factor = drawn + e % 4;
    draw_factors(drawn, n + e % 4, (uint64_t)(e / 4), l->spec.rate, b, l->index);
    if (!same_layout(l->spec.in)) {
        image_in(drawn + room_to_draw(n), factor, l->spec.in);
        factor = drawn + room_to_draw(n);
    }
    for (int64_t k = 0; k < n; k++)
        to[k] = from[k] * factor[k];
}
