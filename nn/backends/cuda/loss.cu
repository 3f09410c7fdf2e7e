/* loss.cu - losses and their derivatives, row by row; the formulas of csrc/seq/nn_aux.c, in the
 * network's own type. */

/* d loss / d a for one output, before the division by their number */
template <int LOSS>
__device__ inline real loss_derivative(real difference)
{
    constexpr real distance = (real)loss_constant(LOSS, 0);
    if constexpr (LOSS == MSE)
        return 2 * difference;
    else if constexpr (LOSS == MAE)
        return (real)((difference > 0) - (difference < 0));
    else if constexpr (LOSS == HUBER)
        return difference > distance    ? distance
               : difference < -distance ? -distance
                                        : difference;
    else
        static_assert(LOSS < 0, "loss.cu: loss_derivative() has no formula for this loss");
}

template <int LOSS>
__device__ inline real loss_value(real difference)
{
    constexpr real distance = (real)loss_constant(LOSS, 0);
    real size = difference < 0 ? -difference : difference;
    if constexpr (LOSS == MSE)
        return difference * difference;
    else if constexpr (LOSS == MAE)
        return size;
    else if constexpr (LOSS == HUBER)
        return size <= distance ? (real)0.5 * size * size
                                : distance * (size - (real)0.5 * distance);
    else
        static_assert(LOSS < 0, "loss.cu: loss_value() has no formula for this loss");
}

/* Value k of the targets of a row: a label stands for a one-hot row. */
template <int WIDTH, int LABELS>
__device__ inline real target(const control &c, int64 row, int k)
{
    return LABELS ? (real)(((const int *)c.y)[row] == k) : ((const real *)c.y)[row * WIDTH + k];
}

/* binary cross entropy from logits: softplus(z) - z y */
template <int WIDTH, int LABELS, int LANES>
__device__ inline real bce_row(real *z, const control &c, int64 row, int lane)
{
    real sum = 0;
    for (int k = lane; k < WIDTH; k += LANES) {
        real y = target<WIDTH, LABELS>(c, row, k);
        sum += softplus(z[k]) - z[k] * y;
        z[k] = (sigmoid(z[k]) - y) / WIDTH;
    }
    return lanes_sum<LANES>(sum) / WIDTH;
}

/* cross entropy from logits: log(sum exp z) sum y - sum z y; y is a distribution over the
 * outputs */
template <int WIDTH, int LABELS, int LANES>
__device__ inline real ce_row(real *z, const control &c, int64 row, int lane)
{
    real largest = z[0], exponentials = 0, total = 0, hit = 0;
    for (int k = lane; k < WIDTH; k += LANES)
        largest = larger(z[k], largest);
    largest = lanes_max<LANES>(largest);
    for (int k = lane; k < WIDTH; k += LANES) {
        real y = target<WIDTH, LABELS>(c, row, k);
        exponentials += exponential(z[k] - largest);
        total += y;
        hit += (z[k] - largest) * y;
    }
    exponentials = lanes_sum<LANES>(exponentials), total = lanes_sum<LANES>(total),
    hit = lanes_sum<LANES>(hit);
    for (int k = lane; k < WIDTH; k += LANES)
        z[k] =
            exponential(z[k] - largest) / exponentials * total - target<WIDTH, LABELS>(c, row, k);
    real logarithm =
        sizeof(real) == 4 ? (real)logf((float)exponentials) : (real)log((double)exponentials);
    return logarithm * total - hit;
}

/* any other loss, any activation: through the output itself */
template <int LOSS, int ACTIVATION, int WIDTH, int LABELS, int LANES>
__device__ inline real output_row(real *z, const control &c, int64 row, int lane)
{
    real sum = 0, projection = 0;
    if (ACTIVATION == SOFTMAX)
        softmax_row<WIDTH, LANES>(z, lane);
    for (int k = lane; k < WIDTH; k += LANES) {
        real a = z[k];
        if constexpr (ACTIVATION != SOFTMAX)
            a = activate<ACTIVATION>(a);
        real difference = a - target<WIDTH, LABELS>(c, row, k);
        sum += loss_value<LOSS>(difference);
        if constexpr (ACTIVATION == SOFTMAX)
            projection += loss_derivative<LOSS>(difference) / WIDTH * a;
        else
            z[k] = loss_derivative<LOSS>(difference) / WIDTH * derivative<ACTIVATION>(a);
    }
    projection = lanes_sum<LANES>(projection);
    if (ACTIVATION == SOFTMAX)
        for (int k = lane; k < WIDTH; k += LANES)
            z[k] *=
                loss_derivative<LOSS>(z[k] - target<WIDTH, LABELS>(c, row, k)) / WIDTH - projection;
    return lanes_sum<LANES>(sum) / WIDTH;
}

template <int LOSS, int ACTIVATION, int WIDTH, int LABELS, int LANES>
__device__ inline real unweighted_row(real *z, const control &c, int64 row, int lane)
{
    if constexpr (LOSS == BCE)
        return bce_row<WIDTH, LABELS, LANES>(z, c, row, lane);
    else if constexpr (LOSS == CE)
        return ce_row<WIDTH, LABELS, LANES>(z, c, row, lane);
    else
        return output_row<LOSS, ACTIVATION, WIDTH, LABELS, LANES>(z, c, row, lane);
}

/* A row of the last layer before its activation becomes dz of its loss, which is returned; both
 * times its weight. */
template <int LOSS, int ACTIVATION, int WIDTH, int LABELS, int LANES>
__device__ inline real loss_row(real *z, const control &c, int64 row, int lane)
{
    real loss = unweighted_row<LOSS, ACTIVATION, WIDTH, LABELS, LANES>(z, c, row, lane);
#ifdef WEIGHTED
    real weight = c.weights[row];
    for (int k = lane; k < WIDTH; k += LANES)
        z[k] *= weight;
    loss *= weight;
#endif
    return loss;
}

/* z (n, WIDTH), the last layer before its activation, becomes dz of the summed, weighted loss */
template <int LOSS, int ACTIVATION, int WIDTH, int LABELS, int LANES>
__device__ void loss_backward(real *z, const control &c, const batch &b, block_range range)
{
    int lane = threadIdx.x % LANES;
    for (int r = range.first() / LANES; r < b.n; r += range.stride() / LANES) {
        real loss = loss_row<LOSS, ACTIVATION, WIDTH, LABELS, LANES>(z + (size_t)r * WIDTH, c,
                                                                     data_row(c, b, r), lane);
        if (lane == 0)
            c.row_loss[b.row + r] = loss;
    }
}
