/* small_forward.c - predictions of small networks with the batch's rows side by side: values are (width, LANES), one
 * row in each lane of the vectors. All lanes are used even where outputs are no multiple of a vector, and all values of
 * LANES rows stay in the L1 cache. Sums have the same order as elsewhere, so a row's result does not depend on others.
 * uses: matrix_kernel.c (TALL), matrix.c (DEPTH, tile_height), dense_narrow.c (is_narrow)
 */
#include "../core.h"
#include "nn_aux.h"
#include "transpose.h"

enum { ACROSS = 2, LANES = ACROSS * VECTOR };
enum { MOST_LANE_BYTES = 64 * 1024 };   /* larger weights would leave the L1 and L2 caches */
enum { FEW_COLUMNS = 4 };               /* moved one by one sooner than as a block of VECTOR */

/* to (width, LANES) = from (LANES, from_row) transposed. Blocks may overlap at the end. */
APART void transpose_rows_in(real *to, const real *from, int64_t from_row, int64_t width)
{
    for (int64_t lane = 0; lane < LANES; lane += VECTOR, from += VECTOR * from_row) {
        int64_t k = 0;
        for (; k + VECTOR <= width; k += VECTOR)
            transpose_block(to + k * LANES + lane, LANES, from + k, from_row);
        if (width - k > FEW_COLUMNS && width >= VECTOR) {
            k = width - VECTOR;
            transpose_block(to + k * LANES + lane, LANES, from + k, from_row);
            k = width;
        }
        for (; k < width; k++)
            for (int i = 0; i < VECTOR; i++)
                to[k * LANES + lane + i] = from[i * from_row + k];
    }
}

/* ---- the micro-kernel: as in matrix_kernel.c, with outputs down, and rows of the batch across ---- */

/* out (rows, LANES) = f(sums + bias) where that takes no time, else the sums and their bias */
INLINE void lane_tile(const int rows, real *out, const real *x, const real *w, int64_t w_row, int64_t k,
                      const real *bias, nn_activation activation)
{
    const real floor = activation == NN_RELU ? 0 : -(real)INFINITY;
    vec sum[TALL][ACROSS];
    #pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        #pragma GCC unroll 2
        for (int s = 0; s < ACROSS; s++)
            sum[r][s] = (vec){};
    for (int64_t q = 0; q < k; q++) {
        vec right[ACROSS];
        #pragma GCC unroll 2
        for (int s = 0; s < ACROSS; s++)
            right[s] = load(x + q * LANES + s * VECTOR);
        #pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            vec left = splat(w[q * w_row + r]);
            #pragma GCC unroll 2
            for (int s = 0; s < ACROSS; s++)
                sum[r][s] += left * right[s];
        }
    }
    #pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        #pragma GCC unroll 2
        for (int s = 0; s < ACROSS; s++) {
            vec z = sum[r][s] + bias[r];
            store(out + r * LANES + s * VECTOR, pick(z <= floor, splat(floor), z));
        }
}

#define LANE_TILE(rows) \
    static void lane_tile_##rows(real *out, const real *x, const real *w, int64_t w_row, int64_t k, \
                                 const real *bias, nn_activation activation) \
    { \
        lane_tile(rows, out, x, w, w_row, k, bias, activation); \
    }
typedef void lane_tile_function(real *, const real *, const real *, int64_t, int64_t, const real *,
                                nn_activation);
LANE_TILE(1) LANE_TILE(2) LANE_TILE(3) LANE_TILE(4) LANE_TILE(5) LANE_TILE(6)
#if VECTOR_BYTES == 64
LANE_TILE(7) LANE_TILE(8) LANE_TILE(9) LANE_TILE(10) LANE_TILE(11) LANE_TILE(12)
#endif
static lane_tile_function *const lane_tiles[TALL] = {
    lane_tile_1, lane_tile_2, lane_tile_3, lane_tile_4, lane_tile_5, lane_tile_6,
#if VECTOR_BYTES == 64
    lane_tile_7, lane_tile_8, lane_tile_9, lane_tile_10, lane_tile_11, lane_tile_12,
#endif
};

/* ---- layers ---- */

INLINE void activate_lanes(const nn_activation activation, real *z, int64_t outputs)
{
    for (int64_t at = 0; at < outputs * LANES; at += VECTOR)
        store(z + at, activation_v(activation, load(z + at)));
}

/* sum += x times w, in all lanes */
INLINE void add_lanes(vec sum[ACROSS], const real *x, real w)
{
    for (int s = 0; s < ACROSS; s++)
        sum[s] += load(x + s * VECTOR) * w;
}

/* z += what dot_product has in place `first` of its vector. */
INLINE void lane_product(vec z[ACROSS], const real *x, const real *w, int64_t first, int64_t inputs, int64_t stride)
{
    vec sum[4][ACROSS] = {{{0}}};
    int64_t k = 0;
    for (; k + 4 * VECTOR <= stride; k += 4 * VECTOR)
        for (int i = 0; i < 4; i++) {
            int64_t at = k + i * VECTOR + first;
            if (at < inputs)
                add_lanes(sum[i], x + at * LANES, w[at]);
        }
    for (; k + first < inputs; k += VECTOR)
        add_lanes(sum[0], x + (k + first) * LANES, w[k + first]);
    for (int s = 0; s < ACROSS; s++)
        z[s] += (sum[0][s] + sum[1][s]) + (sum[2][s] + sum[3][s]);
}

static void narrow_lanes(const layer *l, real *out, const real *x)
{
    int64_t stride = row_stride(l->inputs);
    for (int64_t j = 0; j < l->outputs; j++, out += LANES) {
        vec z[ACROSS];
        for (int s = 0; s < ACROSS; s++)
            z[s] = splat(l->b[j]);
        for (int64_t first = 0; first < min_i64(VECTOR, l->inputs); first++)
            lane_product(z, x, l->w + j * stride, first, l->inputs, stride);
        for (int s = 0; s < ACROSS; s++)
            store(out + s * VECTOR, z[s]);
    }
}

/* out (outputs, LANES) = f(w' x (inputs, LANES) + b) */
static void dense_lanes(const layer *l, real *out, const real *x)
{
    nn_activation activation = l->spec.activation;
    int narrow = is_narrow(&l->spec);
    if (narrow)
        narrow_lanes(l, out, x);
    for (int64_t j = 0, rows; j < l->outputs && !narrow; j += rows) {
        rows = tile_height(l->outputs, j, TALL);
        lane_tiles[rows - 1](out + j * LANES, x, l->w + j, row_stride(l->outputs), l->inputs, l->b + j, activation);
    }
    if (activation != NN_LINEAR && (narrow || activation != NN_RELU))
        FOR_ACTIVATION(activation, activate_lanes, out, l->outputs)
}

/* Whether all layers can be computed in this way, and gain by it. Elsewhere sums longer than DEPTH are divided. */
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
    const real *from = net->buffers.x;
    int64_t outputs = net->layers[net->count - 1].outputs;
    transpose_rows_in(net->buffers.x, x, x_row, net->layers[0].inputs);
    for (int i = 0; i < net->count; i++) {
        dense_lanes(&net->layers[i], net->layers[i].out, from);
        from = net->layers[i].out;
    }
    transpose(out, outputs, from, LANES, outputs, LANES);
}
