#include "example_interface.h"

/* ---- interface: #define NN_HEADER and include this file to get it alone ---- */

#ifdef __cplusplus
extern "C" {
#endif

/* out (NN_OUTPUTS) = the prediction for a row (NN_INPUTS). Returns 0, or the number of the first
 * input, counted from 1, that cannot be used, where out stays as it was, or -1 if an output is
 * not finite: the row is too far from training's. Infinity cannot be used; whether NaN can, as a
 * gap, stands above. */
int nn_predict(const nn_real *row, nn_output *out);

/* The same for a row of doubles: for values such as the seconds of dates, whose last digits a
 * float does not hold. */
int nn_predict_double(const double *row, nn_output *out);

/* Returns the class that out stands for, 0 .. NN_CLASSES - 1; -1 if outputs are no classes. */
int nn_class(const nn_output *out);

/* Returns the name of a class, NULL if there is none of this number. */
const char *nn_class_name(int number);

/* Gives the interval of each value of out (NN_OUTPUTS ends): at a level of 0.9 nine of ten new rows
 * lie in theirs. Returns 0, or -1 if the model knows none, or none of so high a level. */
int nn_interval(const nn_output *out, double level, double *low, double *high);

/* in (NN_CLASSES) = 1 for each class of the set of this level, in which nine of ten new rows have
 * theirs at 0.9, else 0; of several targets of two classes (NN_OUTPUTS, 2), a set of each. Returns
 * what nn_interval does. */
int nn_set(const nn_output *out, double level, int *in);

/* Returns what stands for a word in a row, or -1 if the column, counted from 0, does not hold
 * words. Gaps have a code, and so have words that training has not seen. */
int nn_code(int column, const char *word);

#ifdef __cplusplus
}
#endif

#ifndef NN_HEADER

#if defined __FAST_MATH__ || (defined __FINITE_MATH_ONLY__ && __FINITE_MATH_ONLY__)
#error                                                                                             \
    "compile this file without -ffast-math and -ffinite-math-only: NaN and infinity must be told from numbers"
#endif

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

/* ---- types ---- */

typedef enum { LINEAR, SIGMOID, TANH, RELU, LRELU, SOFTPLUS, SILU, GELU, SELU, EXP,
               SOFTMAX, STEPS } activation;
typedef enum { DENSE, CONV, MAXPOOL, AVGPOOL, PAD, ACTIVATION } layer_kind;
typedef enum {
    NUMBER, GAP, YEAR, WEEK, DAY, MONTH, MONTHDAY, WEEKDAY, HOUR, TRUTH, ONEHOT, EMBEDDING
} input_kind;

typedef struct {
    layer_kind kind;
    activation function;                        /* of the layer's outputs */
    int inputs, outputs;
    int in[3], out[3];                          /* channels, height, width */
    /* zeros are above the image and to the left, the others follow */
    int kernel, stride, top, left;
    /* dense (inputs, outputs), conv (filters, channels, kernel, kernel) */
    const nn_real *weight, *bias;
    /* dense, instead of weight and bias: a row for each input, and one for the bias; of a row a
     * digit d, then 4 digits for each output (weight_of): weight = these * 2^d * unit */
    const char *rows;
    nn_real unit;
} layer;

typedef struct {
    /* sorted by their bytes; the code of a word is its place */
    const char *const *words;
    /* code of words that are not here; count + 1 is that of gaps */
    int count;
    /* words are small letters, and stand for capital ones too */
    int any_case;
} vocabulary;

/* What the first layer gets of a value of a row. */
typedef struct {
    input_kind kind;
    /* in the row; whether it is no number that training rounded */
    int place, is_exact;
    int pieces, waves, values, width;           /* of the arrays below */
    /* (value - shift) / scale; scale 0: the value is 0 */
    double shift, scale;
    /* in a gap: the value, or, where a flag tells gaps, what it becomes */
    double fill;
    const nn_real *edges, *frequencies;         /* pieces + 1, or frequent values; waves */
    const nn_slot *slots;                       /* by the code of a word */
    const nn_real *table;                       /* (values, width) */
} row_input;

