/* optimizer.cu - one step of an optimiser; formulas as in csrc/seq/nn_aux.c. */

/* a b + c, rounded once. Of a sum of two products the compiler would choose for itself, and not
 * alike in all kernels, which of them is joined with it. */
__device__ inline real multiply_add(real a, real b, real c)
{
    return sizeof(real) == 4 ? (real)fmaf((float)a, (float)b, (float)c)
                             : (real)fma((double)a, (double)b, (double)c);
}

/* w takes its step by gradient sum g; m and v are its moments, decay is above 0 where weight
 * decay applies */
template <int OPTIMIZER>
__device__ inline real stepped(real w, real g, real *m, real *v, real decay, const update &u)
{
    if constexpr (OPTIMIZER == SGD) {
        return w - multiply_add(g, u.rate, decay * w);
    } else if constexpr (OPTIMIZER == MOMENTUM) {
        *m = multiply_add(g, u.inv_rows, u.constant1 * *m);
        return w - multiply_add(decay, w, u.rate * *m);
    } else if constexpr (OPTIMIZER == ADAM) {
        real mean = g * u.inv_rows;
        *m = multiply_add(u.gain1, mean - *m, *m);
        *v = multiply_add(u.gain2, multiply_add(mean, mean, -*v), *v);
        return w - multiply_add(decay, w,
                                u.rate * *m / multiply_add(sqrt(*v), u.root_scale, u.constant3));
    } else if constexpr (OPTIMIZER == RMSPROP) {
        real mean = g * u.inv_rows;
        *m = multiply_add(u.gain1, multiply_add(mean, mean, -*m), *m);
        return w - multiply_add(decay, w, u.rate * mean / (sqrt(*m) + u.constant2));
    } else if constexpr (OPTIMIZER == ADAGRAD) {
        real mean = g * u.inv_rows;
        *m = multiply_add(mean, mean, *m);
        return w - multiply_add(decay, w, u.rate * mean / (sqrt(*m) + u.constant1));
    } else {
        static_assert(OPTIMIZER < 0, "optimizer.cu: stepped() has no formula for this optimiser");
    }
}

/* take(i, sum) for each of COUNT sums of SPLITS partial sums, SIZE values apart from g on: 32
 * sums a block, whose shares are added up, too. memory: a value a thread */
template <int SPLITS, int SIZE, int COUNT, class TAKE>
__device__ inline void each_sum(const real *g, real *memory, block_range range, const TAKE &take)
{
    for (int first = range.id * 32; first < COUNT; first += range.count * 32) {
        int i = first + threadIdx.x % 32;
        real share = i < COUNT ? strided_sum(g + i, threadIdx.x / 32, SHARES, SPLITS, SIZE) : 0;
        real sum = sum_of_shares(memory, share);
        if (threadIdx.x < 32 && i < COUNT)
            take(i, sum);
    }
}

/* take(i, sum) for each of SIZE parameters: its gradient's SPLITS partial sums at g, added up in
 * order; one thread each, or with more than FEW_SPLITS of them several. */
template <int SPLITS, int SIZE, class TAKE>
__device__ inline void each_gradient(const real *g, block_range range, const TAKE &take)
{
    if (SPLITS > FEW_SPLITS)
        each_sum<SPLITS, SIZE, SIZE>(g, (real *)BLOCK_MEMORY, range, take);
    else
        for (int64 i = range.first(); i < SIZE; i += range.stride())
            take(i, SPLITS == 1 ? g[i] : strided_sum(g + i, 0, 1, SPLITS, SIZE));
}

/* Parameter i of a layer, in the vector at `at + i`, takes its step. */
template <int OPTIMIZER, int WEIGHTS>
__device__ inline void update_parameter(int64 at, int64 i, real g, const control &c,
                                        const update &u)
{
    enum { MOMENTS = moments_of(OPTIMIZER) };
    real m = MOMENTS > 0 ? c.moment1[at + i] : 0, v = MOMENTS > 1 ? c.moment2[at + i] : 0;
    c.parameters[at + i] =
        stepped<OPTIMIZER>(c.parameters[at + i], g, &m, &v, i < WEIGHTS ? u.decay : 0, u);
    if (MOMENTS > 0)
        c.moment1[at + i] = m;
    if (MOMENTS > 1)
        c.moment2[at + i] = v;
}

