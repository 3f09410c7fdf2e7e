/* core.h - inside the core: how a network is held, and what each layer kind, activation and loss must offer.
 *
 * Included once per number type (and, in _omp, per instruction set) with `real` and FN defined; everything here
 * is private to that translation unit. Batches are (n, row_stride(values)): rows of the plain build are dense,
 * those of the fast build are filled up with zeros to whole vectors, and stay so.
 */
#ifndef NN_CORE_H
#define NN_CORE_H
#include "common.h"
#include <string.h>

typedef struct layer layer;

/* What the optimiser does to one weight, worked out once a batch. */
typedef struct {
    int optimizer;
    double rate;                        /* sgd: learning rate times inv_rows, momentum: learning rate,
                                         * adam: learning rate / (1 - beta1^t) */
    double inv_rows;                    /* gradients are sums over the batch; this makes them means */
    double momentum, beta1, beta2, epsilon;
    double root_scale;                  /* adam: 1 / sqrt(1 - beta2^t) */
    double decay;                       /* learning rate times weight decay */
} update;

/* What a layer needs to know about the batch at hand. */
typedef struct {
    team team;
    int64_t n;                          /* rows */
    int64_t first_row;                  /* how many rows of the batch other ranks have before these */
    int training;                       /* dropout acts */
    uint32_t seed;
    int64_t step;
    void *scratch;                      /* this thread's workspace, as large as the layer kind asked for */
    const update *update;               /* a layer may apply it as it finds its gradients; NULL: it must keep them */
    int64_t x_row;                      /* not 0: values from one row of x to the next, if not row_stride's */
    int64_t row;                        /* how many rows of this rank's batch come before these */
    int thread;                         /* whose room to use: the number in the team, or of a thread that is a team alone */
} batch;

/* One layer kind: a row of the table in net.c. `x` is the layer's input, `dz` the gradient of its output before the
 * activation, `dx` that of its input with the derivative of the activation below it already applied. */
typedef struct {
    int64_t (*weights)(const nn_layer *spec);           /* values the weight takes here, with padding */
    int64_t (*workspace)(const nn_layer *spec, int64_t n, int threads); /* bytes beside parameters and batches */
    void (*import)(const layer *l, real *to, const real *weight);       /* from the parameter vector's layout */
    void (*export)(const layer *l, real *weight, const real *from);
    void (*forward)(layer *l, real *out, const real *x, const batch *b);
    void (*backward_input)(layer *l, real *dx, const real *dz, const real *x, int below, const batch *b);
    /* returns 1 where it has applied b->update itself, as it found the gradients; they are not kept then */
    int (*backward_parameters)(layer *l, const real *dz, const real *x, const batch *b);
    /* what threads share in forward, or in backward_input, made before them; NULL: nothing */
    void (*prepare)(layer *l, int backward, const batch *b);
    /* Gradients that are summed in pieces of the batch's rows: how many, the sums of piece `number` from its rows, and
     * the gradients from all pieces of n rows. Of layers that go `by_rows` and have weights. */
    int64_t (*pieces)(const nn_layer *spec, int64_t n);
    void (*sum_piece)(layer *l, const real *dz, const real *x, int64_t number, const batch *b);
    void (*gather_pieces)(layer *l, int64_t n, const batch *b);
    /* backward_pair: instead of backward_input and both layers' backward_parameters, where nothing asks for more:
     * `below` is the lowest layer that learns, x its input. NULL, or pairs() says no: no such short way */
    int (*pairs)(const nn_layer *spec, const nn_layer *below);
    int (*backward_pair)(layer *l, layer *below, const real *x, const batch *b);
    double (*flops)(const nn_layer *spec);              /* of one row's forward pass */
    /* whether so many threads gain by sharing the layer in training on n rows; NULL: yes */
    int (*shared)(const nn_layer *spec, int64_t n, int threads);
    int64_t (*scratch)(const nn_layer *spec, int64_t n);/* bytes each thread needs while it is in one of these */
    int64_t (*common)(const nn_layer *spec, int64_t n); /* and bytes that all threads share then */
    int (*reads_any_row)(const nn_layer *spec);         /* forward heeds batch.x_row; NULL: it does not */
    /* rows of a batch up to which backward_parameters applies b->update itself; NULL: it always keeps gradients */
    int64_t (*most_stepped_rows)(const nn_layer *spec);
    /* backward_input takes the derivative of the activation below from the layer's own output; NULL: never */
    int (*reads_output)(const nn_layer *spec, int below);
    int by_rows;                        /* rows of forward and backward_input need those same rows of what they read */
} layer_kind;

