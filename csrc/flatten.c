/* flatten.c - a vector from an image: its values channel by channel, whatever the layout inside. */
#include "core.h"

static void flatten_forward(layer *l, real *out, const real *x, const batch *b)
{
    int64_t first, last, stride = row_stride(l->inputs);
    thread_share(b->team, b->n, 1, &first, &last);
    for (int64_t r = first; r < last; r++)
        image_out(out + r * stride, x + r * stride, l->spec.in);
    activation_forward(out, l->spec.activation, first, last, l->outputs);
}

static void flatten_backward_input(layer *l, real *dx, const real *dz, const real *x, nn_activation below,
                                   const batch *b)
{
    int64_t first, last, stride = row_stride(l->inputs);
    thread_share(b->team, b->n, 1, &first, &last);
    for (int64_t r = first; r < last; r++)
        image_in(dx + r * stride, dz + r * stride, l->spec.in);
    activation_backward(dx, x, below, first, last, l->inputs);
}

static const layer_kind flatten_kind = {
    .forward = flatten_forward, .backward_input = flatten_backward_input, .flops = flatten_flops,
    .fast = {.by_rows = 1},
};
