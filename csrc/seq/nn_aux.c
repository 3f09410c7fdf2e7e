/* nn_aux.c - activations, losses and optimisers of the plain build: one value at a time, in
 * double. */
#include "../core.h"
#include <float.h>
#include <math.h>

static double sigmoid(double z) { return 1 / (1 + exp(-z)); }
static double softplus(double z) { return fmax(z, 0) + log1p(exp(-fabs(z))); }

/* The share of the standard normal distribution below z, its density, and selu's two constants
 * (Klambauer et al. 2017): outputs of mean 0 and variance 1 keep both from layer to layer. */
static double normal_cdf(double z) { return 0.5 * erfc(-z * M_SQRT1_2); }
static double normal_density(double z) { return exp(-0.5 * z * z) * 0.39894228040143267794; }
static const double SELU_SCALE = 1.0507009873554804934, SELU_ALPHA = 1.6732632423543772848;

static double activation_value(nn_activation activation, double z)
{
    switch (activation) {
    case NN_LINEAR: return z;
    case NN_SIGMOID: return sigmoid(z);
    case NN_TANH: return tanh(z);
    case NN_RELU: return z <= 0 ? 0 : z;         /* a NaN stays one */
    case NN_LRELU: return z > 0 ? z : 0.01 * z;
    case NN_SOFTPLUS: return softplus(z);
    /* of -infinity 0 */
    case NN_SILU: return fmax(z, -DBL_MAX) * sigmoid(z);
    case NN_GELU: return fmax(z, -DBL_MAX) * normal_cdf(z);
    case NN_SELU: return SELU_SCALE * (z > 0 ? z : SELU_ALPHA * expm1(z));
    case NN_EXP: return exp(z);
    case NN_SOFTMAX: case NN_STEPS: break;      /* of a whole row: below */
    }
    NOT_REACHED;
}

/* f'(z) from a = f(z), so that no second array is kept. */
static double activation_derivative(nn_activation activation, double a)
{
    switch (activation) {
    case NN_LINEAR: return 1;
    case NN_SIGMOID: return a * (1 - a);
    case NN_TANH: return 1 - a * a;
    case NN_RELU: return a > 0 ? 1 : 0;
    case NN_LRELU: return a > 0 ? 1 : 0.01;
    case NN_SOFTPLUS: return -expm1(-a);
    case NN_SELU: return a > 0 ? SELU_SCALE : a + SELU_SCALE * SELU_ALPHA;
    case NN_EXP: return a;
    case NN_SILU: case NN_GELU: break;          /* from z: below */
    /* only the last layer has them, and the losses apply them */
    case NN_SOFTMAX: case NN_STEPS: break;
    }
    NOT_REACHED;
}

