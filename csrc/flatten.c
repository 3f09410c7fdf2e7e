/* flatten.c - a vector from an image: the same values, channel by channel, under another shape. */
#include "core.h"
#include <string.h>

static void flatten_forward(layer *l, real *out, const real *x, const batch *b)
{
    int64_t first, last, stride = row_stride(l->inputs);
    team_share(b->team, b->n, 1, &first, &last);
    memcpy(out + first * stride, x + first * stride, (size_t)((last - first) * stride) * sizeof *out);
    activation_forward(out, l->spec.activation, first, last, l->outputs);
}

static void flatten_backward_input(layer *l, real *dx, const real *dz, const real *x, int below, const batch *b)
{
    int64_t first, last, stride = row_stride(l->inputs);
    team_share(b->team, b->n, 1, &first, &last);
    memcpy(dx + first * stride, dz + first * stride, (size_t)((last - first) * stride) * sizeof *dx);
    activation_backward(dx, x, below, first, last, l->inputs);
}

static double flatten_flops(const nn_layer *spec) { return (double)values(spec->in); }

static const layer_kind flatten_kind = {
    .forward = flatten_forward, .backward_input = flatten_backward_input, .flops = flatten_flops,
};
