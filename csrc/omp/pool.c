/* pool.c - max and average pooling, fast. Images are channels-last: a vector holds channels of
 * one pixel, of few channels those of the next pixels too, which do not count. For the backward
 * pass, max pooling keeps the offset of each maximum from its window's corner.
 */
#include "../core.h"
#include "nn_aux.h"

/* `lanes` windows whose corners lie at x: their largest values, the first of equal ones, or
 * a NaN where there is one, and where these stand. */
INLINE vec window_largest(const real *x, const int64_t k, int64_t row, int64_t c, int64_t lanes,
                          ivec *where)
{
    vec most = load_lanes(x, lanes);
    ivec at = {};
    #pragma GCC unroll 4
    for (int64_t y = 0; y < k; y++)
        #pragma GCC unroll 4
        for (int64_t i = 0; i < k; i++) {
            vec value = load_lanes(x + y * row + i * c, lanes);
            ivec more = (value > most) | (value != value);
            most = pick(more, value, most);
            at = (more & (integer)(y * row + i * c)) | (~more & at);
        }
    *where = at;
    return most;
}

INLINE vec window_total(const real *x, const int64_t k, int64_t row, int64_t c, int64_t lanes)
{
    vec sum = {};
    for (int64_t y = 0; y < k; y++)
        for (int64_t i = 0; i < k; i++)
            sum += load_lanes(x + y * row + i * c, lanes);
    return sum;
}

/* One row of windows: out (ow,c), and where (ow,c) for maxima; where NULL: means. */
INLINE void pool_row(const int64_t k, real *out, integer *where, const real *x, const nn_layer *s)
{
    int64_t c = s->in[0], row = s->in[2] * c, windows = s->out[2], pitch = s->stride * c;
    real share = 1 / ((real)k * k);
    for (int64_t r = 0; r < windows; r++)
        for (int64_t j = 0; j < c; j += VECTOR) {
            /* the last vector overlaps the one before */
            int64_t i = max_i64(0, min_i64(j, c - VECTOR));
            const real *window = x + r * pitch + i;
            if (where) {
                ivec at;
                store_some(out + r * c + i, window_largest(window, k, row, c, c - i, &at), c - i);
                store_some((real *)(where + r * c + i), (vec)at, c - i);
            } else {
                store_some(out + r * c + i, window_total(window, k, row, c, c - i) * share, c - i);
            }
        }
}

/* A call with the window's side as a constant where that is a usual one: its loops are short. */
#define FOR_SIDE(side, call, ...) \
    switch (side) { \
    case 2: call(2, __VA_ARGS__); break; \
    case 3: call(3, __VA_ARGS__); break; \
    case 4: call(4, __VA_ARGS__); break; \
    default: call(side, __VA_ARGS__); \
    }

/* Images [first, last) of the batch. */
static void pool_images(const layer *l, real *out, integer *where, const real *x, int64_t first,
                        int64_t last)
{
    const nn_layer *s = &l->spec;
    int64_t in_row = (int64_t)s->in[2] * s->in[0], out_row = (int64_t)s->out[2] * s->out[0];
    for (int64_t r = first; r < last; r++)
        for (int64_t y = 0; y < s->out[1]; y++)
            FOR_SIDE(s->kernel, pool_row, out + r * row_stride(l->outputs) + y * out_row,
                     where ? where + r * l->outputs + y * out_row : NULL,
                     x + r * row_stride(l->inputs) + y * s->stride * in_row, s)
}

/* Where each maximum stands. */
static int64_t maxpool_workspace(const nn_layer *spec, int64_t n, int threads)
{
    (void)threads;
    return n * values(spec->out) * (int64_t)sizeof(integer);
}

/* Windows that do not overlap: each value of dx belongs to one, or to none and is 0. c >= VECTOR */
INLINE void maxpool_window_backward(const int64_t k, real *dx, const real *dz, const integer *where,
                                    const real *out, int64_t c, int64_t row)
{
    for (int64_t j = 0; j < c; j += VECTOR) {
        int64_t i = min_i64(j, c - VECTOR);     /* the last vector overlaps the one before */
        vec gradient = out ? derivative_v(NN_RELU, load(out + i), load(dz + i)) : load(dz + i);
        ivec at;
        memcpy(&at, where + i, sizeof at);
        #pragma GCC unroll 4
        for (int64_t y = 0; y < k; y++)
            #pragma GCC unroll 4
            for (int64_t x = 0; x < k; x++) {
                integer here = (integer)(y * row + x * c);
                store(dx + here + i, (vec)((at == here) & (ivec)gradient));
            }
    }
}

