/*@header*/

/* ---- interface: #define NN_HEADER and include this file to get it alone ---- */

/*@interface*/

#ifdef __cplusplus
extern "C" {
#endif

/* out (NN_OUTPUTS) = the prediction for a row (NN_INPUTS). Returns 0, or the number of the first input, counted from 1,
#if HAS_GAPS
 * that is infinite; out stays as it was then. A gap is NaN. */
#else
 * that is infinite or NaN; out stays as it was then. */
#endif
int nn_predict(const nn_real *row, nn_real *out);
#if HAS_DOUBLE_ROWS

/* The same for a row of doubles: for values such as the seconds of dates, whose last digits a float does not hold. */
int nn_predict_double(const double *row, nn_real *out);
#endif
#if HAS_CLASSES

/* Returns the class that out stands for, 0 .. NN_CLASSES - 1. */
int nn_class(const nn_real *out);

const char *nn_class_name(int number);
#endif
#if HAS_WORDS

/* Returns what stands for a word in a row, or -1 if the column, counted from 0, does not hold words. Gaps have a code,
 * and so have words that training has not seen. */
int nn_code(int column, const char *word);
#endif

#ifdef __cplusplus
}
#endif

#ifndef NN_HEADER

#include <float.h>
#include <math.h>
#include <stddef.h>
#if HAS_WORDS || HAS_PAD || HAS_EMBEDDING
#include <string.h>
#endif

/* ---- types ---- */

typedef enum { /*@activations*/ } activation;
typedef enum { /*@kinds*/ } layer_kind;

typedef struct {
    layer_kind kind;
    activation function;                        /* of the layer's outputs */
    int inputs, outputs;
#if HAS_IMAGES
    int in[3], out[3];                          /* channels, height, width */
    int kernel, stride, top, left;              /* zeros are above the image and to the left, the others follow */
#endif
#if HAS_CONV
    const nn_real *weight, *bias;               /* dense (inputs, outputs), conv (filters, channels, kernel, kernel) */
#else
    const nn_real *weight, *bias;               /* (inputs, outputs), (outputs) */
#endif
} layer;

#if HAS_WORDS
typedef struct {
    const char *const *words;                   /* sorted by their bytes; the code of a word is its place */
    int count;                                  /* code of words that are not here; count + 1 is that of gaps */
    int any_case;                               /* words are small letters, and stand for capital ones too */
} vocabulary;

#endif
#if HAS_INPUTS

typedef enum { /*@inputs*/ } input_kind;

#if HAS_WORDS
typedef /*@slot*/ nn_slot;                /* a place among the values of a column */

#endif
/* What the first layer gets of a value of a row. */
typedef struct {
    input_kind kind;
    int place;                                  /* in the row */
#if HAS_ROUNDING
    int is_rounded;                             /* to nn_real, as training read it */
#endif
#if HAS_NUMBERS || HAS_TRUTH
    double shift, scale;                        /* (value - shift) / scale; scale 0: the value is 0 */
    double fill;                                /* in a gap: the value, or, where a flag tells gaps, what it becomes */
#endif
#if HAS_PIECES
    const nn_real *edges;                       /* pieces + 1 */
    int pieces;
#endif
#if HAS_WAVES
    const nn_real *frequencies;
    int waves;
#endif
#if HAS_WORDS
    const nn_slot *slots;                       /* by the code of a word */
#endif
#if HAS_ONEHOT || HAS_EMBEDDING
    int values, width;
#endif
#if HAS_EMBEDDING
    const nn_real *table;                       /* (values, width) */
#endif
} row_input;

#endif
typedef struct {
#if HAS_MEMBERS
    double share;                               /* of the mean */
#endif
#if HAS_TEMPERATURE
    double temperature;                         /* by which logits are divided */
#endif
#if HAS_UNITS
    const double *target_shift, *target_scale;  /* prediction = output * scale + shift */
#endif
#if HAS_CLIP
    const double *target_low, *target_high;     /* predictions stay within */
#endif
#if HAS_SCALING
    const double *shift, *scale;                /* (value - shift) / scale; scale 0: the value is 0 */
#endif
#if HAS_INPUTS
    const row_input *inputs;
    int input_count;
#endif
    const layer *layers;
    int layer_count;
} network;

/* ---- constants ---- */
/*@constants*/

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

