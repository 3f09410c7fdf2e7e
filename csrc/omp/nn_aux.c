/* nn_aux.c - activations, losses and optimisers, fast: VECTOR values at a time. Formulas as in
 * ../seq/nn_aux.c. */
#include "../core.h"
#include "nn_aux.h"
#include <stdlib.h>

static real largest_of(const real *z, int64_t width)
{
    real largest = z[0];
    for (int64_t k = 1; k < width; k++)
        largest = z[k] > largest ? z[k] : largest;
    return largest;
}

/* a[k] = exp(z[k] - largest), 0 past the width; returns their sum. */
static real exponentials(real *a, const real *z, int64_t width)
{
    real largest = largest_of(z, width);
    vec sum = {};
    for (int64_t k = 0; k < row_stride(width); k += VECTOR) {
        store(a + k, exp_v(load(z + k) - largest));
        for (int64_t past = max_i64(k, width); past < k + VECTOR; past++)
            a[past] = 0;
        sum += load(a + k);
    }
    return sum_of(sum);
}

static void softmax(real *a, int64_t width)
{
    real scale = 1 / exponentials(a, a, width);
    for (int64_t k = 0; k < row_stride(width); k += VECTOR)
        store(a + k, load(a + k) * scale);
}

INLINE void activate_values(const nn_activation activation, real *a, int64_t n)
{
    for (int64_t i = 0; i < n; i += VECTOR)
        store(a + i, activation_v(activation, load(a + i)));
}

INLINE void derivative_values(const nn_activation activation, real *dx, const real *a, int64_t n)
{
    for (int64_t i = 0; i < n; i += VECTOR)
        store(dx + i, derivative_v(activation, load(a + i), load(dx + i)));
}

static void activation_forward(real *a, nn_activation activation, int64_t first, int64_t last,
                               int64_t width)
{
    int64_t stride = row_stride(width);
    if (activation == NN_LINEAR)
        return;
    if (activation == NN_SOFTMAX)
        for (int64_t r = first; r < last; r++)
            softmax(a + r * stride, width);
    else if (activation == NN_STEPS)
        for (int64_t r = first; r < last; r++)
            steps(a + r * stride, width);
    else
        FOR_ACTIVATION(activation, activate_values, a + first * stride, (last - first) * stride)
}

static void activation_backward(real *dx, const real *a, nn_activation activation, int64_t first,
                                int64_t last, int64_t width)
{
    int64_t stride = row_stride(width);
    if (activation != NN_LINEAR)
        FOR_ACTIVATION(activation, derivative_values, dx + first * stride, a + first * stride,
                       (last - first) * stride)
}

static void activation_backward_from_input(real *dx, const real *z, nn_activation activation,
                                           int64_t first, int64_t last, int64_t width)
{
    int64_t stride = row_stride(width);
    for (int64_t i = first * stride; i < last * stride; i += VECTOR)
        store(dx + i, derivative_from_input_v(activation, load(z + i), load(dx + i)));
}

static void clear_past(real *row, int64_t width)
{
    for (int64_t k = width; k < row_stride(width); k++)
        row[k] = 0;
}

/* A loss with its constants in the number type at hand. */
typedef struct {
    nn_loss loss;
    real constants[2];
} loss_constants;

INLINE loss_constants loss_of(const nn_loss_settings *s)
{
    return (loss_constants){s->loss, {(real)s->constants[0], (real)s->constants[1]}};
}

/* Sum over the outputs of (values of) the loss, and d loss / d a, before the division by their
 * number. */
INLINE vec loss_value_v(loss_constants loss, vec difference)
{
    vec size = size_of(difference);
    real distance = loss.constants[0], share = loss.constants[0];
    switch (loss.loss) {
    case NN_MSE: return difference * difference;
    case NN_MAE: return size;
    case NN_HUBER:
        return pick(size <= distance, (real)0.5 * size * size,
                    distance * (size - (real)0.5 * distance));
    case NN_QUANTILE: return size * pick(difference > 0, splat(1 - share), splat(share));
    /* not through the output: loss_v, ce_row, loss_backward */
    case NN_BCE: case NN_CE: case NN_FOCAL: case NN_REFERENCE: break;
    case NN_POISSON: case NN_GAMMA: case NN_TWEEDIE: break;
    }
    NOT_REACHED;
}

