/* conv.c - convolution, plain build. Images are NCHW, kernels (out,in,k,k) and not flipped (a
 * correlation); sums run in index order, in double.
 *
 * All three passes walk the taps of the kernel one after the other and, for each, the outputs
 * whose window finds a pixel there: zeros around the image are never stored, and never
 * multiplied.
 */
#include "../core.h"
#include <string.h>

/* For one tap of the kernel, along one side: outputs [first, last) read input o * stride +
 * shift. */
typedef struct {
    int64_t first, last, stride, shift;
} taps;

static taps taps_of(int64_t tap, int64_t in, int64_t out, int64_t stride, int64_t pad)
{
    int64_t shift = tap - pad;
    int64_t first = shift < 0 ? (-shift + stride - 1) / stride : 0;
    int64_t last = in > shift ? (in - shift + stride - 1) / stride : 0;
    return (taps){min_i64(first, out), min_i64(last, out), stride, shift};
}

static taps taps_down(const nn_layer *s, int64_t tap)
{
    return taps_of(tap, s->in[1], s->out[1], s->stride, s->pad_top);
}

static taps taps_right(const nn_layer *s, int64_t tap)
{
    return taps_of(tap, s->in[2], s->out[2], s->stride, s->pad_left);
}

/* Forward: sum (oh,ow) += w[ky][kx] plane (ih,iw) seen through the window, w (k,k). Backward:
 * sum (ih,iw) += w[ky][kx] plane (oh,ow), each where the forward pass read. */
static void plane_pass(double *sum, const real *plane, const real *w, int backward,
                       const nn_layer *s)
{
    for (int64_t ky = 0; ky < s->kernel; ky++)
        for (int64_t kx = 0; kx < s->kernel; kx++) {
            taps y = taps_down(s, ky), x = taps_right(s, kx);
            double weight = w[ky * s->kernel + kx];
            for (int64_t oy = y.first; oy < y.last; oy++) {
                int64_t in = (oy * y.stride + y.shift) * s->in[2] + x.shift, out = oy * s->out[2];
                for (int64_t ox = x.first; ox < x.last; ox++)
                    if (backward)
                        sum[in + ox * x.stride] += weight * plane[out + ox];
                    else
                        sum[out + ox] += weight * plane[in + ox * x.stride];
            }
        }
}

/* the weight gradient of one tap: dz (oh,ow) times the image it saw */
static double plane_backward_tap(const real *dz, const real *image, taps y, taps x,
                                 const nn_layer *s)
{
    double sum = 0;
    for (int64_t oy = y.first; oy < y.last; oy++) {
        const real *row = image + (oy * y.stride + y.shift) * s->in[2] + x.shift;
        for (int64_t ox = x.first; ox < x.last; ox++)
            sum += (double)dz[oy * s->out[2] + ox] * row[ox * x.stride];
    }
    return sum;
}

/* dw (c,k,k) of one filter: the sum over n images */
static void conv_filter_backward(real *dw, const real *dz, const real *x, int64_t n,
                                 const nn_layer *s)
{
    int64_t in = (int64_t)s->in[1] * s->in[2], inputs = values(s->in), outputs = values(s->out);
    for (int64_t c = 0; c < s->in[0]; c++)
        for (int64_t ky = 0; ky < s->kernel; ky++)
            for (int64_t kx = 0; kx < s->kernel; kx++) {
                double sum = 0;
                for (int64_t r = 0; r < n; r++)
                    sum += plane_backward_tap(dz + r * outputs, x + r * inputs + c * in,
                                              taps_down(s, ky), taps_right(s, kx), s);
                *dw++ = (real)sum;
            }
}

/* db of one filter: the sum of its dz over n images */
static double conv_filter_bias(const real *dz, int64_t n, int64_t pixels, int64_t outputs)
{
    double sum = 0;
    for (int64_t r = 0; r < n; r++)
        for (int64_t p = 0; p < pixels; p++)
            sum += dz[r * outputs + p];
    return sum;
}

static int64_t conv_workspace(const nn_layer *spec, int64_t n, int threads)
{
    (void)n, (void)threads;
    return max_i64((int64_t)spec->in[1] * spec->in[2], (int64_t)spec->out[1] * spec->out[2]) *
           (int64_t)sizeof(double);
}

/* out (f,oh,ow) of each image = f(x (c,ih,iw) through w (f,c,k,k), + b) */
static void conv_forward(layer *l, real *out, const real *x, const batch *b)
{
    const nn_layer *s = &l->spec;
    int64_t area = s->kernel * s->kernel, in = (int64_t)s->in[1] * s->in[2],
            pixels = (int64_t)s->out[1] * s->out[2];
    double *sum = l->work;
    for (int64_t r = 0; r < b->n; r++)
        for (int64_t f = 0; f < s->out[0]; f++) {
            memset(sum, 0, (size_t)pixels * sizeof *sum);
            for (int64_t c = 0; c < s->in[0]; c++)
                plane_pass(sum, x + r * l->inputs + c * in, l->w + (f * s->in[0] + c) * area, 0, s);
            for (int64_t p = 0; p < pixels; p++)
                out[r * l->outputs + f * pixels + p] = (real)(sum[p] + l->b[f]);
        }
    activation_forward(out, s->activation, 0, b->n, l->outputs);
}

static void conv_backward_input(layer *l, real *dx, const real *dz, const real *x,
                                nn_activation below, const batch *b)
{
    const nn_layer *s = &l->spec;
    int64_t area = s->kernel * s->kernel, in = (int64_t)s->in[1] * s->in[2],
            pixels = (int64_t)s->out[1] * s->out[2];
    double *sum = l->work;
    for (int64_t r = 0; r < b->n; r++)
        for (int64_t c = 0; c < s->in[0]; c++) {
            memset(sum, 0, (size_t)in * sizeof *sum);
            for (int64_t f = 0; f < s->out[0]; f++)
                plane_pass(sum, dz + r * l->outputs + f * pixels, l->w + (f * s->in[0] + c) * area,
                           1, s);
            for (int64_t p = 0; p < in; p++)
                dx[r * l->inputs + c * in + p] = (real)sum[p];
        }
    activation_backward(dx, x, below, 0, b->n, l->inputs);
}

static int conv_gradient(layer *l, const real *dz, const real *x, const batch *b)
{
    const nn_layer *s = &l->spec;
    int64_t pixels = (int64_t)s->out[1] * s->out[2];
    for (int64_t f = 0; f < s->out[0]; f++) {
        conv_filter_backward(l->dw + f * s->in[0] * s->kernel * s->kernel, dz + f * pixels, x, b->n,
                             s);
        l->db[f] = (real)conv_filter_bias(dz + f * pixels, b->n, pixels, l->outputs);
    }
    return 0;
}

static const layer_kind conv_kind = {
    .forward = conv_forward, .backward_input = conv_backward_input, .flops = conv_flops,
    .parameters = {
        .size = conv_weights, .import = weights_copy, .export = weights_copy,
        .gradient = conv_gradient,
    },
    .memory = {.workspace = conv_workspace},
};
