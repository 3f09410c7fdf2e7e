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

#include "layers.c"

#include "inputs.c"
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
#include "words.c"
#include "program.c"

#endif
