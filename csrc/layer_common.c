/* layer_common.c - what layers of both builds share: weights in the caller's layout, and
 * operation counts. */
#include "core.h"

/* ---- weights ---- */

/* In and out. */
static void weights_copy(const layer *l, real *to, const real *from)
{
    memcpy(to, from, (size_t)l->weight_size * sizeof(real));
}

/* (out, in, kh, kw) */
static int64_t conv_weights(const nn_layer *spec)
{
    return (int64_t)spec->out[0] * spec->in[0] * spec->kernel * spec->kernel;
}

/* ---- operations of one row's forward pass ---- */

static double dense_flops(const nn_layer *spec)
{ return 2.0 * (double)values(spec->in) * (double)values(spec->out); }

static double conv_flops(const nn_layer *spec)
{
    return 2.0 * (double)conv_weights(spec) * spec->out[1] * spec->out[2];
}

static double pool_flops(const nn_layer *spec)
{ return (double)values(spec->out) * spec->kernel * spec->kernel; }
static double copy_flops(const nn_layer *spec) { return (double)values(spec->in); }

/* Sine and cosine of a wave are some thirty operations. */
static double embedding_flops(const nn_layer *spec)
{
    double sum = (double)values(spec->out);
    for (int32_t k = 0; k < spec->in[0]; k++)
        sum += 30.0 * spec->columns[k].waves;
    return sum;
}

/* An exponential is some twenty operations. */
static double activation_flops(const nn_layer *spec) { return 20.0 * (double)values(spec->in); }

/* A Philox block is some forty operations for four values. */
static double dropout_flops(const nn_layer *spec) { return 10.0 * (double)values(spec->in); }