/* ---- inputs: what the first layer gets of a row ---- */

#if HAS_DOUBLE_ROWS
/* A row of either type; the other pointer is NULL. */
typedef struct {
    const nn_real *reals;
    const double *doubles;
} values;

static double value_at(values row, int place) { return row.doubles ? row.doubles[place] : row.reals[place]; }
#else
typedef const nn_real *values;

static double value_at(values row, int place) { return row[place]; }
#endif

#if HAS_FLOAT64
static const double MOST = DBL_MAX;
#else
static const double MOST = FLT_MAX;
#endif

/* Returns the number of the first input that cannot be used, 0 if all can. */
static int first_bad(values row)
{
    for (int place = 0; place < NN_INPUTS; place++)
#if HAS_GAPS
        if (fabs(value_at(row, place)) > MOST)
#else
        if (!(fabs(value_at(row, place)) <= MOST))
#endif
            return place + 1;
    return 0;
}

#if HAS_SCALING || HAS_NUMBERS
static nn_real scaled(double value, double shift, double scale)
{
    return (nn_real)(scale > 0 ? (value - shift) / scale : 0);
}

#endif
#if HAS_PLAIN
/* x = the numbers of a row */
static void scale_row(const network *net, values row, nn_real *x)
{
#if !HAS_SCALING
    (void)net;
#endif
    for (int i = 0; i < NN_INPUTS; i++)
#if HAS_SCALING
        x[i] = scaled(value_at(row, i), net->shift[i / PIXELS], net->scale[i / PIXELS]);
#else
#if HAS_BYTES
        x[i] = (nn_real)(1 / 255.0 * value_at(row, i));
#else
        x[i] = (nn_real)value_at(row, i);
#endif
#endif
}

#endif
#if HAS_PIECES
/* share[i] = how much of piece i lies below v */
static void encode_pieces(const row_input *in, nn_real v, nn_real *share)
{
    for (int i = 0; i < in->pieces; i++) {
        const nn_real low = in->edges[i], high = in->edges[i + 1];
        share[i] = v >= high ? 1 : v <= low ? 0 : (v - low) / (high - low);
    }
}

#endif
#if HAS_WAVES || HAS_YEAR || HAS_WEEK || HAS_DAY
static const double TWO_PI = 2 * 3.14159265358979323846;

#endif
#if HAS_WAVES
#if HAS_FLOAT64
static const double FRACTIONLESS = 2251799813685248.0;          /* 2^51 */
#else
static const double FRACTIONLESS = 4194304.0;                   /* 2^22 */
#endif

/* Sines, then cosines; whole turns are taken away from a product before it is rounded. */
static void encode_waves(const row_input *in, nn_real v, nn_real *out)
{
    for (int i = 0; i < in->waves; i++) {
        const double f = in->frequencies[i], turns = f * v;
        const double angle = fabs(turns) >= FRACTIONLESS ? 0 : TWO_PI * fma(f, v, -rint(turns));
        out[i] = (nn_real)sin(angle);
        out[in->waves + i] = (nn_real)cos(angle);
    }
}

#endif
#if HAS_PIECES || HAS_WAVES
/* Returns what follows the pieces and waves of a number. */
static nn_real *encode_number(const row_input *in, nn_real v, nn_real *out)
{
#if HAS_PIECES
    encode_pieces(in, v, out);
    out += in->pieces;
#endif
#if HAS_WAVES
    encode_waves(in, v, out);
    out += 2 * in->waves;
#endif
    return out;
}

#endif
#if HAS_YEAR || HAS_WEEK || HAS_DAY
/* The rest of a division whose quotient is rounded down. */
static double rest(double x, double by)
{
    const double r = fmod(x, by);
    return r < 0 ? r + by : r;
}

/* Sine and cosine of where in its year, week or day a date is; 0 in a gap. */
static void encode_cycle(double phase, nn_real *out)
{
    const int is_gap = phase != phase;
    out[0] = (nn_real)(is_gap ? 0 : sin(TWO_PI * phase));
    out[1] = (nn_real)(is_gap ? 0 : cos(TWO_PI * phase));
}

#endif
#if HAS_WORDS
/* The place among an input's values of the word that a value of a row stands for. */
static int slot_of(const row_input *in, double value)
{
    const int count = vocabularies[in->place].count;
    const int code = value != value ? count + 1 : value >= 0 && value <= count + 1 ? (int)value : count;
    return in->slots[code];
}