/* out, where not NULL: the maxima are outputs of a relu, whose derivative is applied on the way. */
INLINE void maxpool_image_backward(const int64_t k, real *dx, const real *dz, const integer *where,
                                   const real *out, const nn_layer *s)
{
    int64_t c = s->in[0], row = s->in[2] * c;
    int apart = s->stride >= s->kernel && c >= VECTOR;
    int covered = s->stride == s->kernel && s->in[1] == s->out[1] * s->stride &&
                  s->in[2] == s->out[2] * s->stride;
    if (!apart || !covered)
        memset(dx, 0, (size_t)values(s->in) * sizeof *dx);
    for (int64_t oy = 0, at = 0; oy < s->out[1]; oy++)
        for (int64_t ox = 0; ox < s->out[2]; ox++, at += c) {
            real *corner = dx + oy * s->stride * row + ox * s->stride * c;
            if (apart)
                maxpool_window_backward(k, corner, dz + at, where + at, out ? out + at : NULL, c,
                                        row);
            else
                for (int64_t i = at; i < at + c; i++)
                    if (!out || out[i] > 0)
                        corner[where[i] + i - at] += dz[i];
        }
}

static void pool_forward(layer *l, real *out, const real *x, const batch *b)
{
    integer *where = l->spec.kind == NN_MAXPOOL ? (integer *)l->work + b->row * l->outputs : NULL;
    int64_t first, last;
    thread_share(b->team, b->n, 1, &first, &last);
    pool_images(l, out, where, x, first, last);
    activation_forward(out, l->spec.activation, first, last, l->outputs);
}

/* relu below: its derivative is taken from the maxima, which are fewer than the pooled values. */
static int maxpool_reads_output(const nn_layer *spec, nn_activation below)
{
    return below == NN_RELU && spec->activation == NN_LINEAR;
}

static void avgpool_image_backward(real *dx, const real *dz, const nn_layer *s)
{
    int64_t c = s->in[0], row = s->in[2] * c;
    real share = 1 / ((real)s->kernel * s->kernel);
    memset(dx, 0, (size_t)values(s->in) * sizeof *dx);
    for (int64_t oy = 0; oy < s->out[1]; oy++)
        for (int64_t ox = 0; ox < s->out[2]; ox++, dz += c)
            for (int64_t y = 0; y < s->kernel; y++)
                for (int64_t k = 0; k < s->kernel; k++) {
                    real *to = dx + (oy * s->stride + y) * row + (ox * s->stride + k) * c;
                    for (int64_t i = 0; i < c; i++)
                        to[i] += dz[i] * share;
                }
}

static void pool_backward_input(layer *l, real *dx, const real *dz, const real *x,
                                nn_activation below, const batch *b)
{
    const nn_layer *s = &l->spec;
    int is_max = s->kind == NN_MAXPOOL,
        fused = is_max && maxpool_reads_output(s, below) && l->dz != l->out;
    int64_t first, last;
    thread_share(b->team, b->n, 1, &first, &last);
    for (int64_t r = first; r < last; r++) {
        int64_t at = r * row_stride(l->outputs);
        real *to = dx + r * row_stride(l->inputs);
        if (is_max)
            FOR_SIDE(s->kernel, maxpool_image_backward, to, dz + at,
                     (const integer *)l->work + (b->row + r) * l->outputs,
                     fused ? l->out + b->row * row_stride(l->outputs) + at : NULL, s)
        else
            avgpool_image_backward(to, dz + at, s);
        if (!fused)
            activation_backward(dx, x, below, r, r + 1, l->inputs);
    }
}

static const layer_kind maxpool_kind = {
    .forward = pool_forward, .backward_input = pool_backward_input, .flops = pool_flops,
    .memory = {.workspace = maxpool_workspace},
    .fast = {.by_rows = 1, .reads_output = maxpool_reads_output},
};
static const layer_kind avgpool_kind = {
    .forward = pool_forward, .backward_input = pool_backward_input, .flops = pool_flops,
    .fast = {.by_rows = 1},
};