typedef struct {
    double share, temperature;                  /* of the mean; by which logits are divided */
    /* prediction = output * scale + shift; NULL: output */
    const double *target_shift, *target_scale;
    const double *target_low, *target_high;     /* predictions stay within, unless NULL */
    /* (value - shift) / scale; scale 0: the value is 0; NULL: the value */
    const double *shift, *scale;
    const row_input *inputs;                    /* NULL: each value is one */
    const layer *layers;
    int input_count, layer_count;
} network;

/* How sure a value is, or that a row is of a class. */
typedef struct {
    int levels, points;                         /* of the arrays; 0: nothing is known */
    const double *level;                        /* ascending */
    /* of a value: the size of residuals at some predictions, straight lines between; of each level
     * the lowest and the highest one, in units of that size; what no value leaves */
    const double *at, *scale, *low, *high;
    double least, most;
    const double *least_score;                  /* of a class: of each level, to be in the set */
} sureness;

/* A row of either type. */
typedef struct {
    const void *numbers;
    int are_doubles;
} values;

/* ---- constants ---- */

#include "example_values.h"

/* ---- inputs: what the first layer gets of a row ---- */

static const double MOST = HAS_FLOAT64 ? DBL_MAX : FLT_MAX;
static const double MOST_OUTPUT = sizeof(nn_output) == sizeof(double) ? DBL_MAX : FLT_MAX;
static const double TWO_PI = 2 * 3.14159265358979323846;

/* without the exposure behind them */
enum { FEATURES = NN_INPUTS - HAS_EXPOSURE };

static double given_at(values row, int place)
{
    if (row.are_doubles)
        return ((const double *)row.numbers)[place];
    return ((const nn_real *)row.numbers)[place];
}

static double value_at(values row, int place)
{
    const double value = given_at(row, place);
    return HAS_MEDIANS && value != value ? medians[place] : value;
}

/* Returns the number of the first input that cannot be used, 0 if all can. */
static int first_bad(values row)
{
    for (int place = 0; place < FEATURES; place++) {
        const double value = given_at(row, place);
        if (!(fabs(value) <= MOST) && !(HAS_GAPS && value != value))
            return place + 1;
    }
    if (HAS_EXPOSURE && !(given_at(row, FEATURES) > 0 && given_at(row, FEATURES) <= MOST))
        return NN_INPUTS;
    return 0;
}

static nn_real scaled(double value, double shift, double scale)
{
    return (nn_real)(scale > 0 ? (value - shift) / scale : 0);
}

/* x = the numbers of a row */
static void scale_row(const network *net, values row, nn_real *x)
{
    for (int i = 0; i < FEATURES; i++) {
        const double given = value_at(row, i), value = HAS_ROUNDING ? (nn_real)given : given;
        if (net->shift)
            x[i] = scaled(value, net->shift[i / PIXELS], net->scale[i / PIXELS]);
        else
            x[i] = (nn_real)(1.0 / PIXEL_RANGE * value);
    }
}

/* share[i] = how much of piece i lies below v */
static void encode_pieces(const row_input *in, nn_real v, nn_real *share)
{
    for (int i = 0; i < in->pieces; i++) {
        const nn_real low = in->edges[i], high = in->edges[i + 1];
        share[i] = v >= high ? 1 : v <= low ? 0 : (v - low) / (high - low);
    }
}

/* Sines, then cosines; whole turns are taken away from a product before it is rounded. */
static void encode_waves(const row_input *in, nn_real v, nn_real *out)
{
    /* 2^51, 2^22 */
    const double fractionless = HAS_FLOAT64 ? 2251799813685248.0 : 4194304.0;
    for (int i = 0; i < in->waves; i++) {
        const double f = in->frequencies[i], turns = f * v;
        const double angle = fabs(turns) >= fractionless ? 0 : TWO_PI * fma(f, v, -rint(turns));
        out[i] = (nn_real)sin(angle);
        out[in->waves + i] = (nn_real)cos(angle);
    }
}

/* The functions below write what a value becomes, and return what follows it. */

