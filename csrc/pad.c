/* pad.c - zeros around an image, in either layout: of `planes` pictures whose pixels are runs of `run` values. */
#include "core.h"
#include <string.h>

typedef struct {
    int64_t planes, run, row, padded_row;       /* values of a pixel, of a row of the image and of the padded one */
} pad_shape;

static pad_shape pad_shape_of(const nn_layer *s)
{
    int64_t run = CHANNELS_LAST ? s->in[0] : 1;
    return (pad_shape){s->in[0] / run, run, s->in[2] * run, s->out[2] * run};
}

/* Where row y of plane p begins in the padded image. */
static int64_t pad_row_at(const nn_layer *s, pad_shape is, int64_t p, int64_t y)
{
    return (p * s->out[1] + s->pad_top + y) * is.padded_row + s->pad_left * is.run;
}

static void pad_image_forward(real *out, const real *x, const nn_layer *s)
{
    pad_shape is = pad_shape_of(s);
    memset(out, 0, (size_t)values(s->out) * sizeof *out);
    for (int64_t p = 0; p < is.planes; p++)
        for (int64_t y = 0; y < s->in[1]; y++)
            memcpy(out + pad_row_at(s, is, p, y), x + (p * s->in[1] + y) * is.row, (size_t)is.row * sizeof *x);
}

static void pad_image_backward(real *dx, const real *dz, const nn_layer *s)
{
    pad_shape is = pad_shape_of(s);
    for (int64_t p = 0; p < is.planes; p++)
        for (int64_t y = 0; y < s->in[1]; y++)
            memcpy(dx + (p * s->in[1] + y) * is.row, dz + pad_row_at(s, is, p, y), (size_t)is.row * sizeof *dx);
}

static void pad_forward(layer *l, real *out, const real *x, const batch *b)
{
    int64_t first, last;
    thread_share(b->team, b->n, 1, &first, &last);
    for (int64_t r = first; r < last; r++)
        pad_image_forward(out + r * row_stride(l->outputs), x + r * row_stride(l->inputs), &l->spec);
    activation_forward(out, l->spec.activation, first, last, l->outputs);
}

static void pad_backward_input(layer *l, real *dx, const real *dz, const real *x, nn_activation below, const batch *b)
{
    int64_t first, last;
    thread_share(b->team, b->n, 1, &first, &last);
    for (int64_t r = first; r < last; r++)
        pad_image_backward(dx + r * row_stride(l->inputs), dz + r * row_stride(l->outputs), &l->spec);
    activation_backward(dx, x, below, first, last, l->inputs);
}

static const layer_kind pad_kind = {
    .forward = pad_forward, .backward_input = pad_backward_input, .flops = pad_flops, .fast = {.by_rows = 1},
};
