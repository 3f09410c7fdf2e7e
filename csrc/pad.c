/* pad.c - zeros around an image. */
#include "core.h"
#include <string.h>

/* Where pixel (0,0) of channel c stands in the padded image. */
static int64_t pad_corner(const nn_layer *s, int64_t c)
{
    return (c * s->out[1] + s->pad_top) * s->out[2] + s->pad_left;
}

static void pad_image_forward(real *out, const real *x, const nn_layer *s)
{
    memset(out, 0, (size_t)values(s->out) * sizeof *out);
    for (int64_t c = 0; c < s->in[0]; c++)
        for (int64_t y = 0; y < s->in[1]; y++)
            memcpy(out + pad_corner(s, c) + y * s->out[2], x + (c * s->in[1] + y) * s->in[2],
                   (size_t)s->in[2] * sizeof *x);
}

static void pad_image_backward(real *dx, const real *dz, const nn_layer *s)
{
    for (int64_t c = 0; c < s->in[0]; c++)
        for (int64_t y = 0; y < s->in[1]; y++)
            memcpy(dx + (c * s->in[1] + y) * s->in[2], dz + pad_corner(s, c) + y * s->out[2],
                   (size_t)s->in[2] * sizeof *dx);
}

static void pad_forward(layer *l, real *out, const real *x, const batch *b)
{
    int64_t first, last;
    team_share(b->team, b->n, 1, &first, &last);
    for (int64_t r = first; r < last; r++)
        pad_image_forward(out + r * row_stride(l->outputs), x + r * row_stride(l->inputs), &l->spec);
    activation_forward(out, l->spec.activation, first, last, l->outputs);
}

static void pad_backward_input(layer *l, real *dx, const real *dz, const real *x, int below, const batch *b)
{
    int64_t first, last;
    team_share(b->team, b->n, 1, &first, &last);
    for (int64_t r = first; r < last; r++)
        pad_image_backward(dx + r * row_stride(l->inputs), dz + r * row_stride(l->outputs), &l->spec);
    activation_backward(dx, x, below, first, last, l->inputs);
}

static double pad_flops(const nn_layer *spec) { return (double)values(spec->in); }

static const layer_kind pad_kind = {
    .forward = pad_forward, .backward_input = pad_backward_input, .flops = pad_flops,
};
