/* activation.cu - activations and losses; the formulas of csrc/nn_aux.c, in the network's own type. */

__device__ inline real exponential(real z) { return sizeof(real) == 4 ? (real)expf((float)z) : (real)exp((double)z); }
__device__ inline real logarithm1(real z) { return sizeof(real) == 4 ? (real)log1pf((float)z) : (real)log1p((double)z); }
__device__ inline real larger(real a, real b) { return a > b || b != b ? a : b; }

__device__ inline real sigmoid(real z) { return 1 / (1 + exponential(-z)); }
__device__ inline real softplus(real z)
{
    return (z > 0 ? z : z != z ? z : 0) + logarithm1(exponential(z > 0 ? -z : z));
}

/* f(z) */
template <int ACTIVATION>
__device__ inline real activate(real z)
{
    switch (ACTIVATION) {
    case SIGMOID: return sigmoid(z);
    case TANH: return sizeof(real) == 4 ? (real)tanhf((float)z) : (real)tanh((double)z);
    case RELU: return z > 0 ? z : 0;
    case LRELU: return z > 0 ? z : (real)0.01 * z;
    case SOFTPLUS: return softplus(z);
    default: return z;
    }
}

/* f'(z) from a = f(z), so that no second array is kept */
template <int ACTIVATION>
__device__ inline real slope(real a)
{
    switch (ACTIVATION) {
    case SIGMOID: return a * (1 - a);
    case TANH: return 1 - a * a;
    case RELU: return a > 0 ? 1 : 0;
    case LRELU: return a > 0 ? 1 : (real)0.01;
    case SOFTPLUS: return sizeof(real) == 4 ? (real)-expm1f((float)-a) : (real)-expm1((double)-a);
    default: return 1;
    }
}

/* ---- rows: a warp each (LANES 32), or a thread each (LANES 1) where they are narrow ---- */

/* The sum over a row's lanes, in the same order in every run; all lanes get the result. */
template <int LANES>
__device__ inline real lanes_sum(real v)
{
    for (int lane = LANES / 2; lane; lane /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, lane);
    return v;
}

template <int LANES>
__device__ inline real lanes_max(real v)
{
    for (int lane = LANES / 2; lane; lane /= 2)
        v = larger(v, __shfl_xor_sync(0xffffffffu, v, lane));
    return v;
}

/* a row of WIDTH values becomes its softmax */
template <int WIDTH, int LANES>
__device__ inline void softmax_row(real *z, int lane)
{
    real largest = z[0], sum = 0;
    for (int k = lane; k < WIDTH; k += LANES)
        largest = larger(z[k], largest);
    largest = lanes_max<LANES>(largest);
    for (int k = lane; k < WIDTH; k += LANES)
        sum += exponential(z[k] - largest);
    sum = lanes_sum<LANES>(sum);
    for (int k = lane; k < WIDTH; k += LANES)
        z[k] = exponential(z[k] - largest) / sum;
}

/* a (n, WIDTH) = f(a) in place */
template <int ACTIVATION, int WIDTH>
__device__ void activation_forward(real *a, int n, team t)
{
    if (ACTIVATION == SOFTMAX) {
        for (int r = t.first() / 32; r < n; r += t.stride() / 32)
            softmax_row<WIDTH, 32>(a + (size_t)r * WIDTH, threadIdx.x % 32);
    } else {
        for (int e = t.first(); e < n * WIDTH; e += t.stride())
            a[e] = activate<ACTIVATION>(a[e]);
    }
}

/* ---- losses ---- */

/* d loss / d a for one output, before the division by their number */
template <int LOSS>
__device__ inline real loss_slope(real difference)
{
    switch (LOSS) {
    case MAE: return (real)((difference > 0) - (difference < 0));
    case HUBER: return difference > 1 ? 1 : difference < -1 ? -1 : difference;
    default: return 2 * difference;
    }
}

template <int LOSS>
__device__ inline real loss_value(real difference)
{
    real size = difference < 0 ? -difference : difference;
    switch (LOSS) {
    case MAE: return size;
    case HUBER: return size <= 1 ? (real)0.5 * size * size : size - (real)0.5;
    default: return difference * difference;
    }
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

/* cross entropy from logits: log(sum exp z) sum y - sum z y; y is a distribution over the outputs */
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
    exponentials = lanes_sum<LANES>(exponentials), total = lanes_sum<LANES>(total), hit = lanes_sum<LANES>(hit);
    for (int k = lane; k < WIDTH; k += LANES)
        z[k] = exponential(z[k] - largest) / exponentials * total - target<WIDTH, LABELS>(c, row, k);
    real logarithm = sizeof(real) == 4 ? (real)logf((float)exponentials) : (real)log((double)exponentials);
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
        real a = ACTIVATION == SOFTMAX ? z[k] : activate<ACTIVATION>(z[k]);
        real difference = a - target<WIDTH, LABELS>(c, row, k);
        sum += loss_value<LOSS>(difference);
        if (ACTIVATION == SOFTMAX)
            projection += loss_slope<LOSS>(difference) / WIDTH * a;
        else
            z[k] = loss_slope<LOSS>(difference) / WIDTH * slope<ACTIVATION>(a);
    }
    projection = lanes_sum<LANES>(projection);
    if (ACTIVATION == SOFTMAX)
        for (int k = lane; k < WIDTH; k += LANES)
            z[k] *= loss_slope<LOSS>(z[k] - target<WIDTH, LABELS>(c, row, k)) / WIDTH - projection;
    return lanes_sum<LANES>(sum) / WIDTH;
}

/* A row of the last layer before its activation becomes dz of its loss, which is returned. */
template <int LOSS, int ACTIVATION, int WIDTH, int LABELS, int LANES>
__device__ inline real loss_row(real *z, const control &c, int64 row, int lane)
{
    return LOSS == BCE ? bce_row<WIDTH, LABELS, LANES>(z, c, row, lane)
         : LOSS == CE ? ce_row<WIDTH, LABELS, LANES>(z, c, row, lane)
         : output_row<LOSS, ACTIVATION, WIDTH, LABELS, LANES>(z, c, row, lane);
}

/* z (n, WIDTH), the last layer before its activation, becomes dz of the summed loss */
template <int LOSS, int ACTIVATION, int WIDTH, int LABELS, int LANES>
__device__ void loss_backward(real *z, const control &c, const batch &b, team t)
{
    int lane = threadIdx.x % LANES;
    for (int r = t.first() / LANES; r < b.n; r += t.stride() / LANES) {
        real loss = loss_row<LOSS, ACTIVATION, WIDTH, LABELS, LANES>(z + (size_t)r * WIDTH, c, data_row(c, b, r), lane);
        if (lane == 0)
            c.row_loss[b.row + r] = loss;
    }
}
