/* nn_aux.h - activations, their derivatives and the optimisers' steps, one vector at a time: for
 * nn_aux.c and for the ends of the matrix kernels. */
#ifndef NN_FAST_AUX_H
#define NN_FAST_AUX_H
#include "../core.h"
#include "vector_math.h"

/* Klambauer et al. 2017: outputs of mean 0 and variance 1 keep both from layer to layer. */
static const real SELU_SCALE = (real)1.0507009873554804934, SELU_LOW = (real)1.7580993408473768600;

/* Whether the outputs of a row depend on each other. */
INLINE int is_of_row(nn_activation activation)
{ return activation == NN_SOFTMAX || activation == NN_STEPS; }

/* a = f(z), one vector; softmax and steps are of a whole row. */
INLINE vec activation_v(nn_activation activation, vec z)
{
    switch (activation) {
    case NN_LINEAR: return z;
    case NN_SIGMOID: return sigmoid_v(z);
    case NN_TANH: return tanh_v(z);
    case NN_RELU: return pick(z <= 0, (vec){}, z);      /* a NaN stays one */
    case NN_LRELU: return pick(z > 0, z, (real)0.01 * z);
    case NN_SOFTPLUS: return softplus_v(z);
    case NN_SILU: return silu_v(z);
    case NN_GELU: return gelu_v(z);
    case NN_SELU: return pick(z > 0, SELU_SCALE * z, SELU_LOW * expm1_v(pick(z > 0, (vec){}, z)));
    case NN_EXP: return exp_any_v(z);
    case NN_SOFTMAX: case NN_STEPS: break;
    }
    NOT_REACHED;
}

/* A call with the activation as a constant, so that a loop in it does not ask at every vector;
 * not for softmax and steps. */
#define FOR_ACTIVATION(activation, call, ...) \
    switch (activation) { \
    case NN_LINEAR: call(NN_LINEAR, __VA_ARGS__); break; \
    case NN_SIGMOID: call(NN_SIGMOID, __VA_ARGS__); break; \
    case NN_TANH: call(NN_TANH, __VA_ARGS__); break; \
    case NN_RELU: call(NN_RELU, __VA_ARGS__); break; \
    case NN_LRELU: call(NN_LRELU, __VA_ARGS__); break; \
    case NN_SOFTPLUS: call(NN_SOFTPLUS, __VA_ARGS__); break; \
    case NN_SILU: call(NN_SILU, __VA_ARGS__); break; \
    case NN_GELU: call(NN_GELU, __VA_ARGS__); break; \
    case NN_SELU: call(NN_SELU, __VA_ARGS__); break; \
    case NN_EXP: call(NN_EXP, __VA_ARGS__); break; \
    case NN_SOFTMAX: case NN_STEPS: NOT_REACHED; \
    }

/* f'(z) from a = f(z), times d. */
INLINE vec derivative_v(nn_activation activation, vec a, vec d)
{
    switch (activation) {
    case NN_LINEAR: return d;
    case NN_SIGMOID: return d * (a * (1 - a));
    case NN_TANH: return d * (1 - a * a);
    case NN_RELU: return (vec)((a > 0) & (ivec)d);
    case NN_LRELU: return pick(a > 0, d, (real)0.01 * d);
    case NN_SOFTPLUS: return d * (1 - exp_v(-a));
    case NN_SELU: return d * pick(a > 0, splat(SELU_SCALE), a + SELU_LOW);
    case NN_EXP: return d * a;
    case NN_SILU: case NN_GELU: break;          /* from z: below */
    case NN_SOFTMAX: case NN_STEPS: break;
    }
    NOT_REACHED;
}

/* f'(z) from z, times d. */
INLINE vec derivative_from_input_v(nn_activation activation, vec z, vec d)
{
    vec s;
    switch (activation) {
    case NN_SILU: s = sigmoid_v(z); return d * (s * (1 + z * (1 - s)));
    case NN_GELU: return d * (normal_cdf_v(z) + z * normal_density_v(z));
    case NN_LINEAR:
    case NN_SIGMOID:
    case NN_TANH:
    case NN_RELU:
    case NN_LRELU:
    case NN_SOFTPLUS:
    case NN_SELU:
    case NN_EXP:
    case NN_SOFTMAX:
    case NN_STEPS: break;                       /* from a: above */
    }
    NOT_REACHED;
}

/* The optimiser's constants in the number type at hand: small ones, since 1 - 0.00015 or 0.999
 * as a float would be off by as much as a thousand steps can make visible. */
typedef struct {
    nn_optimizer optimizer;
    real rate, inv_rows, root_scale, decay;
    real constants[3], gains[2];                /* nn_training's; 1 - constant */
} step_constants;

INLINE step_constants step_of(const update *u, int decays)
{
    return (step_constants){
        u->optimizer,
        (real)u->rate,
        (real)u->inv_rows,
        (real)u->root_scale,
        (real)(decays ? u->decay : 0),
        {(real)u->constants[0], (real)u->constants[1], (real)u->constants[2]},
        {(real)(1 - u->constants[0]), (real)(1 - u->constants[1])},
    };
}

INLINE vec adam_change(vec g, real *m, real *v, const step_constants *s)
{
    vec mean = g * s->inv_rows;
    vec first = load(m) + s->gains[0] * (mean - load(m));
    vec second = load(v) + s->gains[1] * (mean * mean - load(v));
    store(m, first);
    store(v, second);
    return s->rate * first / (root(second) * s->root_scale + s->constants[2]);
}

INLINE vec rmsprop_change(vec g, real *m, const step_constants *s)
{
    vec mean = g * s->inv_rows;
    vec squares = load(m) + s->gains[0] * (mean * mean - load(m));
    store(m, squares);
    return s->rate * mean / (root(squares) + s->constants[1]);
}

INLINE vec adagrad_change(vec g, real *m, const step_constants *s)
{
    vec mean = g * s->inv_rows;
    vec squares = load(m) + mean * mean;
    store(m, squares);
    return s->rate * mean / (root(squares) + s->constants[0]);
}

INLINE vec sgd_change(vec g, real *m, const step_constants *s)
{
    if (s->constants[0] == 0)
        return s->rate * g;
    vec velocity = s->constants[0] * load(m) + g * s->inv_rows;
    store(m, velocity);
    return s->rate * velocity;
}

/* One step of VECTOR weights at w with the summed gradient g. */
INLINE void step_v(real *w, vec g, real *m, real *v, const step_constants *s)
{
    vec change = {};
    switch (s->optimizer) {
    case NN_ADAM: change = adam_change(g, m, v, s); break;
    case NN_SGD: change = sgd_change(g, m, s); break;
    case NN_RMSPROP: change = rmsprop_change(g, m, s); break;
    case NN_ADAGRAD: change = adagrad_change(g, m, s); break;
    }
    store(w, load(w) - (s->decay * load(w) + change));
}
#endif
