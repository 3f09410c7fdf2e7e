/* dropout.cu - while training, sets a share of the values to 0 and scales the others by 1 / (1 -
 * share).
 *
 * Which values: the rule of the C core's plain.c, a function of the value's number in the whole
 * batch, the step and the layer. The backward pass draws the same mask again. A thread takes the
 * four values that one Philox block decides, or those of them that are in this member's share of
 * the batch.
 */

/* take(e, kept) for each value e of the batch's rows */
template <int WIDTH, int LAYER, class TAKE>
__device__ inline void for_each_kept(double rate, const batch &b, block_range range,
                                     const TAKE &take)
{
    const double threshold = rate * 4294967296.0;
    const int64 begin = b.first * WIDTH, end = begin + (int64)b.n * WIDTH;
    for (int64 block = begin / 4 + range.first(); block < (end + 3) / 4; block += range.stride()) {
        unsigned word[4];
        philox(word, b.seed, (unsigned)block, (unsigned)(block >> 32), b.step, LAYER);
        for (int i = 0; i < 4; i++) {
            int64 e = block * 4 + i;
            if (e >= begin && e < end)
                take((int)(e - begin), word[i] >= threshold);
        }
    }
}

template <int WIDTH, int LAYER, int ACTIVATION>
__device__ void dropout_forward(real *out, const real *x, double rate, const batch &b,
                                block_range range)
{
    const real scale = (real)(1 / (1 - rate));
    for_each_kept<WIDTH, LAYER>(rate, b, range, [&](int e, bool kept) {
        out[e] = activate<ACTIVATION>(kept ? x[e] * scale : 0);
    });
}

template <int WIDTH, int LAYER, int BELOW>
__device__ void dropout_backward(real *dx, const real *dz, const real *x, double rate,
                                 const batch &b, block_range range)
{
    const real scale = (real)(1 / (1 - rate));
    for_each_kept<WIDTH, LAYER>(rate, b, range, [&](int e, bool kept) {
        dx[e] = (kept ? dz[e] * scale : 0) * derivative<BELOW>(x[e]);
    });
}

/* ---- layers that pass on: flatten with an activation, dropout when nothing is being learnt,
 * and activations that are layers, whose FUNCTION takes its derivative from x ---- */

template <int WIDTH, int ACTIVATION>
__device__ void pass_forward(real *out, const real *x, int n, block_range range)
{
    for (int e = range.first(); e < n * WIDTH; e += range.stride())
        out[e] = activate<ACTIVATION>(x[e]);
}

template <int WIDTH, int FUNCTION, int BELOW>
__device__ void pass_backward(real *dx, const real *dz, const real *x, int n, block_range range)
{
    for (int e = range.first(); e < n * WIDTH; e += range.stride()) {
        real gradient = dz[e];
        if constexpr (FUNCTION != LINEAR)
            gradient *= derivative_from_input<FUNCTION>(x[e]);
        dx[e] = gradient * derivative<BELOW>(x[e]);
    }
}
