/* ---- activations: in double, as all sums are ---- */

#if HAS_SIGMOID || HAS_SILU
static double sigmoid(double z) { return 1 / (1 + exp(-z)); }

#endif
#if HAS_ACTIVATIONS
static double activated(activation function, double z)
{
    switch (function) {
#if HAS_SIGMOID
    case SIGMOID: return sigmoid(z);
#endif
#if HAS_TANH
    case TANH: return tanh(z);
#endif
#if HAS_RELU
    case RELU: return z > 0 ? z : 0;
#endif
#if HAS_LRELU
    case LRELU: return z > 0 ? z : 0.01 * z;
#endif
#if HAS_SOFTPLUS
    case SOFTPLUS: return fmax(z, 0) + log1p(exp(-fabs(z)));
#endif
#if HAS_SILU
    case SILU: return z * sigmoid(z);
#endif
#if HAS_GELU
    case GELU: return z * (0.5 * erfc(-z * 0.70710678118654752440));
#endif
#if HAS_SELU
    case SELU: return 1.0507009873554804934 * (z > 0 ? z : 1.6732632423543772848 * expm1(z));
#endif
#if HAS_SOFTMAX
    case SOFTMAX: break;                        /* of all outputs: below */
#endif
    case LINEAR: break;
    }
    return z;
}

#endif
#if HAS_SOFTMAX
static void softmax(nn_real *a, int n)
{
    double largest = a[0], sum = 0;
    for (int k = 1; k < n; k++)
        largest = fmax(largest, a[k]);
    for (int k = 0; k < n; k++)
        sum += exp(a[k] - largest);
    for (int k = 0; k < n; k++)
        a[k] = (nn_real)(exp(a[k] - largest) / sum);
}

#endif
#if HAS_ACTIVATIONS || HAS_SOFTMAX
static void activate(activation function, nn_real *a, int n)
{
    if (function == LINEAR)
        return;
#if HAS_SOFTMAX
    if (function == SOFTMAX) {
        softmax(a, n);
        return;
    }
#endif
#if HAS_ACTIVATIONS
    for (int k = 0; k < n; k++)
        a[k] = (nn_real)activated(function, a[k]);
#endif
}

#endif
/* ---- layers: out = what x becomes ---- */

#if HAS_DENSE
enum { LANES = 4 };                             /* outputs that are summed side by side, each in the order of x */

static void dense_lanes(const layer *l, const nn_real *x, nn_real *out, int first)
{
    const nn_real *weight = l->weight + first;
    double sum[LANES] = {0};
    for (int k = 0; k < l->inputs; k++, weight += l->outputs)
        for (int lane = 0; lane < LANES; lane++)
            sum[lane] += (double)weight[lane] * x[k];
    for (int lane = 0; lane < LANES; lane++)
        out[first + lane] = (nn_real)(sum[lane] + l->bias[first + lane]);
}

static void dense(const layer *l, const nn_real *x, nn_real *out)
{
    int j = 0;
    for (; j + LANES <= l->outputs; j += LANES)
        dense_lanes(l, x, out, j);
    if (j && j < l->outputs) {
        dense_lanes(l, x, out, l->outputs - LANES);             /* some of them once more */
        return;
    }
    for (; j < l->outputs; j++) {
        double sum = 0;
        for (int k = 0; k < l->inputs; k++)
            sum += (double)l->weight[k * l->outputs + j] * x[k];
        out[j] = (nn_real)(sum + l->bias[j]);
    }
}

#endif
#if HAS_CONV
/* The sum over a window of all channels, whose first pixel is in row y and column x of the image, or outside of it. */
static double window_sum(const layer *l, const nn_real *image, const nn_real *weight, int y, int x)
{
    const int height = l->in[1], width = l->in[2], k = l->kernel;
    const int top = y < 0 ? -y : 0, bottom = y + k > height ? height - y : k;
    const int left = x < 0 ? -x : 0, right = x + k > width ? width - x : k;
    double sum = 0;
    for (int c = 0; c < l->in[0]; c++)
        for (int ky = top; ky < bottom; ky++)
            for (int kx = left; kx < right; kx++)
                sum += (double)weight[(c * k + ky) * k + kx] * image[(c * height + y + ky) * width + x + kx];
    return sum;
}

static void conv(const layer *l, const nn_real *x, nn_real *out)
{
    const int weights = l->in[0] * l->kernel * l->kernel;       /* of a filter */
    for (int f = 0; f < l->out[0]; f++)
        for (int oy = 0; oy < l->out[1]; oy++)
            for (int ox = 0; ox < l->out[2]; ox++) {
                const int y = oy * l->stride - l->top, left = ox * l->stride - l->left;
                *out++ = (nn_real)(window_sum(l, x, l->weight + f * weights, y, left) + l->bias[f]);
            }
}

#endif
#if HAS_MAXPOOL
static nn_real window_maximum(const nn_real *window, int width, int k)
{
    nn_real best = window[0];
    for (int y = 0; y < k; y++)
        for (int x = 0; x < k; x++)
            if (window[y * width + x] > best)
                best = window[y * width + x];
    return best;
}

#endif
#if HAS_AVGPOOL
static nn_real window_mean(const nn_real *window, int width, int k)
{
    double sum = 0;
    for (int y = 0; y < k; y++)
        for (int x = 0; x < k; x++)
            sum += window[y * width + x];
    return (nn_real)(sum / ((double)k * k));
}

#endif
#if HAS_MAXPOOL || HAS_AVGPOOL
static void pool(const layer *l, const nn_real *x, nn_real *out, nn_real (*of_window)(const nn_real *, int, int))
{
    for (int c = 0; c < l->in[0]; c++)
        for (int oy = 0; oy < l->out[1]; oy++)
            for (int ox = 0; ox < l->out[2]; ox++) {
                const nn_real *row = x + (c * l->in[1] + oy * l->stride) * l->in[2];
                *out++ = of_window(row + ox * l->stride, l->in[2], l->kernel);
            }
}

#endif
#if HAS_PAD
static void pad(const layer *l, const nn_real *x, nn_real *out)
{
    const int width = l->in[2];
    memset(out, 0, (size_t)l->outputs * sizeof *out);
    for (int c = 0; c < l->in[0]; c++)
        for (int y = 0; y < l->in[1]; y++) {
            nn_real *to = out + (c * l->out[1] + l->top + y) * l->out[2] + l->left;
            memcpy(to, x + (c * l->in[1] + y) * width, (size_t)width * sizeof *x);
        }
}

#endif
/* Computes layer after layer, from x to spare and back. Returns where the last one's outputs are. */
static const nn_real *forward(const network *net, nn_real *x, nn_real *spare)
{
    for (int i = 0; i < net->layer_count; i++) {
        const layer *l = &net->layers[i];
        nn_real *out = spare;
        switch (l->kind) {
#if HAS_DENSE
        case DENSE: dense(l, x, out); break;
#endif
#if HAS_CONV
        case CONV: conv(l, x, out); break;
#endif
#if HAS_MAXPOOL
        case MAXPOOL: pool(l, x, out, window_maximum); break;
#endif
#if HAS_AVGPOOL
        case AVGPOOL: pool(l, x, out, window_mean); break;
#endif
#if HAS_PAD
        case PAD: pad(l, x, out); break;
#endif
#if HAS_ACTIVATION
        case ACTIVATION: out = x; break;
#endif
        }
#if HAS_ACTIVATIONS || HAS_SOFTMAX
        activate(l->function, out, l->outputs);
#endif
#if HAS_ACTIVATION
        if (out == x)
            continue;
#endif
        spare = x, x = out;
    }
    return x;
}
