/* loss.cu - losses and their derivatives, row by row; the formulas of csrc/seq/nn_aux.c, in the
 * network's own type. */

__device__ inline real pinball_slope(real difference, real share)
{
    return (real)(difference > 0) * (1 - share) - (real)(difference < 0) * share;
}

/* d loss / d a for one output, before the division by their number */
template <int LOSS>
__device__ inline real loss_derivative(real difference)
{
    constexpr real distance = (real)LOSS_CONSTANT, share = distance;
    if constexpr (LOSS == MSE)
        return 2 * difference;
    else if constexpr (LOSS == MAE)
        return (real)((difference > 0) - (difference < 0));
    else if constexpr (LOSS == HUBER)
        return difference > distance    ? distance
               : difference < -distance ? -distance
                                        : difference;
    else if constexpr (LOSS == QUANTILE)
        return pinball_slope(difference, share);
    else
        static_assert(LOSS < 0, "loss.cu: loss_derivative() has no formula for this loss");
}

template <int LOSS>
__device__ inline real loss_value(real difference)
{
    constexpr real distance = (real)LOSS_CONSTANT, share = distance;
    real size = difference < 0 ? -difference : difference;
    if constexpr (LOSS == MSE)
        return difference * difference;
    else if constexpr (LOSS == MAE)
        return size;
    else if constexpr (LOSS == HUBER)
        return size <= distance ? (real)0.5 * size * size
                                : distance * (size - (real)0.5 * distance);
    else if constexpr (LOSS == QUANTILE)
        return size * (difference > 0 ? 1 - share : share);
    else
        static_assert(LOSS < 0, "loss.cu: loss_value() has no formula for this loss");
}

/* Value k of the targets of a row: a label stands for a one-hot row. */
template <int WIDTH, int LABELS>
__device__ inline real target(const control &c, int64 row, int k)
{
    return LABELS ? (real)(((const int *)c.y)[row] == k) : ((const real *)c.y)[row * WIDTH + k];
}

/* A target that is missing, nan, has no loss and no gradient: its output has the weight 0. */
__device__ inline bool is_known(real y) { return y == y; }
__device__ inline real difference_of(real a, real y) { return is_known(y) ? a - y : 0; }

/* binary cross entropy of a class whose logit is z, times (1 - p)^power, and its slope */
__device__ inline real focal(real power, real z, real *slope)
{
    real others = exponential(-power * softplus(z)), entropy = softplus(-z);
    *slope = -others * (power * sigmoid(z) * entropy + sigmoid(-z));
    return others * entropy;
}

/* the deviance of Tweedie's distributions of a power from z = log a, and its slope */
template <int LOSS>
__device__ inline real deviance(real z, real y, real *slope)
{
    constexpr real power = (real)LOSS_CONSTANT;
    real of_y = y * exponential((1 - power) * z), of_a = exponential((2 - power) * z);
    real log_y = y > 0 ? logarithm(y) : 0, ratio = log_y - z;
    *slope = 2 * (of_a - of_y);
    if constexpr (LOSS == POISSON) {
        return 2 * (y * ratio - y + of_a);
    } else if constexpr (LOSS == GAMMA) {
        return 2 * (of_y - 1 - ratio);
    } else if constexpr (LOSS == TWEEDIE) {
        real least = y > 0 ? exponential((2 - power) * log_y) / (1 - power) : 0;
        return 2 * ((least + of_a) / (2 - power) - of_y / (1 - power));
    } else {
        static_assert(LOSS < 0, "loss.cu: deviance() has no formula for this loss");
    }
}

/* whether a loss is taken from z, without the activation */
__device__ constexpr bool is_from_input(int loss)
{
    return loss == BCE || loss == FOCAL || loss == POISSON || loss == GAMMA || loss == TWEEDIE;
}

/* a target of bce or focal of this size or more is a class with a weight, in this unit: see nn.h */
#define LEAST_WEIGHTED ((real)0x1p32)
#define WEIGHT_UNIT ((real)0x1p80)

/* the weight of a target of bce or focal, which becomes that of its class */
__device__ inline real class_weight(real *y)
{
    real size = *y < 0 ? -*y : *y;
    if (!(size >= LEAST_WEIGHTED))
        return 1;
    *y = *y > 0;
    return size / WEIGHT_UNIT;
}

