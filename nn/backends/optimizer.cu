/* optimizer.cu - one step of SGD, SGD with momentum or Adam; formulas as in csrc/nn_aux.c. */

/* w takes its step by gradient sum g; m and v are its moments, keep is below 1 where weight decay applies */
template <int OPTIMIZER>
__device__ inline real stepped(real w, real g, real *m, real *v, real keep, const update &u)
{
    if (OPTIMIZER == SGD)
        return keep * w - g * u.rate;
    real mean = g * u.inv_rows;
    if (OPTIMIZER == MOMENTUM) {
        *m = u.momentum * *m + mean;
        return keep * w - u.rate * *m;
    }
    *m = u.beta1 * *m + u.rest1 * mean;
    *v = u.beta2 * *v + u.rest2 * mean * mean;
    return keep * w - u.rate * *m / (sqrt(*v) * u.root_scale + u.epsilon);
}

/* Parameter i's gradient: the parts of its sum, added up in order. */
template <int SPLITS, int SIZE>
__device__ inline real gradient_sum(const real *g, int64 i)
{
    real sum = 0;
    #pragma unroll 8
    for (int s = 0; s < SPLITS; s++)
        sum += g[(int64)s * SIZE + i];
    return sum;
}

/* A layer's parameters from `at` on, WEIGHTS weights and then biases, SIZE in all; its gradients' parts at g. */
template <int OPTIMIZER, int SPLITS, int WEIGHTS, int SIZE>
__device__ void update_layer(int64 at, const real *g, const control &c, const batch &b, team t)
{
    const update u = *b.u;
    for (int64 i = t.first(); i < SIZE; i += t.stride()) {
        real m = OPTIMIZER != SGD ? c.moment1[at + i] : 0, v = OPTIMIZER == ADAM ? c.moment2[at + i] : 0;
        c.parameters[at + i] = stepped<OPTIMIZER>(c.parameters[at + i], gradient_sum<SPLITS, SIZE>(g, i), &m, &v,
                                                  i < WEIGHTS ? u.keep : 1, u);
        if (OPTIMIZER != SGD)
            c.moment1[at + i] = m;
        if (OPTIMIZER == ADAM)
            c.moment2[at + i] = v;
    }
}

/* The layer's gradients, sums over the batch, for the host. */
template <int SPLITS, int SIZE>
__device__ void keep_gradients(int64 at, const real *g, const control &c, team t)
{
    for (int64 i = t.first(); i < SIZE; i += t.stride())
        c.out[at + i] = gradient_sum<SPLITS, SIZE>(g, i);
}