/* A layer's parameters from `at` on, SIZE in all, the first WEIGHTS of which decay; its
 * gradients' partial sums at g. */
template <int OPTIMIZER, int SPLITS, int WEIGHTS, int SIZE>
__device__ void update_layer(int64 at, const real *g, const control &c, const batch &b,
                             block_range range)
{
    const update u = *b.u;
    each_gradient<SPLITS, SIZE>(g, range, [&](int64 i, real sum) {
        update_parameter<OPTIMIZER, WEIGHTS>(at, i, sum, c, u);
    });
}

#define LEAST_EXCESS (1 / 64.0 - 1)     /* of core.h */

/* The same of a dense layer whose weight (OUTPUTS, INPUTS) is w = v s: v takes its step, and so
 * does the scale s of each input (csrc/seq/dense.c). Threads of a block share the outputs of 8
 * inputs at a time. */
template <int OPTIMIZER, int SPLITS, int INPUTS, int OUTPUTS>
__device__ void update_scaled(int64 at, const real *g, const control &c, const batch &b,
                              block_range range)
{
    enum { WEIGHTS = INPUTS * OUTPUTS, SIZE = WEIGHTS + OUTPUTS, MOMENTS = moments_of(OPTIMIZER),
           THREADS_OF_INPUT = THREADS / SCALED_INPUTS };
    real *memory = (real *)BLOCK_MEMORY;
    const update u = *b.u;
    update of_scales = u;
    of_scales.rate *= u.scale_rate;
    const int lane = threadIdx.x % SCALED_INPUTS, share = threadIdx.x / SCALED_INPUTS;
    auto gradient = [&](int64 i) {
        return SPLITS == 1 ? g[i] : strided_sum(g + i, 0, 1, SPLITS, SIZE);
    };
    for (int first = range.id * SCALED_INPUTS; first < INPUTS;
         first += range.count * SCALED_INPUTS) {
        const int k = first + lane, mine = k < INPUTS ? OUTPUTS : 0;
        const real scale = mine ? 1 + c.scales[k] : 1;
        real sum = 0;
        for (int j = share; j < mine; j += THREADS_OF_INPUT) {
            int64 i = (int64)j * INPUTS + k;
            sum += gradient(i) * (c.parameters[at + i] / scale);
        }
        memory[threadIdx.x] = sum;
        __syncthreads();
        if (share == 0 && mine) {
            for (int s = 1; s < THREADS_OF_INPUT; s++)
                sum += memory[s * SCALED_INPUTS + lane];
            real *excess = c.scales + k, *m = excess + INPUTS, *v = m + INPUTS;
            *excess = stepped<OPTIMIZER>(*excess, sum, m, v, 0, of_scales);
            *excess = *excess < (real)LEAST_EXCESS ? (real)LEAST_EXCESS : *excess;
            memory[lane] = 1 + *excess;
        }
        __syncthreads();
        const real next = memory[lane];
        __syncthreads();                /* before the memory serves another sum */
        for (int j = share; j < mine; j += THREADS_OF_INPUT) {
            int64 i = (int64)j * INPUTS + k;
            real m = MOMENTS > 0 ? c.moment1[at + i] : 0, v = MOMENTS > 1 ? c.moment2[at + i] : 0;
            real w = c.parameters[at + i] / scale;
            c.parameters[at + i] =
                next * stepped<OPTIMIZER>(w, gradient(i) * scale, &m, &v, u.decay, u);
            if (MOMENTS > 0)
                c.moment1[at + i] = m;
            if (MOMENTS > 1)
                c.moment2[at + i] = v;
        }
    }
    for (int64 j = range.first(); j < OUTPUTS; j += range.stride())
        update_parameter<OPTIMIZER, WEIGHTS>(at, WEIGHTS + j, gradient(WEIGHTS + j), c, u);
}

/* to[i] = the layer's gradient i, a sum over the batch: for the host, or for the other members
 * of a group */
template <int SPLITS, int SIZE>
__device__ void put_gradients(real *to, const real *g, block_range range)
{
    each_gradient<SPLITS, SIZE>(g, range, [&](int64 i, real sum) { to[i] = sum; });
}
