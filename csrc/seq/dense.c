/* dense.c - the fully connected layer, plain build. Weight w is (o,i), sums run in index order,
 * in double. */
#include "../core.h"
#include <stdlib.h>
#include <string.h>

static int64_t dense_weights(const nn_layer *spec) { return values(spec->in) * values(spec->out); }

/* The sums of a row of inputs, so that the weight is read along its rows. */
static int64_t dense_workspace(const nn_layer *spec, int64_t n, int threads)
{
    (void)n, (void)threads;
    return values(spec->in) * (int64_t)sizeof(double);
}

/* out (n,o) = f(x (n,i) w' + b) */
static void dense_forward(layer *l, real *out, const real *x, const batch *b)
{
    const int64_t i = l->inputs, o = l->outputs;
    for (int64_t r = 0; r < b->n; r++)
        for (int64_t j = 0; j < o; j++) {
            double sum = 0;
            for (int64_t k = 0; k < i; k++)
                sum += (double)l->w[j * i + k] * x[r * i + k];
            out[r * o + j] = (real)(sum + l->b[j]);
        }
    activation_forward(out, l->spec.activation, 0, b->n, o);
}

/* dx (n,i) = dz (n,o) w f'(x) */
static void dense_backward_input(layer *l, real *dx, const real *dz, const real *x,
                                 nn_activation below, const batch *b)
{
    const int64_t i = l->inputs, o = l->outputs;
    double *sum = l->work;
    for (int64_t r = 0; r < b->n; r++) {
        memset(sum, 0, (size_t)i * sizeof *sum);
        for (int64_t j = 0; j < o; j++)
            for (int64_t k = 0; k < i; k++)
                sum[k] += (double)l->w[j * i + k] * dz[r * o + j];
        for (int64_t k = 0; k < i; k++)
            dx[r * i + k] = (real)sum[k];
    }
    activation_backward(dx, x, below, 0, b->n, i);
}

/* dw (o,i) = dz' x, db (o) = column sums of dz */
static int dense_gradient(layer *l, const real *dz, const real *x, const batch *b)
{
    const int64_t i = l->inputs, o = l->outputs;
    double *sum = l->work;
    for (int64_t j = 0; j < o; j++) {
        double bias = 0;
        memset(sum, 0, (size_t)i * sizeof *sum);
        for (int64_t r = 0; r < b->n; r++) {
            bias += dz[r * o + j];
            for (int64_t k = 0; k < i; k++)
                sum[k] += (double)dz[r * o + j] * x[r * i + k];
        }
        for (int64_t k = 0; k < i; k++)
            l->dw[j * i + k] = (real)sum[k];
        l->db[j] = (real)bias;
    }
    return 0;
}

/* w (o,i) = v s: a step of v and one of the scales s (i) */
static void dense_scaled_step(layer *l, const batch *b)
{
    const int64_t i = l->inputs, o = l->outputs;
    real *excess = l->scales, *m = excess + i, *v = m + i, *g = v + i;
    update of_scales = *b->update;
    of_scales.rate *= of_scales.scale_rate;
    for (int64_t k = 0; k < i; k++) {
        double scale = 1 + (double)excess[k], sum = 0;
        for (int64_t at = k; at < o * i; at += i) {
            l->w[at] = (real)(l->w[at] / scale);
            sum += (double)l->dw[at] * l->w[at];
            l->dw[at] = (real)(l->dw[at] * scale);
        }
        g[k] = (real)sum;
    }
    optimizer_step(excess, g, m, v, i, 0, &of_scales);
    optimizer_step(l->w, l->dw, l->m, l->v, o * i, 1, b->update);
    for (int64_t k = 0; k < i; k++) {
        if (excess[k] < LEAST_EXCESS)
            excess[k] = (real)LEAST_EXCESS;
        for (int64_t at = k; at < o * i; at += i)
            l->w[at] = (real)(l->w[at] * (1 + (double)excess[k]));
    }
}

static const layer_kind dense_kind = {
    .forward = dense_forward, .backward_input = dense_backward_input, .flops = dense_flops,
    .parameters = {
        .size = dense_weights, .import = weights_copy, .export = weights_copy,
        .gradient = dense_gradient, .scaled_step = dense_scaled_step,
    },
    .memory = {.workspace = dense_workspace},
};