#endif
#if HAS_INPUTS
/* Writes what a value of the row becomes; returns what follows it. */
static nn_real *encode(const row_input *in, double value, nn_real *out)
{
#if HAS_WORDS
    int slot;
#endif
#if HAS_ROUNDING
    if (in->is_rounded)
        value = (nn_real)value;
#endif
    switch (in->kind) {
#if HAS_NUMBER
    case NUMBER:
        out[0] = scaled(value != value ? in->fill : value, in->shift, in->scale);
#if HAS_PIECES || HAS_WAVES
        return encode_number(in, out[0], out + 1);
#else
        return out + 1;
#endif
#endif
#if HAS_GAP
    case GAP:
        out[1] = value != value;
        out[0] = value != value ? (nn_real)in->fill : scaled(value, in->shift, in->scale);
#if HAS_PIECES || HAS_WAVES
        return encode_number(in, out[0], out + 2);
#else
        return out + 2;
#endif
#endif
#if HAS_YEAR
    case YEAR: encode_cycle(rest(value, 31556952) / 31556952, out); return out + 2;
#endif
#if HAS_WEEK
    case WEEK: encode_cycle(rest(floor(value / 86400), 7) / 7, out); return out + 2;
#endif
#if HAS_DAY
    case DAY: encode_cycle(rest(value, 86400) / 86400, out); return out + 2;
#endif
#if HAS_TRUTH
    case TRUTH:
        slot = slot_of(in, value);              /* no, yes, neither */
        out[0] = slot == 2 ? (nn_real)in->fill : (nn_real)slot;
        return out + 1;
#endif
#if HAS_ONEHOT
    case ONEHOT:
        slot = slot_of(in, value);
        for (int k = 0; k < in->values; k++)
            out[k] = k == slot;
        return out + in->values;
#endif
#if HAS_EMBEDDING
    case EMBEDDING:
        slot = slot_of(in, value);
        memcpy(out, in->table + slot * in->width, (size_t)in->width * sizeof *out);
        return out + in->width;
#endif
    }
    return out;
}

static void encode_row(const network *net, values row, nn_real *x)
{
    for (int i = 0; i < net->input_count; i++)
        x = encode(&net->inputs[i], value_at(row, net->inputs[i].place), x);
}

#endif
/* ---- predictions ---- */

#if HAS_TEMPERATURE
/* A probability, or the nearest number inside (0, 1). */
#if HAS_FLOAT64
static double inside(double p) { return fmin(fmax(p, DBL_MIN), 1 - DBL_EPSILON / 2); }
#else
static double inside(double p) { return fmin(fmax(p, FLT_MIN), 1 - (double)FLT_EPSILON / 2); }
#endif

/* Makes probabilities of the logits of p, divided by the temperature. */
#if HAS_BINARY
static void calibrate(nn_real *p, double temperature)
{
    const double logit = (log(inside(p[0])) - log1p(-inside(p[0]))) / temperature, small = exp(-fabs(logit));
    if (temperature != 1)
        p[0] = (nn_real)((logit >= 0 ? 1 : small) / (1 + small));
}
#else
static void calibrate(nn_real *p, double temperature)
{
    double logits[NN_OUTPUTS], largest = -DBL_MAX, sum = 0;
    if (temperature == 1)
        return;
    for (int k = 0; k < NN_OUTPUTS; k++) {
        logits[k] = log(inside(p[k])) / temperature;
        largest = fmax(largest, logits[k]);
    }
    for (int k = 0; k < NN_OUTPUTS; k++)
        sum += logits[k] = exp(logits[k] - largest);
    for (int k = 0; k < NN_OUTPUTS; k++)
        p[k] = (nn_real)(logits[k] / sum);
}
#endif

#endif
static void predict_by(const network *net, values row, nn_real *out)
{
    nn_real x[WIDEST_X], spare[WIDEST_SPARE];
    const nn_real *found;
#if HAS_INPUTS && HAS_PLAIN
    if (net->inputs)
        encode_row(net, row, x);
    else
        scale_row(net, row, x);
#else
#if HAS_INPUTS
    encode_row(net, row, x);
#else
    scale_row(net, row, x);
#endif
#endif
    found = forward(net, x, spare);
    for (int k = 0; k < NN_OUTPUTS; k++) {
#if HAS_UNITS
        double value = (double)found[k] * net->target_scale[k] + net->target_shift[k];
#if HAS_CLIP
        value = value < net->target_low[k] ? net->target_low[k] : value;
        value = value > net->target_high[k] ? net->target_high[k] : value;
#endif
        out[k] = (nn_real)value;
#else
        out[k] = found[k];
#endif
    }
#if HAS_TEMPERATURE
    calibrate(out, net->temperature);
#endif
}

