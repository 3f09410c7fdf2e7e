/* pool.c - max and average pooling over k x k windows, plain build. Windows may overlap or leave
 * gaps; all are inside the image.
 */
#include "../core.h"
#include <math.h>
#include <string.h>

/* The place of the first maximum, in row-major order, of the window at `at` in an image of that
 * width; of a NaN where there is one. */
static int64_t first_maximum(const real *image, int64_t at, int64_t width, int64_t k)
{
    int64_t best = at;
    for (int64_t y = 0; y < k; y++)
        for (int64_t x = 0; x < k; x++)
            if (image[at + y * width + x] > image[best] || isnan(image[at + y * width + x]))
                best = at + y * width + x;
    return best;
}

static double window_sum(const real *window, int64_t width, int64_t k)
{
    double sum = 0;
    for (int64_t y = 0; y < k; y++)
        for (int64_t x = 0; x < k; x++)
            sum += window[y * width + x];
    return sum;
}

/* one channel: out (oh,ow) = the maximum of each window of image (ih,iw) */
static void maxpool_plane_forward(real *out, const real *image, const nn_layer *s)
{
    for (int64_t oy = 0; oy < s->out[1]; oy++)
        for (int64_t ox = 0; ox < s->out[2]; ox++)
            *out++ =
                image[first_maximum(image, (oy * s->in[2] + ox) * s->stride, s->in[2], s->kernel)];
}

/* sum (ih,iw) += dz (oh,ow), each at its window's first maximum */
static void maxpool_plane_backward(double *sum, const real *dz, const real *image,
                                   const nn_layer *s)
{
    for (int64_t oy = 0; oy < s->out[1]; oy++)
        for (int64_t ox = 0; ox < s->out[2]; ox++)
            sum[first_maximum(image, (oy * s->in[2] + ox) * s->stride, s->in[2], s->kernel)] +=
                *dz++;
}

static void avgpool_plane_forward(real *out, const real *image, const nn_layer *s)
{
    double area = (double)s->kernel * s->kernel;
    for (int64_t oy = 0; oy < s->out[1]; oy++)
        for (int64_t ox = 0; ox < s->out[2]; ox++)
            *out++ =
                (real)(window_sum(image + (oy * s->in[2] + ox) * s->stride, s->in[2], s->kernel) /
                       area);
}

static void avgpool_plane_backward(double *sum, const real *dz, const nn_layer *s)
{
    double area = (double)s->kernel * s->kernel;
    for (int64_t oy = 0; oy < s->out[1]; oy++)
        for (int64_t ox = 0; ox < s->out[2]; ox++, dz++)
            for (int64_t y = 0; y < s->kernel; y++)
                for (int64_t x = 0; x < s->kernel; x++)
                    sum[(oy * s->stride + y) * s->in[2] + ox * s->stride + x] += *dz / area;
}

static int64_t pool_workspace(const nn_layer *spec, int64_t n, int threads)
{
    (void)n, (void)threads;
    return (int64_t)spec->in[1] * spec->in[2] * (int64_t)sizeof(double);
}

static void pool_forward(layer *l, real *out, const real *x, const batch *b)
{
    const nn_layer *s = &l->spec;
    int64_t in = (int64_t)s->in[1] * s->in[2], pixels = (int64_t)s->out[1] * s->out[2];
    for (int64_t p = 0; p < b->n * s->in[0]; p++)
        (s->kind == NN_MAXPOOL ? maxpool_plane_forward : avgpool_plane_forward)(out + p * pixels,
                                                                                x + p * in, s);
    activation_forward(out, s->activation, 0, b->n, l->outputs);
}

static void pool_backward_input(layer *l, real *dx, const real *dz, const real *x,
                                nn_activation below, const batch *b)
{
    const nn_layer *s = &l->spec;
    int64_t in = (int64_t)s->in[1] * s->in[2], pixels = (int64_t)s->out[1] * s->out[2];
    double *sum = l->work;
    for (int64_t p = 0; p < b->n * s->in[0]; p++) {
        memset(sum, 0, (size_t)in * sizeof *sum);
        if (s->kind == NN_MAXPOOL)
            maxpool_plane_backward(sum, dz + p * pixels, x + p * in, s);
        else
            avgpool_plane_backward(sum, dz + p * pixels, s);
        for (int64_t i = 0; i < in; i++)
            dx[p * in + i] = (real)sum[i];
    }
    activation_backward(dx, x, below, 0, b->n, l->inputs);
}

#define POOL_KIND { \
    .forward = pool_forward, .backward_input = pool_backward_input, .flops = pool_flops, \
    .memory = {.workspace = pool_workspace}, \
}
static const layer_kind maxpool_kind = POOL_KIND, avgpool_kind = POOL_KIND;