struct layer {
    nn_layer spec;
    const layer_kind *kind;
    int index;                          /* place in the network, flatten counted: the layer number of dropout's masks */
    int64_t inputs, outputs;            /* values of one row */
    int64_t weight_size, bias_size;     /* values in the vectors below, with padding; 0: the layer has none */
    int64_t weight_at, bias_at;         /* where they begin in each */
    real *w, *b, *dw, *db;              /* dw, db: NULL where nobody asked for gradients that are not kept */
    real *m, *v;                        /* the optimiser's moments of w (NULL until an optimiser needs them) */
    real *bm, *bv;                      /* and of b */
    real *out, *dz;                     /* (batch, row_stride(outputs)) */
    int passing;                        /* out has the rows under way only, near_rows for each thread: depth.c */
    void *work;                         /* its workspace, which keeps what is written there */
    void *common;                       /* holds whatever the last layer left there; a deep layer's is its own */
};

struct nn_net {
    int count, loss, threads;
    int64_t batch;                      /* rows there is room for */
    int deep;                           /* how many of the first layers threads run depth first: depth.c */
    int64_t near_rows;                  /* rows that a thread takes forward through those at a time */
    int64_t turn_stride[2];             /* values from one thread's part of turn to the next one's, for those */
    layer *layers;
    int64_t size, engine_size;          /* values in a parameter vector, and in the four below */
    int64_t kept_size, gradients_size;  /* of layers that always keep their gradients, and what there is room for */
    real *parameters, *gradients, *moment1, *moment2;   /* the first two with a value more: ranks.c */
    real *x, *y;                        /* the batch: (batch, row_stride(inputs)), (batch, row_stride(outputs)) */
    real *dx;                           /* gradient of x, only while asked for */
    real *turn[2];                      /* the dz of images, layer by layer in turn */
    double *row_loss;                   /* (batch) */
    char *scratch;                      /* (threads, scratch_stride) */
    int64_t scratch_stride;
    void *common;
    int64_t bytes;
    barrier meet;
    int stop;                           /* what the first thread read after the last batch */
    nn_profile *profile;
    const nn_ranks *ranks;              /* NULL: this process trains alone */
};

static inline int64_t values(const int32_t shape[3]) { return (int64_t)shape[0] * shape[1] * shape[2]; }

/* Values from one row of a batch to the next. */
static inline int64_t row_stride(int64_t n) { return (n + VECTOR - 1) / VECTOR * VECTOR; }

/* Copy rows of `width` values between arrays of different row lengths. */
static inline void take_rows(real *to, int64_t to_stride, const real *from, int64_t from_stride, int64_t rows, int64_t width)
{
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + r * to_stride, from + r * from_stride, (size_t)width * sizeof(real));
}

/* ---- depth.c ---- */

/* The first net->deep layers, forward; and backward down to the layer `lowest`, with the update where b has one. */
static void forward_deep(nn_net *net, const batch *b);
static void backward_deep(nn_net *net, const batch *b, real *dx, int lowest);

/* ---- layout.c ---- */

/* How an image lies inside the core: as the caller gives it, channel by channel, or with the channels of each pixel
 * together. Vectors (n,1,1) look the same either way. */
#ifdef NN_FAST
enum { CHANNELS_LAST = 1 };
#else
enum { CHANNELS_LAST = 0 };
#endif
/* One row from the caller's layout into the core's; from bytes, to = scale * from; and back. */
static void image_in(real *to, const real *from, const int32_t shape[3]);
static void image_in_bytes(real *to, const uint8_t *from, double scale, const int32_t shape[3]);
static void image_out(real *to, const real *from, const int32_t shape[3]);
/* Where value k of the caller's row stands in the core's. */
static inline int64_t image_place(int64_t k, const int32_t shape[3])
{
    int64_t pixels = (int64_t)shape[1] * shape[2];
    return CHANNELS_LAST ? k % pixels * shape[0] + k / pixels : k;
}

/* ---- nn_aux.c ---- */

/* a = f(z) in place for rows [first, last) of (n, width) */
static void activation_forward(real *a, int activation, int64_t first, int64_t last, int64_t width);
/* dx *= f'(a) for rows [first, last), the derivative taken from the output a; not for softmax, which only losses use */
static void activation_backward(real *dx, const real *a, int activation, int64_t first, int64_t last, int64_t width);
/* For rows [first, last): z becomes dz of the summed loss, row_loss[r] the loss of row r. */
static void loss_backward(real *z, double *row_loss, const real *y, int loss, int activation,
                          int64_t first, int64_t last, int64_t width);
/* w[n] takes one step; decays: weight decay applies */
static void optimizer_step(real *w, const real *g, real *m, real *v, int64_t n, int decays, const update *u);
#endif