static nn_real *encode_number(const row_input *in, double value, nn_real *out)
{
    const int is_gap = value != value, has_flag = in->kind == GAP;
    const nn_real v = has_flag && is_gap ? (nn_real)in->fill
                                         : scaled(is_gap ? in->fill : value, in->shift, in->scale);
    *out++ = v;
    if (has_flag)
        *out++ = (nn_real)is_gap;
    encode_pieces(in, v, out);
    out += in->pieces;
    if (HAS_WAVES)
        encode_waves(in, v, out);
    return out + 2 * in->waves;
}

/* The rest of a division whose quotient is rounded down. */
static double rest(double x, double by)
{
    const double r = fmod(x, by);
    return r < 0 ? r + by : r;
}

/* Sine and cosine of where in its year, week or day a date is; 0 in a gap. */
static nn_real *encode_cycle(const row_input *in, double seconds, nn_real *out)
{
    const double phase = in->kind == YEAR ? rest(seconds, 31556952) / 31556952
                       : in->kind == WEEK ? rest(floor(seconds / 86400), 7) / 7
                                          : rest(seconds, 86400) / 86400;
    const int is_gap = phase != phase;
    out[0] = (nn_real)(is_gap ? 0 : sin(TWO_PI * phase));
    out[1] = (nn_real)(is_gap ? 0 : cos(TWO_PI * phase));
    return out + 2;
}

/* A part of a date as a number, the weekday from Monday, 0, on. */
static double part_of_date(input_kind kind, double seconds)
{
    /* centuries, years, months from March: of n days (a n + b) / c are over, which took (c count
     * + d) / a days */
    static const int calendar[3][4] = {{4, 3, 146097, 0}, {4, 3, 1461, 0}, {5, 2, 153, 2}};
    const double days = floor(seconds / 86400);
    double left = days + 719468, count = 0;
    if (kind == HOUR)
        return (seconds - days * 86400) / 3600;
    if (kind == WEEKDAY)
        return rest(days + 3, 7);
    for (int i = 0; i < 3; i++) {
        const int *const unit = calendar[i];
        count = floor((left * unit[0] + unit[1]) / unit[2]);
        left -= floor((count * unit[2] + unit[3]) / unit[0]);
    }
    return kind == MONTHDAY ? left + 1 : rest(count + 2, 12) + 1;
}

/* Returns the place among the values of the column of the word that a number stands for. */
static int slot_of(const row_input *in, double value)
{
    const int count = vocabularies[in->place].count;
    const int code = value != value                     ? count + 1
                     : value >= 0 && value <= count + 1 ? (int)value
                                                        : count;
    return in->slots[code];
}

/* Returns the rank of an ordered word, NaN for a gap and for any other word. */
static double rank_of(const row_input *in, double value)
{
    const int rank = slot_of(in, value);
    return rank < in->values ? (double)rank : (double)NAN;
}

static nn_real *encode_word(const row_input *in, double value, nn_real *out)
{
    const int slot = slot_of(in, value);
    if (in->kind == TRUTH) {
        out[0] = slot == 2 ? (nn_real)in->fill : (nn_real)slot;         /* no, yes, neither */
        return out + 1;
    }
    if (in->kind == EMBEDDING) {
        memcpy(out, in->table + slot * in->width, (size_t)in->width * sizeof *out);
        return out + in->width;
    }
    for (int k = 0; k < in->values; k++)
        out[k] = k == slot;
    return out + in->values;
}

static nn_real *encode_frequent(const row_input *in, double value, nn_real *out)
{
    for (int k = 0; k < in->values; k++)
        out[k] = (float)value == (float)in->edges[k];
    return out + in->values;
}

static void encode_row(const network *net, values row, nn_real *x)
{
    for (int i = 0; i < net->input_count; i++) {
        const row_input *in = &net->inputs[i];
        const double given = value_at(row, in->place),
                     value = HAS_ROUNDING && !in->is_exact ? (nn_real)given : given;
        if (HAS_ORDERS && in->slots && in->kind <= GAP)
            x = encode_number(in, rank_of(in, value), x);
        else if (HAS_WORDS && in->slots)
            x = encode_word(in, value, x);
        else if (HAS_FREQUENT && in->kind == ONEHOT)
            x = encode_frequent(in, value, x);
        else if (HAS_CYCLES && in->kind >= YEAR && in->kind <= DAY)
            x = encode_cycle(in, value, x);
        else if (HAS_PARTS && in->kind >= MONTH && in->kind <= HOUR)
            x = encode_number(in, part_of_date(in->kind, value), x);
        else
            x = encode_number(in, value, x);
    }
}

