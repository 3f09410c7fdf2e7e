/* Definitions of an example, so that model.c can be opened and compiled; --export puts those of
 * its model here. HAS_: whether a model has such a part; a compiler leaves out what is below if
 * (HAS_X) where that is 0. */

#define HAS_FLOAT64 0
#define HAS_GAPS 1
#define HAS_MEDIANS 1                           /* NaN becomes a median */
/* training read numbers, but for dates, as nn_real */
#define HAS_ROUNDING 1
#define HAS_DIGITS 0                            /* weights as digits */
#define HAS_WORDS 1
#define HAS_ORDERS 1
#define HAS_CYCLES 1
#define HAS_PARTS 1
#define HAS_FREQUENT 1
#define HAS_WAVES 1
#define HAS_IMAGES 1
#define HAS_TEMPERATURE 1
#define HAS_EXPOSURE 0                          /* the last input multiplies outputs */
#define HAS_INTERVALS 0
#define HAS_SETS 1
#define HAS_SIGMOID 1
#define HAS_TANH 1
#define HAS_RELU 1
#define HAS_LRELU 1
#define HAS_SOFTPLUS 1
#define HAS_SILU 1
#define HAS_GELU 1
#define HAS_SELU 1
#define HAS_EXP 1
#define HAS_SOFTMAX 1
#define HAS_STEPS 1

enum { WIDEST_X = 3, WIDEST_SPARE = 1 };        /* values between layers */
enum { PIXELS = 1 };                            /* that share a scale */
/* by which pixels are divided, other numbers by 1 */
enum { PIXEL_RANGE = 255 };
enum { NETWORKS = 1 };
static const double TEMPERATURE = 1.0;          /* of the mean */

static const double medians[2] = {41.0, 0.0};   /* of training, that stand for NaN */

static const char *const gaps[2] = {"", "NA"};
static const char *const words_1[2] = {"blue", "red"};
static const vocabulary vocabularies[2] = {{NULL, 0, 0}, {words_1, 2, 0}};
static const char *const class_names[2] = {"no", "yes"};

static const double levels[2] = {0.8, 0.9}, least_scores[2] = {0.4, 0.2};
static const sureness sure_of[2] = {
    {2, 0, levels, NULL, NULL, NULL, NULL, 0.0, 0.0, least_scores},
    {2, 0, levels, NULL, NULL, NULL, NULL, 0.0, 0.0, least_scores},
};

static const nn_slot slots_1[4] = {0, 1, 2, 2};
static const row_input inputs[2] = {
    {NUMBER, 0, 0, 0, 0, 0, 0, 40.0, 9.0, 41.0, NULL, NULL, NULL, NULL},
    {ONEHOT, 1, 0, 0, 0, 2, 0, 0.0, 0.0, 0.0, NULL, NULL, slots_1, NULL},
};
static const nn_real weight_0[3] = {0.5f, -1.0f, 1.0f}, bias_0[1] = {0.25f};
static const layer layers[1] = {
    {DENSE, SIGMOID, 3, 1, {3, 1, 1}, {1, 1, 1}, 0, 0, 0, 0, weight_0, bias_0, NULL, 0.0f}};
static const network networks[1] = {
    {1.0, 1.0, NULL, NULL, NULL, NULL, NULL, NULL, inputs, layers, 2, 1}};
