/* core.h - inside the core: how a network is held, and what each layer kind must offer.
 *
 * core.c includes it once per number type (and, in _omp, per instruction set) with `real` and FN
 * defined; everything here is private to that translation unit. A batch is (n,
 * row_stride(values)): the plain build packs its rows densely, the fast build fills each row up
 * to whole vectors with zeros, and every kernel keeps them 0.
 */
#ifndef NN_CORE_H
#define NN_CORE_H
#include "common.h"
#include "stamps.h"
#include <string.h>

typedef struct layer layer;

/* An optimiser's step on one weight: its constants for one batch. */
typedef struct {
    nn_optimizer optimizer;
    int moments;                        /* how many the optimiser keeps of each weight */
    /* sgd: learning rate times inv_rows, adam: learning rate / (1 - beta1^t), momentum and the
     * others: learning rate */
    double rate;
    /* 1 / sum of the rows' weights: gradients are sums over the batch, this makes them means */
    double inv_rows;
    double constants[3];                /* of nn_training */
    double root_scale;                  /* adam: 1 / sqrt(1 - beta2^t) */
    double decay;                       /* learning rate times weight decay */
    double scale_rate;                  /* of nn_training */
} update;

/* The batch at hand, as a layer sees it. */
typedef struct {
    thread_team team;
    int64_t n;                          /* rows */
    /* rows of the whole batch before these; other ranks may hold them */
    int64_t first_row;
    int training;                       /* dropout acts */
    uint32_t seed;
    int64_t step;
    const nn_training *moves;           /* how its images are moved; NULL: they are not */
    /* this thread's workspace, as large as the layer kind asked for */
    void *scratch;
    /* a layer may apply it as it finds its gradients; NULL: it must keep them */
    const update *update;
    /* values from one row of x to the next; 0: row_stride of the inputs */
    int64_t x_row;
    /* backward_input need not find dx of other inputs than these; 0, 0: of all */
    int64_t dx_from, dx_to;
    int64_t row;                        /* rows of this rank's batch before these */
    /* whose per-thread memory to use: a fused thread's team has itself only */
    int thread;
} batch;

/* A layer's passes, for `route`. */
typedef enum { FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT } pass_kind;

/* One layer kind, found by kind_of in net.c. x (n, inputs) is the layer's input, dz (n, outputs)
 * the gradient of its output before the activation, dx (n, inputs) that of its input with the
 * derivative of `below`, the activation of the layer below, already applied. The nested groups
 * may be left out, whole or in part; each line says what NULL means. The hooks that get a batch
 * run on all threads of b->team. */
typedef struct {
    /* ---- required ---- */

    /* out = f(layer of x); feedforward in pass.c, fused.c, test.c */
    void (*forward)(layer *l, real *out, const real *x, const batch *b);
    /* dx from dz; backpropagate in pass.c, fused.c */
    void (*backward_input)(layer *l, real *dx, const real *dz, const real *x, nn_activation below,
                           const batch *b);
    /* operations of one row's forward pass; threads.c */
    double (*flops)(const nn_layer *spec);

    /* ---- kinds with parameters: the first four, or none; nn/layers.py has what they begin
     * with ---- */
    struct {
        /* values of the weight as the core keeps it, with padding; net.c */
        int64_t (*size)(const nn_layer *spec);
        /* the weight from the caller's parameter vector, and back; net.c */
        void (*import)(const layer *l, real *to, const real *weight);
        void (*export)(const layer *l, real *weight, const real *from);
        /* l->dw and l->db from dz, or 1: the step b->update is taken and they are not kept;
         * pass.c */
        int (*gradient)(layer *l, const real *dz, const real *x, const batch *b);
        /* rows of a batch up to which `gradient` takes the step itself; buffers.c. NULL: it
         * always keeps gradients */
        int64_t (*most_stepped_rows)(const nn_layer *spec);
        /* values of the bias, which weight decay leaves alone; net.c. NULL: one a channel of the
         * output */
        int64_t (*biases)(const nn_layer *spec);
        /* weight decay leaves the weight alone, too; pass.c */
        int undecayed;
        /* the step of the weight by l->dw, and that of the scales of its inputs; pass.c. NULL:
         * these have none */
        void (*scaled_step)(layer *l, const batch *b);
    } parameters;

    /* ---- memory in bytes beside parameters and batches; buffers.c ---- */
    struct {
        /* kept from forward to backward, in l->work. NULL: none, so each row's prediction needs
         * nothing but the row */
        int64_t (*workspace)(const nn_layer *spec, int64_t n, int threads);
        /* per thread while it is in one of these hooks, in b->scratch. NULL: none */
        int64_t (*scratch)(const nn_layer *spec, int64_t n);
        /* of all threads together meanwhile, in l->shared_scratch. NULL: none */
        int64_t (*shared_scratch)(const nn_layer *spec, int64_t n);
    } memory;

    struct {                            /* ---- hooks of the fast path ---- */
        /* fills l->shared_scratch before forward, or backward_input; pass.c, fused.c. NULL:
         * nothing to fill */
        void (*prepare)(layer *l, int backward, const batch *b);
        /* rows [a, b) of forward and backward_input need rows [a, b) of what they read: fused.c
         * may fuse the layer */
        int by_rows;
        /* Of kinds that go by_rows and have parameters; fused.c. The gradient is a sum of
         * partial sums over some of the batch's rows each: how many for n rows, partial sum
         * `number` from its rows, dw and db from all of them. */
        int64_t (*partial_sums)(const nn_layer *spec, int64_t n);
        void (*add_partial_sum)(layer *l, const real *dz, const real *x, int64_t number,
                                const batch *b);
        void (*reduce)(layer *l, int64_t n, const batch *b);
        /* backward_input reads x for more than the derivative of `below`; buffers.c then keeps x
         * of all rows */
        int reads_input;
        /* whether `threads` threads gain by sharing the layer in training on n rows; threads.c.
         * NULL: always */
        int (*gains_by_sharing)(const nn_layer *spec, int64_t n, int threads);
        /* forward obeys b->x_row; test.c then passes the caller's rows without a copy. NULL:
         * never */
        int (*reads_any_row)(const nn_layer *spec);
        /* backward_input takes the derivative of `below` from the layer's own output; buffers.c.
         * NULL: never */
        int (*reads_output)(const nn_layer *spec, nn_activation below);
        /* the outputs [*from, *to) whose gradients `gradient` reads; pass.c. NULL: all */
        void (*gradients_read)(const nn_layer *spec, int64_t *from, int64_t *to);
        /* the name of the kernel that computes a pass of this batch; route.c. NULL: a loop over
         * values */
        const char *(*route)(const nn_layer *spec, pass_kind pass, const batch *b);
    } fast;
} layer_kind;

