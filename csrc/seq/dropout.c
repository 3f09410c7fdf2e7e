/* dropout.c - while training, sets a share of the values to 0 and scales the others by 1 / (1 - share).
 *
 * Which values: value e of the batch (counted row after row, channels first, whatever the layout inside) stays if
 * word e % 4 of Philox block (e / 4, step, layer) under the training's seed is at least share * 2^32. The mask
 * is a function of these numbers alone, so every backend and thread draws the same one, and the backward pass
 * draws it again.
 */
#include "../core.h"
#include <string.h>

/* to[k] = from[k] / (1 - rate) or 0, for one row of n values, the first of which is value e of the batch */
static void dropout_row(real *to, const real *from, int64_t n, int64_t e, double rate, const batch *b, int layer)
{
    const double threshold = rate * 0x1p32;
    const real scale = (real)(1 / (1 - rate));
    uint32_t word[4];
    for (int64_t k = 0; k < n; k++, e++) {
        if (k == 0 || e % 4 == 0)
            philox(word, b->seed, (uint32_t)(e / 4), (uint32_t)(e / 4 >> 32), (uint32_t)b->step, (uint32_t)layer);
        to[k] = word[e % 4] >= threshold ? from[k] * scale : 0;
    }
}

/* Rows [first, last) through the mask, or as they are when nothing is being learnt. */
static void dropout_rows(const layer *l, real *to, const real *from, int64_t first, int64_t last, const batch *b)
{
    int64_t stride = row_stride(l->inputs);
    if (!b->training)
        memcpy(to + first * stride, from + first * stride, (size_t)((last - first) * stride) * sizeof *to);
    else
        for (int64_t r = first; r < last; r++)
            dropout_row(to + r * stride, from + r * stride, l->inputs, (b->first_row + r) * l->inputs, l->spec.rate, b,
                        l->index);
}

static void dropout_forward(layer *l, real *out, const real *x, const batch *b)
{
    int64_t first, last;
    thread_share(b->team, b->n, 1, &first, &last);
    dropout_rows(l, out, x, first, last, b);
    activation_forward(out, l->spec.activation, first, last, l->outputs);
}

static void dropout_backward_input(layer *l, real *dx, const real *dz, const real *x, nn_activation below,
                                   const batch *b)
{
    int64_t first, last;
    thread_share(b->team, b->n, 1, &first, &last);
    dropout_rows(l, dx, dz, first, last, b);
    activation_backward(dx, x, below, first, last, l->inputs);
}

static const layer_kind dropout_kind = {
    .forward = dropout_forward, .backward_input = dropout_backward_input, .flops = dropout_flops,
};