/* f'(z) from z, for activations that are not in one-to-one relation with their output. */
static double derivative_from_input(nn_activation activation, double z)
{
    double s;
    switch (activation) {
    case NN_SILU: s = sigmoid(z); return s * (1 + z * (1 - s));
    case NN_GELU: return normal_cdf(z) + z * normal_density(z);
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

static void softmax(real *a, int64_t width)
{
    double largest = a[0], sum = 0;
    for (int64_t k = 1; k < width; k++)
        largest = fmax(largest, a[k]);
    for (int64_t k = 0; k < width; k++)
        sum += exp(a[k] - largest);
    for (int64_t k = 0; k < width; k++)
        a[k] = (real)(exp(a[k] - largest) / sum);
}

static void activation_forward(real *a, nn_activation activation, int64_t first, int64_t last,
                               int64_t width)
{
    if (activation == NN_LINEAR)
        return;
    for (int64_t r = first; r < last; r++) {
        real *row = a + r * row_stride(width);
        if (activation == NN_SOFTMAX)
            softmax(row, width);
        else if (activation == NN_STEPS)
            steps(row, width);
        else
            for (int64_t k = 0; k < width; k++)
                row[k] = (real)activation_value(activation, row[k]);
    }
}

static void activation_backward(real *dx, const real *a, nn_activation activation, int64_t first,
                                int64_t last, int64_t width)
{
    if (activation == NN_LINEAR)
        return;
    for (int64_t i = first * row_stride(width); i < last * row_stride(width); i++)
        dx[i] = (real)(dx[i] * activation_derivative(activation, a[i]));
}

static void activation_backward_from_input(real *dx, const real *z, nn_activation activation,
                                           int64_t first, int64_t last, int64_t width)
{
    for (int64_t i = first * row_stride(width); i < last * row_stride(width); i++)
        dx[i] = (real)(dx[i] * derivative_from_input(activation, z[i]));
}

/* A target that is missing, nan, has no loss and no gradient: its output has the weight 0. */
static int is_known(double y) { return y == y; }
static double difference_of(double a, double y) { return is_known(y) ? a - y : 0; }

/* d loss / d a for one output, before the division by their number */
static double loss_derivative(const nn_loss_settings *loss, double difference)
{
    double distance = loss->constants[0], share = loss->constants[0];
    switch (loss->loss) {
    case NN_MSE: return 2 * difference;
    case NN_MAE: return (difference > 0) - (difference < 0);
    case NN_HUBER: return fmax(-distance, fmin(distance, difference));
    case NN_QUANTILE: return (difference > 0) * (1 - share) - (difference < 0) * share;
    /* not through the output: below */
    case NN_BCE: case NN_CE: case NN_FOCAL: case NN_REFERENCE: break;
    case NN_POISSON: case NN_GAMMA: case NN_TWEEDIE: break;
    }
    NOT_REACHED;
}

static double loss_value(const nn_loss_settings *loss, double difference)
{
    double size = fabs(difference), distance = loss->constants[0], share = loss->constants[0];
    switch (loss->loss) {
    case NN_MSE: case NN_REFERENCE: return difference * difference;
    case NN_MAE: return size;
    case NN_HUBER:
        return size <= distance ? 0.5 * size * size : distance * (size - 0.5 * distance);
    case NN_QUANTILE: return size * (difference > 0 ? 1 - share : share);
    case NN_BCE: case NN_CE: case NN_FOCAL: break;          /* not through the output: below */
    case NN_POISSON: case NN_GAMMA: case NN_TWEEDIE: break;
    }
    NOT_REACHED;
}

/* Binary cross entropy of a class whose logit is z, times (1 - p)^power (Lin et al. 2017). */
static double focal(double power, double z, double *slope)
{
    double others = exp(-power * softplus(z)), entropy = softplus(-z);
    *slope = -others * (power * sigmoid(z) * entropy + sigmoid(-z));
    return others * entropy;
}

/* The deviance of Tweedie's distributions of a power (Jorgensen 1987) from z = log a: twice the
 * logarithm of how much likelier y is if y is the mean. Power 1 is Poisson's, 2 the gamma
 * distribution. */
static double deviance(double power, double z, double y, double *slope)
{
    double of_y = y * exp((1 - power) * z), of_a = exp((2 - power) * z);
    double logarithm = y > 0 ? log(y) : 0, ratio = logarithm - z;
    *slope = 2 * (of_a - of_y);
    if (power == 1)
        return 2 * (y * ratio - y + of_a);
    if (power == 2)
        return 2 * (of_y - 1 - ratio);
    double least = y > 0 ? exp((2 - power) * logarithm) / (1 - power) : 0;
    return 2 * ((least + of_a) / (2 - power) - of_y / (1 - power));
}

/* The weight of a target of bce or focal, which becomes that of its class. */
static double class_weight(double *y)
{
    double size = fabs(*y);
    if (!(size >= LEAST_WEIGHTED))
        return 1;
    *y = *y > 0;
    return size / WEIGHT_UNIT;
}

/* A loss of one output from z, without its activation, and its slope. */
static double loss_from_input(const nn_loss_settings *loss, double z, double y, double *slope)
{
    double first, second, of_0, of_1, weight, constant = loss->constants[0];
    switch (loss->loss) {
    case NN_BCE:                                /* neither overflows nor loses digits */
        weight = class_weight(&y);
        *slope = weight * (sigmoid(z) - y);
        return weight * (softplus(z) - z * y);
    case NN_FOCAL:
        weight = class_weight(&y);
        of_1 = focal(constant, z, &first), of_0 = focal(constant, -z, &second);
        *slope = weight * (y * first - (1 - y) * second);
        return weight * (y * of_1 + (1 - y) * of_0);
    case NN_POISSON: case NN_GAMMA: case NN_TWEEDIE: return deviance(constant, z, y, slope);
    case NN_MSE: case NN_MAE: case NN_HUBER: case NN_QUANTILE: break;   /* through the output */
    case NN_CE: case NN_REFERENCE: break;
    }
    NOT_REACHED;
}

static double input_row(real *z, const real *y, const nn_loss_settings *loss, int64_t width)
{
    double sum = 0, slope;
    for (int64_t k = 0; k < width; k++) {
        double value = loss_from_input(loss, z[k], y[k], &slope);
        sum += is_known(y[k]) ? value : 0;
        z[k] = is_known(y[k]) ? (real)(slope / (double)width) : 0;
    }
    return sum / (double)width;
}

/* Cross entropy from logits: log(sum exp z) sum y - sum z y; y is a distribution over the
 * outputs. */
static double ce_row(real *z, const real *y, int64_t width)
{
    double largest = z[0], exponentials = 0, total = 0, hit = 0;
    for (int64_t k = 1; k < width; k++)
        largest = fmax(largest, z[k]);
    for (int64_t k = 0; k < width; k++) {
        exponentials += exp(z[k] - largest);
        total += y[k];
        hit += (double)z[k] * y[k];
    }
    for (int64_t k = 0; k < width; k++)
        z[k] = (real)(exp(z[k] - largest) / exponentials * total - y[k]);
    return (largest + log(exponentials)) * total - hit;
}

/* Any other loss, any activation: through the output itself. */
static double output_row(real *z, const real *y, const nn_loss_settings *loss,
                         nn_activation activation, int64_t width)
{
    double sum = 0, projection = 0;
    if (activation == NN_SOFTMAX)
        softmax(z, width);
    for (int64_t k = 0; k < width; k++) {
        double a =
            activation == NN_SOFTMAX ? z[k] : (double)(real)activation_value(activation, z[k]);
        double difference = difference_of(a, y[k]);
        sum += loss_value(loss, difference);
        /* the original leaves out the 2 and the division by the outputs */
        if (loss->loss == NN_REFERENCE) {
            z[k] = (real)(difference * activation_derivative(activation, a));
        } else if (activation == NN_SOFTMAX) {
            projection += loss_derivative(loss, difference) / (double)width * a;
        } else {
            z[k] = (real)(loss_derivative(loss, difference) / (double)width *
                          activation_derivative(activation, a));
        }
    }
    if (activation == NN_SOFTMAX && loss->loss != NN_REFERENCE)
        for (int64_t k = 0; k < width; k++)
            z[k] = (real)(z[k] * (loss_derivative(loss, difference_of(z[k], y[k])) / (double)width -
                                  projection));
    return sum / (double)width;
}

static void loss_backward(real *z, double *row_loss, const real *y, const nn_loss_settings *loss,
                          nn_activation activation, int64_t first, int64_t last, int64_t width)
{
    for (int64_t r = first; r < last; r++) {
        real *row = z + r * row_stride(width);
        const real *truth = y + r * row_stride(width);
        switch (loss->loss) {
        case NN_CE: row_loss[r] = ce_row(row, truth, width); break;
        case NN_BCE: case NN_FOCAL: case NN_POISSON: case NN_GAMMA: case NN_TWEEDIE:
            row_loss[r] = input_row(row, truth, loss, width);
            break;
        case NN_MSE: case NN_MAE: case NN_HUBER: case NN_QUANTILE: case NN_REFERENCE:
            row_loss[r] = activation == NN_STEPS
                              ? quantiles_row(row, truth, loss, width)
                              : output_row(row, truth, loss, activation, width);
        }
    }
}

/* m is the velocity; without momentum there is none. */
static void sgd_step(real *w, const real *g, real *m, int64_t n, double keep, const update *u)
{
    double momentum = u->constants[0];
    for (int64_t i = 0; i < n; i++) {
        if (momentum != 0) {
            m[i] = (real)(momentum * m[i] + g[i] * u->inv_rows);
            w[i] = (real)(keep * w[i] - u->rate * m[i]);
        } else {
            w[i] = (real)(keep * w[i] - g[i] * u->rate);
        }
    }
}

static void adam_step(real *w, const real *g, real *m, real *v, int64_t n, double keep,
                      const update *u)
{
    double beta1 = u->constants[0], beta2 = u->constants[1], epsilon = u->constants[2];
    for (int64_t i = 0; i < n; i++) {
        double mean = g[i] * u->inv_rows;
        m[i] = (real)(beta1 * m[i] + (1 - beta1) * mean);
        v[i] = (real)(beta2 * v[i] + (1 - beta2) * mean * mean);
        w[i] = (real)(keep * w[i] - u->rate * m[i] / (sqrt(v[i]) * u->root_scale + epsilon));
    }
}

/* m is the mean of the squares of gradients, of which an older one counts less. */
static void rmsprop_step(real *w, const real *g, real *m, int64_t n, double keep, const update *u)
{
    double beta = u->constants[0], epsilon = u->constants[1];
    for (int64_t i = 0; i < n; i++) {
        double mean = g[i] * u->inv_rows;
        m[i] = (real)(beta * m[i] + (1 - beta) * mean * mean);
        w[i] = (real)(keep * w[i] - u->rate * mean / (sqrt(m[i]) + epsilon));
    }
}

/* m is the sum of the squares of all gradients. */
static void adagrad_step(real *w, const real *g, real *m, int64_t n, double keep, const update *u)
{
    double epsilon = u->constants[0];
    for (int64_t i = 0; i < n; i++) {
        double mean = g[i] * u->inv_rows;
        m[i] = (real)(m[i] + mean * mean);
        w[i] = (real)(keep * w[i] - u->rate * mean / (sqrt(m[i]) + epsilon));
    }
}

static void optimizer_step(real *w, const real *g, real *m, real *v, int64_t n, int decays,
                           const update *u)
{
    double keep = decays ? 1 - u->decay : 1;
    switch (u->optimizer) {
    case NN_SGD: sgd_step(w, g, m, n, keep, u); break;
    case NN_ADAM: adam_step(w, g, m, v, n, keep, u); break;
    case NN_RMSPROP: rmsprop_step(w, g, m, n, keep, u); break;
    case NN_ADAGRAD: adagrad_step(w, g, m, n, keep, u); break;
    }
}