INLINE vec loss_derivative_v(loss_constants loss, vec difference)
{
    vec one = splat(1), distance = splat(loss.constants[0]), share = distance;
    switch (loss.loss) {
    case NN_MSE: return 2 * difference;
    case NN_MAE: return pick(difference > 0, one, pick(difference < 0, -one, (vec){}));
    case NN_HUBER:
        return pick(difference > distance, distance,
                    pick(difference < -distance, -distance, difference));
    case NN_QUANTILE:
        return pick(difference > 0, one - share, pick(difference < 0, -share, (vec){}));
    case NN_BCE: case NN_CE: case NN_FOCAL: case NN_REFERENCE: break;
    case NN_POISSON: case NN_GAMMA: case NN_TWEEDIE: break;
    }
    NOT_REACHED;
}

static double ce_row(real *z, const real *y, int64_t width)
{
    double largest = largest_of(z, width), total = 0, hit = 0;
    for (int64_t k = 0; k < width; k++) {
        total += y[k];
        hit += (double)z[k] * y[k];
    }
    real sum = exponentials(z, z, width), scale = (real)total / sum;
    for (int64_t k = 0; k < row_stride(width); k += VECTOR)
        store(z + k, load(z + k) * scale - load(y + k));
    return (largest + log((double)sum)) * total - hit;
}

/* Binary cross entropy of a class whose logit is z, times (1 - p)^power, and its slope. */
INLINE vec focal_v(real power, vec z, vec *slope)
{
    vec others = exp_v(-power * softplus_v(z)), entropy = softplus_v(-z);
    *slope = -others * (power * sigmoid_v(z) * entropy + sigmoid_v(-z));
    return others * entropy;
}

/* log y of targets, 0 where it is none. */
static vec logarithms(vec y)
{
    for (int i = 0; i < VECTOR; i++)
        y[i] = y[i] > 0 ? (real)log((double)y[i]) : 0;
    return y;
}

INLINE vec deviance_v(real power, vec z, vec y, vec *slope)
{
    vec of_y = y * exp_any_v((1 - power) * z), of_a = exp_any_v((2 - power) * z);
    vec logarithm = logarithms(y), ratio = logarithm - z;
    *slope = 2 * (of_a - of_y);
    if (power == 1)
        return 2 * (y * ratio - y + of_a);
    if (power == 2)
        return 2 * (of_y - 1 - ratio);
    vec least = pick(y > 0, exp_any_v((2 - power) * logarithm) / (1 - power), (vec){});
    return 2 * ((least + of_a) / (2 - power) - of_y / (1 - power));
}

/* The weights of targets of bce or focal, which become those of their classes. */
INLINE vec class_weight_v(vec *y)
{
    vec size = size_of(*y), one = splat(1);
    if (sum_of(size) < (real)LEAST_WEIGHTED)    /* none of them; a sum with a nan may hide one */
        return one;
    ivec is_weighted = size >= splat((real)LEAST_WEIGHTED);
    *y = pick(is_weighted, pick(*y > 0, one, (vec){}), *y);
    return pick(is_weighted, size * (real)(1 / WEIGHT_UNIT), one);
}

/* One vector of outputs whose targets are known: z becomes dz times the number of outputs; returns
 * the values of the loss. */
INLINE vec known_loss_v(real *z_at, vec y, loss_constants loss, nn_activation activation)
{
    vec z = load(z_at), a, difference, first, second, value, weight;
    real constant = loss.constants[0];
    switch (loss.loss) {
    case NN_BCE:
        weight = class_weight_v(&y);
        store(z_at, weight * (sigmoid_v(z) - y));
        return weight * (softplus_v(z) - z * y);
    case NN_FOCAL:
        weight = class_weight_v(&y);
        value = y * focal_v(constant, z, &first) + (1 - y) * focal_v(constant, -z, &second);
        store(z_at, weight * (y * first - (1 - y) * second));
        return weight * value;
    case NN_POISSON: case NN_GAMMA: case NN_TWEEDIE:
        value = deviance_v(constant, z, y, &first);
        store(z_at, first);
        return value;
    case NN_MSE: case NN_MAE: case NN_HUBER: case NN_QUANTILE:
        a = activation_v(activation, z), difference = a - y;
        store(z_at, derivative_v(activation, a, loss_derivative_v(loss, difference)));
        return loss_value_v(loss, difference);
    case NN_CE: case NN_REFERENCE: break;       /* of a whole row; of the plain build */
    }
    NOT_REACHED;
}