static int predict(values row, nn_real *out)
{
    const int bad = first_bad(row);
#if HAS_MEMBERS
    double sum[NN_OUTPUTS] = {0};
#endif
    if (bad)
        return bad;
#if HAS_MEMBERS
    for (int i = 0; i < NETWORKS; i++) {
        predict_by(&networks[i], row, out);
        for (int k = 0; k < NN_OUTPUTS; k++)
            sum[k] += (nn_real)((nn_real)networks[i].share * out[k]);
    }
    for (int k = 0; k < NN_OUTPUTS; k++)
        out[k] = (nn_real)sum[k];
#if HAS_TEMPERATURE
    calibrate(out, TEMPERATURE);
#endif
#else
    predict_by(&networks[0], row, out);
#endif
    return 0;
}

#if HAS_DOUBLE_ROWS
int nn_predict(const nn_real *row, nn_real *out)
{
    const values given = {row, NULL};
    return predict(given, out);
}

int nn_predict_double(const double *row, nn_real *out)
{
    const values given = {NULL, row};
    return predict(given, out);
}
#else
int nn_predict(const nn_real *row, nn_real *out) { return predict(row, out); }
#endif
#if HAS_CLASSES

#if HAS_BINARY
int nn_class(const nn_real *out) { return out[0] >= NN_THRESHOLD; }
#else
int nn_class(const nn_real *out)
{
    int best = 0;
    for (int k = 1; k < NN_OUTPUTS; k++)
        if (out[k] > out[best])
            best = k;
    return best;
}
#endif

const char *nn_class_name(int number) { return class_names[number]; }
#endif
#if HAS_WORDS

/* ---- words ---- */

/* Returns less than 0, 0 or more as a word comes before a known one, is it, or comes after it. */
static int compare(const char *word, size_t length, const char *known, int any_case)
{
    for (size_t i = 0; i < length; i++) {
        const int k = (unsigned char)known[i];
        int c = (unsigned char)word[i];
        if (any_case && c >= 'A' && c <= 'Z')
            c += 'a' - 'A';
        if (c != k || !k)
            return c < k ? -1 : 1;
    }
    return known[length] ? -1 : 0;
}

/* Returns the place of a word, -1 if it is not there. */
static int find(const vocabulary *v, const char *word, size_t length)
{
    int low = 0, high = v->count;
    while (low < high) {
        const int middle = low + (high - low) / 2, order = compare(word, length, v->words[middle], v->any_case);
        if (order == 0)
            return middle;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

/* Returns the length of a decimal such as 1.50 without the zeros at its end, and without a point there. */
static size_t shortest(const char *word, size_t length)
{
    const size_t first = length && word[0] == '-';
    size_t i = first, point;
    while (i < length && word[i] >= '0' && word[i] <= '9')
        i++;
    point = i;
    if (point == first || (word[first] == '0' && point > first + 1) || point + 1 >= length || word[point] != '.')
        return length;
    for (i = point + 1; i < length; i++)
        if (word[i] < '0' || word[i] > '9')
            return length;
    while (word[length - 1] == '0')
        length--;
    return length - (word[length - 1] == '.');
}

static int is_gap(const char *word, size_t length)
{
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++)
        if (compare(word, length, gaps[i], 0) == 0)
            return 1;
    return 0;
}

static int code_of(int column, const char *word, size_t length)
{
    const vocabulary *v = &vocabularies[column];
    int code = is_gap(word, length) ? v->count + 1 : find(v, word, length);
    if (code < 0)
        code = find(v, word, shortest(word, length));
    return code < 0 ? v->count : code;
}

int nn_code(int column, const char *word)
{
    if (column < 0 || column >= NN_INPUTS || !vocabularies[column].words)
        return -1;
    return code_of(column, word, strlen(word));
}
#endif
/*@program*/

#endif