/* ---- activations: in double, as all sums are ---- */

static double sigmoid(double z) { return 1 / (1 + exp(-z)); }

static double softplus(double z) { return fmax(z, 0) + log1p(exp(-fabs(z))); }

static double activated(activation function, double z)
{
    if (HAS_RELU && function == RELU)
        return z <= 0 ? 0 : z; /* NaN stays */
    if (HAS_LRELU && function == LRELU)
        return z > 0 ? z : 0.01 * z;
    if (HAS_SIGMOID && function == SIGMOID)
        return sigmoid(z);
    if (HAS_TANH && function == TANH)
        return tanh(z);
    if (HAS_SOFTPLUS && function == SOFTPLUS)
        return softplus(z);
    if (HAS_SILU && function == SILU)
        return fmax(z, -DBL_MAX) * sigmoid(z); /* of -infinity 0 */
    if (HAS_GELU && function == GELU)
        return fmax(z, -DBL_MAX) * (0.5 * erfc(-z * 0.70710678118654752440));
    if (HAS_SELU && function == SELU)
        return 1.0507009873554804934 * (z > 0 ? z : 1.6732632423543772848 * expm1(z));
    if (HAS_EXP && function == EXP)
        return exp(z);
    return z;
}

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

static void activate(activation function, nn_real *a, int n)
{
    if (HAS_SOFTMAX && function == SOFTMAX)
        softmax(a, n);
    else if (HAS_STEPS && function == STEPS)
        for (int k = 1; k < n; k++)
            a[k] = (nn_real)(a[k - 1] + softplus(a[k]));
    else if (function != LINEAR)
        for (int k = 0; k < n; k++)
            a[k] = (nn_real)activated(function, a[k]);
}

/* ---- layers: out = what x becomes ---- */

/* outputs that are summed side by side;
   inputs whose products are added before they become double */
enum { LANES = 16, FEW = 4, RUN = 8 };

static inline void dense_lanes(const layer *l, const nn_real *x, nn_real *out, int first, int lanes)
{
    const nn_real *weight = l->weight + first;
    double sum[LANES] = {0};
    for (int k = 0; k < l->inputs; k++, weight += l->outputs)
        if (x[k] != 0)
            for (int lane = 0; lane < lanes; lane++)
                sum[lane] += (double)weight[lane] * x[k];
    for (int lane = 0; lane < lanes; lane++)
        out[first + lane] = (nn_real)(sum[lane] + l->bias[first + lane]);
}

/* The value of a digit of base 64: the last 6 bits of its code in ASCII. */
static int digit_of(char c) { return c & 63; }

/* The number from -2^23 on that 4 digits stand for, the lowest one first. */
static inline int weight_of(const char *digits)
{
    const unsigned four = (unsigned char)digits[0] | (unsigned)(unsigned char)digits[1] << 8 |
                          (unsigned)(unsigned char)digits[2] << 16 |
                          (unsigned)(unsigned char)digits[3] << 24;
    const unsigned pairs = (four & 0x003f003f) | (four >> 2 & 0x0fc00fc0);
    return (int)((pairs & 0xfff) | (pairs >> 4 & 0xfff000)) - 0x800000;
}

static inline void dense_digits(const layer *l, const nn_real *x, nn_real *out, int first,
                                int lanes)
{
    const int width = 4 * l->outputs + 2;       /* of a row, with its end */
    double sum[LANES] = {0};
    for (int start = 0; start <= l->inputs; start += RUN) {
        nn_real part[LANES] = {0};
        for (int k = start; k < start + RUN && k <= l->inputs; k++) {
            const char *const row = l->rows + k * width, *const digits = row + 1 + 4 * first;
            const nn_real value = k < l->inputs ? x[k] : 1;
            const nn_real units = value * l->unit * (nn_real)(1 << digit_of(*row));
            if (units != 0)
                for (int lane = 0; lane < lanes; lane++)
                    part[lane] += (nn_real)weight_of(digits + 4 * lane) * units;
        }
        for (int lane = 0; lane < lanes; lane++)
            sum[lane] += part[lane];
    }
    for (int lane = 0; lane < lanes; lane++)
        out[first + lane] = (nn_real)sum[lane];
}

