/* activation.cu - activations and their derivatives; the formulas of csrc/seq/nn_aux.c, in the
 * network's own type. */

__device__ inline real exponential(real z)
{ return sizeof(real) == 4 ? (real)expf((float)z) : (real)exp((double)z); }
__device__ inline real logarithm(real v)
{ return sizeof(real) == 4 ? (real)logf((float)v) : (real)log((double)v); }
__device__ inline real logarithm1(real z)
{
    return sizeof(real) == 4 ? (real)log1pf((float)z) : (real)log1p((double)z);
}
__device__ inline real larger(real a, real b) { return a > b || b != b ? a : b; }

__device__ inline real sigmoid(real z) { return 1 / (1 + exponential(-z)); }
__device__ inline real softplus(real z)
{
    return (z > 0 ? z : z != z ? z : 0) + logarithm1(exponential(z > 0 ? -z : z));
}

/* The share of the standard normal distribution below z, and its density. */
__device__ inline real normal_cdf(real z)
{
    return sizeof(real) == 4 ? (real)(0.5f * erfcf(-(float)z * 0.70710678f))
                             : (real)(0.5 * erfc(-(double)z * 0.70710678118654752));
}
__device__ inline real normal_density(real z)
{ return exponential((real)-0.5 * z * z) * (real)0.39894228040143267794; }

/* Klambauer et al. 2017: outputs of mean 0 and variance 1 keep both from layer to layer. */
#define SELU_SCALE ((real)1.0507009873554804934)
#define SELU_LOW ((real)1.7580993408473768600)

/* z times a share that is 0 at -infinity, where the product is 0 too */
__device__ inline real times_share(real z, real share) { return z < 0 && isinf(z) ? 0 : z * share; }

/* f(z) */
template <int ACTIVATION>
__device__ inline real activate(real z)
{
    if constexpr (ACTIVATION == LINEAR)
        return z;
    else if constexpr (ACTIVATION == SIGMOID)
        return sigmoid(z);
    else if constexpr (ACTIVATION == TANH)
        return sizeof(real) == 4 ? (real)tanhf((float)z) : (real)tanh((double)z);
    else if constexpr (ACTIVATION == RELU)
        return z <= 0 ? 0 : z;          /* a NaN stays one */
    else if constexpr (ACTIVATION == LRELU)
        return z > 0 ? z : (real)0.01 * z;
    else if constexpr (ACTIVATION == SOFTPLUS)
        return softplus(z);
    else if constexpr (ACTIVATION == SILU)
        return times_share(z, sigmoid(z));
    else if constexpr (ACTIVATION == GELU)
        return times_share(z, normal_cdf(z));
    else if constexpr (ACTIVATION == SELU)
        return z > 0 ? SELU_SCALE * z
                     : SELU_LOW *
                           (sizeof(real) == 4 ? (real)expm1f((float)z) : (real)expm1((double)z));
    else if constexpr (ACTIVATION == EXP)
        return exponential(z);
    else
        static_assert(ACTIVATION < 0,
                      "activation.cu: activate() has no formula for this activation");
}

/* f'(z) from a = f(z), so that no second array is kept */
template <int ACTIVATION>
__device__ inline real derivative(real a)
{
    if constexpr (ACTIVATION == LINEAR)
        return 1;
    else if constexpr (ACTIVATION == SIGMOID)
        return a * (1 - a);
    else if constexpr (ACTIVATION == TANH)
        return 1 - a * a;
    else if constexpr (ACTIVATION == RELU)
        return a > 0 ? 1 : 0;
    else if constexpr (ACTIVATION == LRELU)
        return a > 0 ? 1 : (real)0.01;
    else if constexpr (ACTIVATION == SOFTPLUS)
        return sizeof(real) == 4 ? (real)-expm1f((float)-a) : (real)-expm1((double)-a);
    else if constexpr (ACTIVATION == SELU)
        return a > 0 ? SELU_SCALE : a + SELU_LOW;
    else if constexpr (ACTIVATION == EXP)
        return a;
    else
        static_assert(ACTIVATION < 0,
                      "activation.cu: derivative() has no formula for this activation");
}

/* f'(z) from z, for the activations with from_input */
template <int ACTIVATION>
__device__ inline real derivative_from_input(real z)
{
    if constexpr (ACTIVATION == SILU)
        return sigmoid(z) * (1 + z * (1 - sigmoid(z)));
    else if constexpr (ACTIVATION == GELU)
        return normal_cdf(z) + z * normal_density(z);
    else
        static_assert(ACTIVATION < 0,
                      "activation.cu: derivative_from_input() has no formula for this activation");
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

/* A row of WIDTH values becomes its quantiles: each is the one before and a step up. Few: a lane
 * does all. */
template <int WIDTH, int LANES>
__device__ inline void steps_row(real *z, int lane)
{
    for (int k = 1; lane == 0 && k < WIDTH; k++)
        z[k] = z[k - 1] + softplus(z[k]);
    if constexpr (LANES > 1)
        __syncwarp();
}

/* a (n, WIDTH) = f(a) in place */
template <int ACTIVATION, int WIDTH>
__device__ void activation_forward(real *a, int n, block_range range)
{
    if constexpr (ACTIVATION == SOFTMAX) {
        for (int r = range.first() / 32; r < n; r += range.stride() / 32)
            softmax_row<WIDTH, 32>(a + (size_t)r * WIDTH, threadIdx.x % 32);
    } else if constexpr (ACTIVATION == STEPS) {
        for (int r = range.first() / 32; r < n; r += range.stride() / 32)
            steps_row<WIDTH, 32>(a + (size_t)r * WIDTH, threadIdx.x % 32);
    } else {
        for (int e = range.first(); e < n * WIDTH; e += range.stride())
            a[e] = activate<ACTIVATION>(a[e]);
    }
}
