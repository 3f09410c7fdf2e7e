/* dense.c - the fully connected layer, plain build. Weight w is (o,i), sums run in index order, in double. */
#include "../core.h"
#include <stdlib.h>
#include <string.h>

/* out (n,o) = f(x (n,i) w' + b) */
static void dense_rows_forward(real *out, const real *x, const real *w, const real *b, int64_t n, int64_t i, int64_t o)
{
    for (int64_t r = 0; r < n; r++)
        for (int64_t j = 0; j < o; j++) {
            double sum = 0;
            for (int64_t k = 0; k < i; k++)
                sum += (double)w[j * i + k] * x[r * i + k];
            out[r * o + j] = (real)(sum + b[j]);
        }
}

/* dx (n,i) = dz (n,o) w; sum has room for i numbers, so that w is read along its rows */
static void dense_rows_backward_input(real *dx, const real *dz, const real *w, double *sum,
                                      int64_t n, int64_t i, int64_t o)
{
    for (int64_t r = 0; r < n; r++) {
        memset(sum, 0, (size_t)i * sizeof *sum);
        for (int64_t j = 0; j < o; j++)
            for (int64_t k = 0; k < i; k++)
                sum[k] += (double)w[j * i + k] * dz[r * o + j];
        for (int64_t k = 0; k < i; k++)
            dx[r * i + k] = (real)sum[k];
    }
}

/* dw (o,i) = dz' x, db (o) = column sums of dz; sum as above */
static void dense_rows_backward_parameters(real *dw, real *db, const real *dz, const real *x, double *sum,
                                           int64_t n, int64_t i, int64_t o)
{
    for (int64_t j = 0; j < o; j++) {
        double bias = 0;
        memset(sum, 0, (size_t)i * sizeof *sum);
        for (int64_t r = 0; r < n; r++) {
            bias += dz[r * o + j];
            for (int64_t k = 0; k < i; k++)
                sum[k] += (double)dz[r * o + j] * x[r * i + k];
        }
        for (int64_t k = 0; k < i; k++)
            dw[j * i + k] = (real)sum[k];
        db[j] = (real)bias;
    }
}

static int64_t dense_weights(const nn_layer *spec) { return values(spec->in) * values(spec->out); }

static int64_t dense_workspace(const nn_layer *spec, int64_t n, int threads)
{
    (void)n, (void)threads;
    return values(spec->in) * (int64_t)sizeof(double);
}

static void dense_forward(layer *l, real *out, const real *x, const batch *b)
{
    dense_rows_forward(out, x, l->w, l->b, b->n, l->inputs, l->outputs);
    activation_forward(out, l->spec.activation, 0, b->n, l->outputs);
}

static void dense_backward_input(layer *l, real *dx, const real *dz, const real *x, nn_activation below, const batch *b)
{
    dense_rows_backward_input(dx, dz, l->w, l->work, b->n, l->inputs, l->outputs);
    activation_backward(dx, x, below, 0, b->n, l->inputs);
}

static int dense_gradient(layer *l, const real *dz, const real *x, const batch *b)
{
    dense_rows_backward_parameters(l->dw, l->db, dz, x, l->work, b->n, l->inputs, l->outputs);
    return 0;
}

static const layer_kind dense_kind = {
    .forward = dense_forward, .backward_input = dense_backward_input, .flops = dense_flops,
    .parameters = {
        .size = dense_weights, .import = weights_copy, .export = weights_copy, .gradient = dense_gradient,
    },
    .memory = {.workspace = dense_workspace},
};
