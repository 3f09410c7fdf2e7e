/* plain.c - layers without parameters that are the same in both builds, or all but for a row:
 * dropout, zeros around an image, flatten, and activations as layers of their own.
 * uses: seq/dropout.c or omp/dropout.c (dropout_row, dropout_scratch)
 */
#include "core.h"

/* ---- dropout: while training, sets a share of the values to 0 and scales the others by 1 / (1
 * - share) ----
 *
 * Which values: value e of the batch (counted row after row, channels first, whatever the layout
 * inside) stays if word e % 4 of Philox block (e / 4, step, layer) under the training's seed is
 * at least share * 2^32. The mask is a function of these numbers alone, so every backend and
 * thread draws the same one, and the backward pass draws it again. */

/* Rows [first, last) through the mask, or as they are when nothing is being learnt. */
static void dropout_rows(const layer *l, real *to, const real *from, int64_t first, int64_t last,
                         const batch *b)
{
    int64_t stride = row_stride(l->inputs);
    if (!b->training)
        memcpy(to + first * stride, from + first * stride,
               (size_t)((last - first) * stride) * sizeof *to);
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

static void dropout_backward_input(layer *l, real *dx, const real *dz, const real *x,
                                   nn_activation below, const batch *b)
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

/* ---- zeros around an image, in either layout: of `planes` pictures whose pixels are runs of
 * `run` values ---- */

typedef struct {
    /* values of a pixel, of a row of the image and of the padded one */
    int64_t planes, run, row, padded_row;
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

/* The rows of an image into the padded one, or back out of it. */
static void copy_padded(real *to, const real *from, int back, const nn_layer *s)
{
    pad_shape is = pad_shape_of(s);
    for (int64_t p = 0; p < is.planes; p++)
        for (int64_t y = 0; y < s->in[1]; y++) {
            int64_t padded = pad_row_at(s, is, p, y), own = (p * s->in[1] + y) * is.row;
            memcpy(to + (back ? own : padded), from + (back ? padded : own),
                   (size_t)is.row * sizeof *to);
        }
}

static void pad_forward(layer *l, real *out, const real *x, const batch *b)
{
    int64_t first, last;
    thread_share(b->team, b->n, 1, &first, &last);
    memset(out + first * row_stride(l->outputs), 0,
           (size_t)((last - first) * row_stride(l->outputs)) * sizeof *out);
    for (int64_t r = first; r < last; r++)
        copy_padded(out + r * row_stride(l->outputs), x + r * row_stride(l->inputs), 0, &l->spec);
    activation_forward(out, l->spec.activation, first, last, l->outputs);
}

static void pad_backward_input(layer *l, real *dx, const real *dz, const real *x,
                               nn_activation below, const batch *b)
{
    int64_t first, last;
    thread_share(b->team, b->n, 1, &first, &last);
    for (int64_t r = first; r < last; r++)
        copy_padded(dx + r * row_stride(l->inputs), dz + r * row_stride(l->outputs), 1, &l->spec);
    activation_backward(dx, x, below, first, last, l->inputs);
}

static const layer_kind pad_kind = {
    .forward = pad_forward, .backward_input = pad_backward_input, .flops = copy_flops,
    .fast = {.by_rows = 1},
};

/* ---- a vector from an image: its values channel by channel, whatever the layout inside ---- */

static void flatten_forward(layer *l, real *out, const real *x, const batch *b)
{
    int64_t first, last, stride = row_stride(l->inputs);
    thread_share(b->team, b->n, 1, &first, &last);
    for (int64_t r = first; r < last; r++)
        image_out(out + r * stride, x + r * stride, l->spec.in);
    activation_forward(out, l->spec.activation, first, last, l->outputs);
}

static void flatten_backward_input(layer *l, real *dx, const real *dz, const real *x,
                                   nn_activation below, const batch *b)
{
    int64_t first, last, stride = row_stride(l->inputs);
    thread_share(b->team, b->n, 1, &first, &last);
    for (int64_t r = first; r < last; r++)
        image_in(dx + r * stride, dz + r * stride, l->spec.in);
    activation_backward(dx, x, below, first, last, l->inputs);
}

static const layer_kind flatten_kind = {
    .forward = flatten_forward, .backward_input = flatten_backward_input, .flops = copy_flops,
    .fast = {.by_rows = 1},
};

/* ---- an activation as a layer of its own: out = f(x), dx = dz f'(x) ----
 *
 * Other layers take f' from their output and keep no second array. This layer is for activations
 * that do not allow it: silu and gelu fall before they rise, so an output belongs to two inputs. */

static void activation_layer_forward(layer *l, real *out, const real *x, const batch *b)
{
    int64_t first, last, stride = row_stride(l->inputs);
    thread_share(b->team, b->n, 1, &first, &last);
    /* row by row: the row is in the L1 cache the second time */
    for (int64_t r = first; r < last; r++) {
        take_rows(out + r * stride, stride, x + r * stride, stride, 1, stride);
        activation_forward(out, l->spec.function, r, r + 1, l->outputs);
    }
}

static void activation_layer_backward(layer *l, real *dx, const real *dz, const real *x,
                                      nn_activation below, const batch *b)
{
    int64_t first, last, stride = row_stride(l->inputs);
    thread_share(b->team, b->n, 1, &first, &last);
    for (int64_t r = first; r < last; r++) {
        take_rows(dx + r * stride, stride, dz + r * stride, stride, 1, stride);
        activation_backward_from_input(dx, x, l->spec.function, r, r + 1, l->inputs);
        activation_backward(dx, x, below, r, r + 1, l->inputs);
    }
}

static const layer_kind activation_kind = {
    .forward = activation_layer_forward, .backward_input = activation_layer_backward,
    .flops = activation_flops,
    .fast = {.by_rows = 1, .reads_input = 1},
};