/* a loss of one output from z, and its slope; bce: softplus(z) - z y */
template <int LOSS>
__device__ inline real loss_from_input(real z, real y, real *slope)
{
    if constexpr (LOSS == BCE) {
        real weight = class_weight(&y);
        *slope = weight * (sigmoid(z) - y);
        return weight * (softplus(z) - z * y);
    } else if constexpr (LOSS == FOCAL) {
        constexpr real power = (real)LOSS_CONSTANT;
        real weight = class_weight(&y);
        real first, second, of_1 = focal(power, z, &first), of_0 = focal(power, -z, &second);
        *slope = weight * (y * first - (1 - y) * second);
        return weight * (y * of_1 + (1 - y) * of_0);
    } else {
        return deviance<LOSS>(z, y, slope);
    }
}

template <int LOSS, int WIDTH, int LABELS, int LANES>
__device__ inline real input_row(real *z, const control &c, int64 row, int lane)
{
    real sum = 0, slope;
    for (int k = lane; k < WIDTH; k += LANES) {
        real y = target<WIDTH, LABELS>(c, row, k);
        real value = loss_from_input<LOSS>(z[k], y, &slope);
        sum += is_known(y) ? value : 0;
        z[k] = is_known(y) ? slope / WIDTH : 0;
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
    return logarithm(exponentials) * total - hit;
}

/* Several quantiles behind steps, as csrc/quantiles.c: a step moves all from its own one on. Few:
 * a lane does all, and has the loss. */
template <int WIDTH, int LABELS, int LANES>
__device__ inline real quantiles_row(real *z, const control &c, int64 row, int lane)
{
    constexpr real shares[] = LOSS_CONSTANTS;
    static_assert(sizeof shares == WIDTH * sizeof(real), "loss.cu: a share for each output");
    real sum = 0, slopes = 0, a = 0;
    for (int k = 0; lane == 0 && k < WIDTH; k++) {
        a = k ? a + softplus(z[k]) : z[0];
        real difference = a - target<WIDTH, LABELS>(c, row, k);
        real slope = pinball_slope(difference, shares[k]);
        sum += slope * difference, slopes += slope;
    }
    a = 0;
    for (int k = 0; lane == 0 && k < WIDTH; k++) {
        real of_z = k ? sigmoid(z[k]) : 1;
        a = k ? a + softplus(z[k]) : z[0];
        z[k] = slopes * of_z / WIDTH;
        slopes -= pinball_slope(a - target<WIDTH, LABELS>(c, row, k), shares[k]);
    }
    if constexpr (LANES > 1)
        __syncwarp();
    return sum / WIDTH;
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
        real difference = difference_of(a, target<WIDTH, LABELS>(c, row, k));
        sum += loss_value<LOSS>(difference);
        if constexpr (ACTIVATION == SOFTMAX)
            projection += loss_derivative<LOSS>(difference) / WIDTH * a;
        else
            z[k] = loss_derivative<LOSS>(difference) / WIDTH * derivative<ACTIVATION>(a);
    }
    projection = lanes_sum<LANES>(projection);
    if (ACTIVATION == SOFTMAX)
        for (int k = lane; k < WIDTH; k += LANES)
            z[k] *= loss_derivative<LOSS>(difference_of(z[k], target<WIDTH, LABELS>(c, row, k))) /
                        WIDTH -
                    projection;
    return lanes_sum<LANES>(sum) / WIDTH;
}

template <int LOSS, int ACTIVATION, int WIDTH, int LABELS, int LANES>
__device__ inline real unweighted_row(real *z, const control &c, int64 row, int lane)
{
    if constexpr (is_from_input(LOSS))
        return input_row<LOSS, WIDTH, LABELS, LANES>(z, c, row, lane);
    else if constexpr (LOSS == CE)
        return ce_row<WIDTH, LABELS, LANES>(z, c, row, lane);
    else if constexpr (ACTIVATION == STEPS)
        return quantiles_row<WIDTH, LABELS, LANES>(z, c, row, lane);
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