/* The same of any targets: one that is missing, nan, has no loss and no gradient. */
INLINE vec loss_v(real *z_at, vec y, loss_constants loss, nn_activation activation)
{
    vec value = known_loss_v(z_at, y, loss, activation), none = {};
    store(z_at, pick(y == y, load(z_at), none));
    return pick(y == y, value, none);
}

INLINE vec difference_of(vec a, vec y) { return pick(y == y, a - y, (vec){}); }

static double output_row(real *z, const real *y, loss_constants loss, nn_activation activation,
                         int64_t width)
{
    vec sum = {};
    for (int64_t k = 0; k < width; k += VECTOR) {
        vec value = loss_v(z + k, load(y + k), loss, activation);
        for (int64_t past = max_i64(k, width); past < k + VECTOR; past++)
            value[past - k] = 0;
        sum += value;
        store(z + k, load(z + k) / (real)width);
    }
    clear_past(z, width);
    return (double)sum_of(sum) / (double)width;
}

/* Any loss but ce behind a softmax: da becomes dz = a (da - sum a da). */
static double softmax_row(real *z, const real *y, loss_constants loss, int64_t width)
{
    real value = 0, projection = 0;
    softmax(z, width);
    for (int64_t k = 0; k < width; k += VECTOR) {
        /* both are 0 past the width */
        vec a = load(z + k), difference = difference_of(a, load(y + k));
        value += sum_of(loss_value_v(loss, difference));
        projection += sum_of(a * loss_derivative_v(loss, difference));
    }
    for (int64_t k = 0; k < width; k += VECTOR) {
        vec a = load(z + k), slope = loss_derivative_v(loss, difference_of(a, load(y + k)));
        store(z + k, a * (slope - projection) / (real)width);
    }
    clear_past(z, width);
    return (double)value / (double)width;
}

/* Networks of one output keep it in the first of each row's VECTOR places: collect VECTOR rows,
 * then work on them. */
static void single_outputs(real *z, double *row_loss, const real *y, loss_constants loss,
                           nn_activation activation, int64_t first, int64_t last)
{
    for (int64_t r = first; r < last; r += VECTOR) {
        int64_t rows = min_i64(VECTOR, last - r);
        real from[VECTOR] = {0}, truth[VECTOR] = {0}, value[VECTOR];
        for (int64_t i = 0; i < rows; i++)
            from[i] = z[(r + i) * row_stride(1)], truth[i] = y[(r + i) * row_stride(1)];
        store(value, loss_v(from, load(truth), loss, activation));
        for (int64_t i = 0; i < rows; i++) {
            z[(r + i) * row_stride(1)] = from[i];
            clear_past(z + (r + i) * row_stride(1), 1);
            row_loss[r + i] = value[i];
        }
    }
}

static void loss_backward(real *z, double *row_loss, const real *y,
                          const nn_loss_settings *settings, nn_activation activation, int64_t first,
                          int64_t last, int64_t width)
{
    loss_constants loss = loss_of(settings);
    if (width == 1 && loss.loss != NN_REFERENCE) {
        single_outputs(z, row_loss, y, loss, activation, first, last);
        return;
    }
    for (int64_t r = first; r < last; r++) {
        real *row = z + r * row_stride(width);
        const real *truth = y + r * row_stride(width);
        switch (loss.loss) {
        case NN_CE: row_loss[r] = ce_row(row, truth, width); break;
        case NN_BCE: case NN_FOCAL: case NN_POISSON: case NN_GAMMA: case NN_TWEEDIE:
            row_loss[r] = output_row(row, truth, loss, activation, width);
            break;
        case NN_MSE: case NN_MAE: case NN_HUBER: case NN_QUANTILE:
            if (activation == NN_SOFTMAX)
                row_loss[r] = softmax_row(row, truth, loss, width);
            else if (activation == NN_STEPS)
                row_loss[r] = quantiles_row(row, truth, settings, width);
            else
                row_loss[r] = output_row(row, truth, loss, activation, width);
            break;
        /* the original's loss is for the plain build, which has its order of sums */
        case NN_REFERENCE: abort();
        }
    }
}

static void optimizer_step(real *w, const real *g, real *m, real *v, int64_t n, int decays,
                           const update *u)
{
    step_constants step = step_of(u, decays);
    for (int64_t i = 0; i < n; i += VECTOR)
        step_v(w + i, load(g + i), m ? m + i : NULL, v ? v + i : NULL, &step);
}