struct layer {
    nn_layer spec;
    const layer_kind *kind;
    /* place in the network, flatten counted: the layer number of dropout's masks */
    int index;
    int64_t inputs, outputs;            /* values of one row */
    /* values in the vectors below, with padding; 0: the layer has none */
    int64_t weight_size, bias_size;
    int64_t weight_at, bias_at;         /* where they begin in each */
    /* dw, db: NULL where nobody asked for gradients that are not kept */
    real *w, *b, *dw, *db;
    /* the optimiser's moments of w (NULL until an optimiser needs them) */
    real *m, *v;
    real *bm, *bv;                      /* and of b */
    /* of the layer whose inputs have scales, else NULL: these, their two moments, and room for
     * their gradients, a row of row_stride(inputs) each */
    real *scales;
    real *out, *dz;                     /* (batch, row_stride(outputs)) */
    /* out is a per-thread buffer of fused_rows rows, not the whole batch */
    int out_per_thread;
    /* its workspace, which keeps its contents from forward to backward */
    void *work;
    void *shared_scratch;               /* shared by all layers; fused layers get their own */
};

/* Memory whose size depends on the rows of a batch; buffers.c makes it. */
typedef struct {
    /* the batch: (batch, row_stride(inputs)), (batch, row_stride(outputs)) */
    real *x, *y;
    double *row_loss;                   /* (batch) */
    /* gradients of images: layers use one and the other in alternation */
    real *dz[2];
    /* values from one thread's part of dz to the next one's, for fused layers */
    int64_t dz_stride[2];
    /* how many of the first layers threads run depth first: fused.c */
    int fused_layers;
    /* rows that a thread takes forward through those at a time */
    int64_t fused_rows;
    char *scratch;                      /* (threads, scratch_stride) */
    int64_t scratch_stride;
    void *shared_scratch;
} buffers;

struct nn_net {
    int count, threads;
    int lowest;                         /* of an epoch: layers below it keep their parameters */
    int scaled;                         /* the layer whose inputs may have scales; -1: none */
    nn_loss_settings loss;
    int64_t batch;                      /* rows that the buffers have room for */
    buffers buffers;
    layer *layers;
    int64_t size, engine_size;          /* values in a parameter vector, and in those below */
    /* of layers that always keep their gradients; of those allocated */
    int64_t kept_size, gradients_size;
    /* by nn_vector; NULL: nobody asked for it. The parameters are the caller's (net_use), with a
     * value more (ranks.c) */
    real *vectors[NN_KEPT + 1];
    real *gradients;                    /* with two values more: ranks.c */
    real *dx;                           /* gradient of x, only while asked for */
    int64_t bytes;
    int stop;                           /* what the first thread read after the last batch */
    nn_profile *profile;
    const nn_ranks *ranks;              /* NULL: this process trains alone */
};

