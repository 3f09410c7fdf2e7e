/* dropout.c - while training, sets a share of the values to 0 and scales the others by 1 / (1 - share).
 *
 * Which values: value e of the batch (counted row after row, channels first, whatever the layout inside) stays if
 * word e % 4 of Philox block (e / 4, step, layer) under the training's seed is at least share * 2^32. The mask
 * is a function of these numbers alone, so every backend and thread draws the same one, and the backward pass
 * draws it again.
 * uses: seq/dropout.c or omp/dropout.c (dropout_row, dropout_scratch)
 */
#include "core.h"

/* Rows [first, last) through the mask, or as they are when nothing is being learnt. */
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
    .memory = {.scratch = dropout_scratch}, .fast = {.by_rows = 1},
};