/* As many outputs as lanes from `first` on. */
static inline void dense_part(const layer *l, const nn_real *x, nn_real *out, int first, int lanes)
{
    if (HAS_DIGITS && l->rows)
        dense_digits(l, x, out, first, lanes);
    else
        dense_lanes(l, x, out, first, lanes);
}

/* Constant numbers of lanes are what compilers make fast; the last part of many outputs may begin
 * among those of the part before, which are computed once more. */
static void dense(const layer *l, const nn_real *x, nn_real *out)
{
    int first = 0;
    for (; first + LANES < l->outputs; first += LANES)
        dense_part(l, x, out, first, LANES);
    if (l->outputs >= LANES) {
        dense_part(l, x, out, l->outputs - LANES, LANES);
        return;
    }
    for (; first + FEW <= l->outputs; first += FEW)
        dense_part(l, x, out, first, FEW);
    for (; first < l->outputs; first++)
        dense_part(l, x, out, first, 1);
}

/* The sum over a window of all channels, whose first pixel is in row y and column x of the
 * image, or outside of it. */
static double window_sum(const layer *l, const nn_real *image, const nn_real *weight, int y, int x)
{
    const int height = l->in[1], width = l->in[2], k = l->kernel;
    const int top = y < 0 ? -y : 0, bottom = y + k > height ? height - y : k;
    const int left = x < 0 ? -x : 0, right = x + k > width ? width - x : k;
    double sum = 0;
    for (int c = 0; c < l->in[0]; c++)
        for (int ky = top; ky < bottom; ky++)
            for (int kx = left; kx < right; kx++)
                sum += (double)weight[(c * k + ky) * k + kx] *
                       image[(c * height + y + ky) * width + x + kx];
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

static nn_real window_maximum(const nn_real *window, int width, int k)
{
    nn_real best = window[0];
    for (int y = 0; y < k; y++)
        for (int x = 0; x < k; x++)
            if (window[y * width + x] > best)
                best = window[y * width + x];
    return best;
}

static nn_real window_mean(const nn_real *window, int width, int k)
{
    double sum = 0;
    for (int y = 0; y < k; y++)
        for (int x = 0; x < k; x++)
            sum += window[y * width + x];
    return (nn_real)(sum / ((double)k * k));
}

static void pool(const layer *l, const nn_real *x, nn_real *out,
                 nn_real (*of_window)(const nn_real *, int, int))
{
    for (int c = 0; c < l->in[0]; c++)
        for (int oy = 0; oy < l->out[1]; oy++)
            for (int ox = 0; ox < l->out[2]; ox++) {
                const nn_real *row = x + (c * l->in[1] + oy * l->stride) * l->in[2];
                *out++ = of_window(row + ox * l->stride, l->in[2], l->kernel);
            }
}

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

static void layer_of_images(const layer *l, const nn_real *x, nn_real *out)
{
    switch (l->kind) {
    case CONV: conv(l, x, out); break;
    case MAXPOOL: pool(l, x, out, window_maximum); break;
    case AVGPOOL: pool(l, x, out, window_mean); break;
    case PAD: pad(l, x, out); break;
    case DENSE:
    case ACTIVATION: break;
    }
}

/* Computes layer after layer, from x to spare and back. Returns where the last one's outputs
 * are. */
static const nn_real *forward(const network *net, nn_real *x, nn_real *spare)
{
    for (int i = 0; i < net->layer_count; i++) {
        const layer *l = &net->layers[i];
        nn_real *out = l->kind == ACTIVATION ? x : spare;
        if (l->kind == DENSE)
            dense(l, x, out);
        else if (HAS_IMAGES)
            layer_of_images(l, x, out);
        activate(l->function, out, l->outputs);
        if (out != x)
            spare = x, x = out;
    }
    return x;
}

/* ---- predictions ---- */

/* A probability, or the nearest number inside (0, 1). */
static double inside(double p)
{
    const double smallest = HAS_FLOAT64 ? DBL_MIN : FLT_MIN,
                 step = HAS_FLOAT64 ? DBL_EPSILON : FLT_EPSILON;
    return fmin(fmax(p, smallest), 1 - step / 2);
}

/* Makes probabilities of the logits of p, divided by the temperature. */
static void calibrate(nn_output *p, double temperature)
{
    double logits[NN_OUTPUTS], largest = -DBL_MAX, sum = 0;
    if (NN_OUTPUTS == 1 || NN_CLASSES == 0) {   /* each is of a target of its own */
        for (int k = 0; k < NN_OUTPUTS; k++) {
            const double logit = (log(inside(p[k])) - log1p(-inside(p[k]))) / temperature,
                         small = exp(-fabs(logit));
            p[k] = (nn_output)((logit >= 0 ? 1 : small) / (1 + small));
        }
        return;
    }
    for (int k = 0; k < NN_OUTPUTS; k++) {
        logits[k] = log(inside(p[k])) / temperature;
        largest = fmax(largest, logits[k]);
    }
    for (int k = 0; k < NN_OUTPUTS; k++)
        sum += logits[k] = exp(logits[k] - largest);
    for (int k = 0; k < NN_OUTPUTS; k++)
        p[k] = (nn_output)(logits[k] / sum);
}

/* The output k of a network in the target's own unit. */
static double in_unit(const network *net, int k, double output)
{
    double value = output;
    if (net->target_shift)
        value = value * net->target_scale[k] + net->target_shift[k];
    if (net->target_low) {
        value = value < net->target_low[k] ? net->target_low[k] : value;
        value = value > net->target_high[k] ? net->target_high[k] : value;
    }
    return value;
}

static void predict_by(const network *net, values row, nn_output *out)
{
    nn_real x[WIDEST_X], spare[WIDEST_SPARE];
    const nn_real *found;
    if (net->inputs)
        encode_row(net, row, x);
    else
        scale_row(net, row, x);
    found = forward(net, x, spare);
    for (int k = 0; k < NN_OUTPUTS; k++)
        out[k] = (nn_output)in_unit(net, k, found[k]);
    if (HAS_TEMPERATURE && net->temperature != 1)
        calibrate(out, net->temperature);
}

static void predict_by_all(values row, nn_output *out)
{
    double sum[NN_OUTPUTS] = {0};
    for (int i = 0; i < NETWORKS; i++) {
        predict_by(&networks[i], row, out);
        for (int k = 0; k < NN_OUTPUTS; k++)
            sum[k] += (nn_output)((nn_output)networks[i].share * out[k]);
    }
    for (int k = 0; k < NN_OUTPUTS; k++)
        out[k] = (nn_output)sum[k];
    if (HAS_TEMPERATURE && TEMPERATURE != 1)
        calibrate(out, TEMPERATURE);
}

static int predict(values row, nn_output *out)
{
    const int bad = first_bad(row);
    if (bad)
        return bad;
    predict_by_all(row, out);
    for (int k = 0; HAS_EXPOSURE && k < NN_OUTPUTS; k++)
        out[k] = (nn_output)(out[k] * given_at(row, FEATURES));
    for (int k = 0; k < NN_OUTPUTS; k++)
        if (!(fabs(out[k]) <= MOST_OUTPUT))
            return -1;
    return 0;
}

int nn_predict(const nn_real *row, nn_output *out)
{
    const values given = {row, 0};
    return predict(given, out);
}

int nn_predict_double(const double *row, nn_output *out)
{
    const values given = {row, 1};
    return predict(given, out);
}

int nn_class(const nn_output *out)
{
    int best = 0;
    if (NN_CLASSES == 0)
        return -1;
    if (NN_OUTPUTS == 1)
        return out[0] >= NN_THRESHOLD;
    for (int k = 1; k < NN_OUTPUTS; k++)
        if (out[k] > out[best])
            best = k;
    return best;
}

const char *nn_class_name(int number)
{ return number >= 0 && number < NN_CLASSES ? class_names[number] : NULL; }

/* ---- sureness ---- */

/* Returns which level stands for one that is asked: the least that is no lower. */
static int place_of(const sureness *known, double level)
{
    const double rounding = 1e-9;
    int place = 0;
    while (place < known->levels && !(known->level[place] >= level - rounding))
        place++;
    return place;
}

static double scale_at(const sureness *known, double value)
{
    const double *at = known->at, *scale = known->scale;
    int next = 0;
    while (next < known->points && at[next] <= value)
        next++;
    if (next == 0)
        return scale[0];
    if (next == known->points)
        return scale[next - 1];
    const double slope = (scale[next] - scale[next - 1]) / (at[next] - at[next - 1]);
    return slope * (value - at[next - 1]) + scale[next - 1];
}

static double within(const sureness *known, double value)
{ return value < known->least ? known->least : value > known->most ? known->most : value; }

int nn_interval(const nn_output *out, double level, double *low, double *high)
{
    const int place = place_of(sure_of, level);
    if (!HAS_INTERVALS || place == sure_of[0].levels)
        return -1;
    for (int k = 0; k < NN_OUTPUTS; k++) {
        const sureness *known = &sure_of[k];
        const double value = out[k], scale = scale_at(known, value);
        low[k] = within(known, value + scale * known->low[place]);
        high[k] = within(known, value + scale * known->high[place]);
    }
    return 0;
}

/* out: all, or that of one target of two classes */
static double score_of(const nn_output *out, int number)
{
    if (NN_CLASSES > 2 || NN_OUTPUTS == NN_CLASSES)
        return out[number];
    return number ? (double)out[0] : 1 - (double)out[0];
}

/* Finds the set of one target. */
static int set_of(const sureness *known, const nn_output *out, double level, int classes, int *in)
{
    const int place = place_of(known, level);
    int best = 0;
    if (place == known->levels)
        return -1;
    for (int k = 0; k < classes; k++) {
        in[k] = score_of(out, k) >= known[k].least_score[place];
        if (score_of(out, k) > score_of(out, best))
            best = k;
    }
    in[best] = 1;
    return 0;
}

int nn_set(const nn_output *out, double level, int *in)
{
    if (!HAS_SETS)
        return -1;
    if (NN_CLASSES > 0)
        return set_of(sure_of, out, level, NN_CLASSES, in);
    for (int k = 0; k < NN_OUTPUTS; k++)
        if (set_of(&sure_of[2 * k], out + k, level, 2, in + 2 * k))
            return -1;
    return 0;
}

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
        const int middle = low + (high - low) / 2,
                  order = compare(word, length, v->words[middle], v->any_case);
        if (order == 0)
            return middle;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

/* Returns the length of a decimal such as 1.50 without the zeros at its end, and without a point
 * there. */
static size_t shortest(const char *word, size_t length)
{
    const size_t first = length && word[0] == '-';
    size_t i = first, point;
    while (i < length && word[i] >= '0' && word[i] <= '9')
        i++;
    point = i;
    if (point == first || (word[first] == '0' && point > first + 1) || point >= length ||
        word[point] != '.')
        return length;
    for (i = point + 1; i < length; i++)
        if (word[i] < '0' || word[i] > '9')
            return length;
    while (word[length - 1] == '0')
        length--;
    return length - (word[length - 1] == '.');
}

static int is_gap_word(const char *word, size_t length)
{
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++)
        if (compare(word, length, gaps[i], 0) == 0)
            return 1;
    return 0;
}

static int code_of(const vocabulary *v, const char *word, size_t length)
{
    int code = is_gap_word(word, length) ? v->count + 1 : find(v, word, length);
    if (code < 0)
        code = find(v, word, shortest(word, length));
    return code < 0 ? v->count : code;
}

int nn_code(int column, const char *word)
{
    if (!HAS_WORDS || column < 0 || column >= FEATURES || !vocabularies[column].words)
        return -1;
    return code_of(&vocabularies[column], word, strlen(word));
}

#endif