/* A switch over an enum lists every name and has no default: build.py makes the compiler refuse
 * a missing one. NOT_REACHED follows it, for values that cannot get there. */
#define NOT_REACHED __builtin_unreachable()

static inline int64_t values(const int32_t shape[3])
{ return (int64_t)shape[0] * shape[1] * shape[2]; }

static inline int has_parameters(const layer *l) { return l->weight_size + l->bias_size > 0; }

/* Values from one row of a batch to the next. */
static inline int64_t row_stride(int64_t n) { return (n + VECTOR - 1) / VECTOR * VECTOR; }

/* Bytes, or values, up to the next multiple of ALIGNMENT. */
static inline int64_t aligned(int64_t n) { return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* Copy rows of `width` values between arrays of different row lengths. */
static inline void take_rows(real *to, int64_t to_stride, const real *from, int64_t from_stride,
                             int64_t rows, int64_t width)
{
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + r * to_stride, from + r * from_stride, (size_t)width * sizeof(real));
}

/* ---- threads.c ---- */

static int forward_threads(const nn_net *net, int64_t rows);
static int64_t micro_batches_of(const nn_net *net, int64_t n);

/* ---- fused.c ---- */

/* The fused layers, forward; and backward down to the layer `lowest`, with the step where b has
 * an update. */
static void forward_fused(nn_net *net, const batch *b);
static void backward_fused(nn_net *net, const batch *b, real *dx, int lowest);

/* ---- layout.c ---- */

/* How an image lies inside the core: as the caller gives it, channel by channel, or with the
 * channels of each pixel together. Vectors (n,1,1) look the same either way. */
#ifdef NN_FAST
enum { CHANNELS_LAST = 1 };
#else
enum { CHANNELS_LAST = 0 };
#endif
/* One row from the caller's layout into the core's; from bytes, to = from / 255; and back. */
static const double BYTE_SCALE = 1 / 255.0;
static void image_in(real *to, const real *from, const int32_t shape[3]);
static void image_in_bytes(real *to, const uint8_t *from, const int32_t shape[3]);
static void image_out(real *to, const real *from, const int32_t shape[3]);
/* Where value k of the caller's row stands in the core's. */
static inline int64_t image_place(int64_t k, const int32_t shape[3])
{
    int64_t pixels = (int64_t)shape[1] * shape[2];
    return CHANNELS_LAST ? k % pixels * shape[0] + k / pixels : k;
}

/* ---- waves.c ---- */

/* The turns from which a number of the type has no fraction that could be rounded away. */
#ifdef REAL_IS_FLOAT
#define FRACTIONLESS 0x1p22
#else
#define FRACTIONLESS 0x1p51
#endif
#ifdef NN_FAST
typedef real gradient_sum;
#else
typedef double gradient_sum;
#endif
/* sines[i], cosines[i] = those of frequencies[i] v turns; 0, 1 from FRACTIONLESS turns on */
static void encode_waves(real *sines, real *cosines, real v, const real *frequencies,
                         int32_t waves);
/* sums[i] += the gradient of frequency i, i in [from, to), from a number v and the gradients of
 * its sines, then cosines, beside these */
static void add_turns(gradient_sum *sums, real v, const real *dz, const real *out, int32_t from,
                      int32_t to, int32_t waves);

/* ---- nn_aux.c ---- */

/* a = f(z) in place for rows [first, last) of (n, width) */
static void activation_forward(real *a, nn_activation activation, int64_t first, int64_t last,
                               int64_t width);
/* dx *= f'(a) for rows [first, last), the derivative taken from the output a; not for softmax
 * and steps, which only losses use */
static void activation_backward(real *dx, const real *a, nn_activation activation, int64_t first,
                                int64_t last, int64_t width);
/* dx *= f'(z) for rows [first, last), of the activations whose derivative is taken from z */
static void activation_backward_from_input(real *dx, const real *z, nn_activation activation,
                                           int64_t first, int64_t last, int64_t width);
/* A y of bce or focal of this size or more is a class with a weight, in this unit: see nn_data. It
 * is far from other targets of a sigmoid, and a power of 2 rounds no weight. */
#define LEAST_WEIGHTED 0x1p32
#define WEIGHT_UNIT 0x1p80
/* For rows [first, last): z becomes dz of the summed loss, row_loss[r] the loss of row r. */
static void loss_backward(real *z, double *row_loss, const real *y, const nn_loss_settings *loss,
                          nn_activation activation, int64_t first, int64_t last, int64_t width);
/* What a scale of an input exceeds 1 by at least: it stays positive, so that w / s is the v of w =
 * v s. */
#define LEAST_EXCESS (1 / 64.0 - 1)
/* w[n] takes one step; decays: weight decay applies */
static void optimizer_step(real *w, const real *g, real *m, real *v, int64_t n, int decays,
                           const update *u);
#endif
