/* lanes.c - the forward pass of small networks with a batch's rows side by side: values lie (width, LANES), a row in
 * each lane of the vectors. No lane stays empty for a layer whose outputs are no multiple of a vector, as they would
 * if vectors ran along outputs, and all that LANES rows become stays in the first-level cache. Sums have the order that
 * they have elsewhere, so a row's results do not depend on the rows around it.
 */
#include "../core.h"
#include "vector.h"

enum { LANES = PANEL, MOST_LANE_BYTES = 64 * 1024 };    /* larger weights would not stay near */

/* to (width, LANES) = the turned rows of from (LANES, from_row). Blocks may overlap at the end. */
static void turn_in(real *to, const real *from, int64_t from_row, int64_t width)
{
    for (int64_t lane = 0; lane < LANES; lane += VECTOR)
        for (int64_t at = 0; at < width; at += VECTOR) {
            int64_t k = max_i64(0, min_i64(at, width - VECTOR));
            if (width < VECTOR)
                transpose(to + lane, LANES, from + lane * from_row, from_row, VECTOR, width);
            else
                transpose_block(to + k * LANES + lane, LANES, from + lane * from_row + k, from_row);
        }
}

INLINE void activate_lanes(const int activation, real *z, const real *bias, int64_t outputs)
{
    for (int64_t j = 0; j < outputs; j++)
        for (int lane = 0; lane < LANES; lane += VECTOR)
            store(z + j * LANES + lane, activation_v(activation, load(z + j * LANES + lane) + bias[j]));
}

/* What dot_product has in place `first` of its vector, for VECTOR rows. */
INLINE vec lane_product(const real *x, const real *w, int64_t first, int64_t inputs, int64_t stride)
{
    vec sum[4] = {{0}};
    int64_t k = 0;
    for (; k + 4 * VECTOR <= stride; k += 4 * VECTOR)
        for (int s = 0; s < 4; s++)
            if (k + s * VECTOR + first < inputs)
                sum[s] += load(x + (k + s * VECTOR + first) * LANES) * w[k + s * VECTOR + first];
    for (; k + first < inputs; k += VECTOR)
        sum[0] += load(x + (k + first) * LANES) * w[k + first];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static void narrow_lanes(const layer *l, real *out, const real *x)
{
    int64_t stride = row_stride(l->inputs);
    for (int64_t j = 0; j < l->outputs; j++)
        for (int lane = 0; lane < LANES; lane += VECTOR) {
            vec z = splat(l->b[j]);
            for (int64_t i = 0; i < min_i64(VECTOR, l->inputs); i++)
                z += lane_product(x + lane, l->w + j * stride, i, l->inputs, stride);
            store(out + j * LANES + lane, activation_v(l->spec.activation, z));
        }
}

/* out (outputs, LANES) = f(w' x (inputs, LANES) + b) */
static void dense_lanes(const layer *l, real *out, const real *x)
{
    if (is_narrow(&l->spec)) {
        narrow_lanes(l, out, x);
        return;
    }
    product p = {
        .m = l->outputs, .n = LANES, .k = l->inputs, .a_row = 1, .a_col = row_stride(l->outputs),
        .b_row = LANES, .b_col = 1, .c = out, .c_row = LANES,
    };
    const blocking as_they_lie = {0};
    multiply_block(&p, &as_they_lie, l->w, x, 0, p.m, 0, LANES, p.k, 0, 1);
    FOR_ACTIVATION(l->spec.activation, activate_lanes, out, l->b, l->outputs)
}

/* Whether all layers can be computed so, and gain by it; longer sums than DEPTH come in pieces elsewhere. */
static int fits_lanes(const nn_net *net)
{
    for (int i = 0; i < net->count; i++) {
        const layer *l = &net->layers[i];
        if (l->kind != &dense_kind || l->spec.activation == NN_SOFTMAX || l->inputs > DEPTH)
            return 0;
    }
    return net->engine_size * (int64_t)sizeof(real) <= MOST_LANE_BYTES;
}

/* out (LANES, outputs) = the network of LANES rows of x. */
static void forward_lanes(nn_net *net, real *out, const real *x, int64_t x_row)
{
    const real *from = net->x;
    int64_t outputs = net->layers[net->count - 1].outputs;
    turn_in(net->x, x, x_row, net->layers[0].inputs);
    for (int i = 0; i < net->count; i++) {
        dense_lanes(&net->layers[i], net->layers[i].out, from);
        from = net->layers[i].out;
    }
    transpose(out, outputs, from, LANES, outputs, LANES);
}
