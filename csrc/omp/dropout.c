/* dropout.c - as ../dropout.c, with many Philox blocks at a time. The mask's order is that of images channel by
 * channel; it is turned into the layout inside before it is applied.
 */
#include "../core.h"
#include "vector.h"

enum { BLOCKS = 64 };                           /* drawn together, word by word, so that the compiler finds vectors */

/* factor[i] of the values [e, e + n) of the batch; e a multiple of 4 */
static void draw_factors(real *factor, int64_t n, int64_t e, double rate, const batch *b, int layer)
{
    const double threshold = rate * 0x1p32;
    const real scale = (real)(1 / (1 - rate));
    const uint64_t least = (uint64_t)threshold + ((double)(uint64_t)threshold < threshold);  /* rounded up */
    for (int64_t at = 0; at < n; at += 4 * BLOCKS) {
        uint32_t c[4][BLOCKS], k0 = b->seed, k1 = 0;
        for (int i = 0; i < BLOCKS; i++) {
            uint64_t block = (uint64_t)(e + at) / 4 + (uint64_t)i;
            c[0][i] = (uint32_t)block, c[1][i] = (uint32_t)(block >> 32);
            c[2][i] = (uint32_t)b->step, c[3][i] = (uint32_t)layer;
        }
        for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
            for (int i = 0; i < BLOCKS; i++) {
                uint64_t p0 = (uint64_t)0xD2511F53u * c[0][i], p1 = (uint64_t)0xCD9E8D57u * c[2][i];
                c[0][i] = (uint32_t)(p1 >> 32) ^ c[1][i] ^ k0;
                c[2][i] = (uint32_t)(p0 >> 32) ^ c[3][i] ^ k1;
                c[1][i] = (uint32_t)p1;
                c[3][i] = (uint32_t)p0;
            }
        int64_t there = min_i64(4 * BLOCKS, n - at);
        for (int64_t i = 0; i < there; i++)
            factor[at + i] = c[i % 4][i / 4] >= least ? scale : 0;
    }
}

/* Factors drawn, and once more turned; a row may begin up to 3 values into a block. */
static int64_t dropout_scratch(const nn_layer *spec, int64_t n)
{
    (void)n;
    return 2 * (row_stride(values(spec->in)) + 2 * VECTOR + 4) * (int64_t)sizeof(real);
}

static void dropout_row(const layer *l, real *to, const real *from, int64_t r, const batch *b)
{
    int64_t n = l->inputs, e = r * n, before = e % 4;
    real *factor = b->scratch, *turned = factor + row_stride(n) + 2 * VECTOR;
    draw_factors(factor, n + before, e - before, l->spec.rate, b, l->index);
    image_in(turned, factor + before, l->spec.in);
    for (int64_t k = 0; k < n; k++)
        to[k] = from[k] * turned[k];
}

static void dropout_rows(const layer *l, real *to, const real *from, int64_t first, int64_t last, const batch *b)
{
    int64_t stride = row_stride(l->inputs);
    if (!b->training)
        memcpy(to + first * stride, from + first * stride, (size_t)((last - first) * stride) * sizeof *to);
    else
        for (int64_t r = first; r < last; r++)
            dropout_row(l, to + r * stride, from + r * stride, r, b);
}

static void dropout_forward(layer *l, real *out, const real *x, const batch *b)
{
    int64_t first, last;
    team_share(b->team, b->n, 1, &first, &last);
    dropout_rows(l, out, x, first, last, b);
    activation_forward(out, l->spec.activation, first, last, l->outputs);
}

static void dropout_backward_input(layer *l, real *dx, const real *dz, const real *x, int below, const batch *b)
{
    int64_t first, last;
    team_share(b->team, b->n, 1, &first, &last);
    dropout_rows(l, dx, dz, first, last, b);
    activation_backward(dx, x, below, first, last, l->inputs);
}

/* A Philox block is some forty operations for four values. */
static double dropout_flops(const nn_layer *spec) { return 10.0 * (double)values(spec->in); }

static const layer_kind dropout_kind = {
    .scratch = dropout_scratch, .forward = dropout_forward, .backward_input = dropout_backward_input,
    .flops = dropout_flops,
};
