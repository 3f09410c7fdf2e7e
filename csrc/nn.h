/* nn.h - the interface of the C core. The C compiler and cffi read this one file.
 *
 * `real` is float or double: every function written FN(name) exists as name_f32 and name_f64.
 * The extension `_seq` is built from the plain kernels, `_omp` from the fast ones; both offer
 * all of this.
 * Arrays are dense and row-major. n rows of a batch, i inputs, o outputs.
 * A parameter vector holds each layer's weight, then its bias, layer after layer:
 * dense weight (out, in), convolution kernel (out, in, kh, kw), embedding its columns' tables,
 * each (values, width); its bias are the frequencies of its columns' waves.
 */
#ifndef NN_H
#define NN_H
#include <stdint.h>

typedef enum { NN_DENSE, NN_CONV, NN_PAD, NN_MAXPOOL, NN_AVGPOOL, NN_DROPOUT, NN_FLATTEN,
               NN_ACTIVATION,
               NN_EMBEDDING } nn_kind;
typedef enum { NN_COLUMN_NUMBER, NN_COLUMN_GAP, NN_COLUMN_ONEHOT,
               NN_COLUMN_EMBEDDING } nn_column_kind;
typedef enum { NN_LINEAR, NN_SIGMOID, NN_TANH, NN_RELU, NN_LRELU, NN_SOFTPLUS, NN_SOFTMAX,
               NN_SILU, NN_GELU, NN_SELU, NN_EXP, NN_STEPS } nn_activation;
typedef enum { NN_MSE, NN_MAE, NN_HUBER, NN_BCE, NN_CE, NN_REFERENCE, NN_QUANTILE, NN_FOCAL,
               NN_POISSON, NN_GAMMA, NN_TWEEDIE } nn_loss;
typedef enum { NN_SGD, NN_ADAM, NN_RMSPROP, NN_ADAGRAD } nn_optimizer;
/* NN_SCALES: of the inputs of the first dense layer, what their scales exceed 1 by, then the
 * moments of these, one after the other; the others are as long as the parameters. */
typedef enum { NN_PARAMETERS, NN_MOMENT1, NN_MOMENT2, NN_SCALES, NN_KEPT } nn_vector;
typedef enum { NN_SAME_TYPE, NN_BYTES, NN_RECORDS } nn_type;

/* One value x of a row, and the outputs that an embedding layer makes of it: number: x; gap: (x,
 * 0), or (fill, 1) where x is NaN; one-hot: `values` outputs, 1 at output x, else 0; embedding:
 * row x of a table (values, width). After these come the pieces of a number's axis, with or
 * without gaps: clip((v - edges[i]) / (edges[i + 1] - edges[i]), 0, 1), where v is x, or fill;
 * then its waves: sin(2 pi f[i] v) for each of its frequencies f, which are trained, then all
 * cos(2 pi f[i] v). */
typedef struct {
    nn_column_kind kind;
    int32_t values, width;
    int32_t pieces, waves;              /* 0: none */
    double fill;
    const void *edges;                  /* (pieces + 1) of the network's type, ascending */
} nn_column;

/* One layer as its caller describes it. A vector of n values has shape n,1,1. */
typedef struct {
    nn_kind kind;
    nn_activation activation;
    /* NN_ACTIVATION: out = function(x); its derivative is taken from x */
    nn_activation function;
    int32_t in[3], out[3];              /* channels, height, width */
    int32_t kernel, stride;             /* convolution, pooling; square windows */
    /* zeros before the image; those after it follow from the output's size */
    int32_t pad_top, pad_left;
    double rate;                        /* dropout: share of values set to 0 */
    /* where they begin in the parameter vector, -1: the layer has none. An embedding may lack
     * either: its bias begins where its weight ends */
    int64_t weight, bias;
    /* embedding, always the first layer: its in[0] inputs; they and their edges stay the
     * caller's as long as the network lives */
    const nn_column *columns;
} nn_layer;

/* A loss and the constants of its formula. huber: the distance from which on it is straight.
 * quantile: the share of targets below it, behind NN_STEPS that of each output. focal: the power
 * of 1 - p. poisson, gamma, tweedie: of the mean, to which the variance is proportional: 1, 2,
 * between. */
typedef struct {
    nn_loss loss;
    double constants[99];
} nn_loss_settings;

/* Rows to learn from. x (rows, inputs) of the network's type, or bytes that become byte / 255,
 * or records. A record holds the inputs of a row: numbers of the network's type, then codes in
 * 4, in 2 and in 1 bytes, which go in as numbers. Targets: y (rows, outputs), or labels (rows),
 * which stand for one-hot rows; the other is NULL. A y that is nan has no loss and no gradient. For
 * bce and focal a class may have a weight of its own: y is 2^80 times the weight of class 1, and
 * -2^80 times that of class 0. */
typedef struct {
    const void *x;
    nn_type x_type;
    const void *y;
    const int32_t *labels;
    /* (rows) of the network's type: how often a row counts; NULL: once each */
    const void *weights;
    /* from one record to the next, a multiple of the number type's size */
    int64_t record_bytes;
    int32_t numbers, codes4, codes2, codes1;    /* of a record; together the inputs */
} nn_data;

/* The settings of one epoch. The learning rate runs in straight lines through `rates`, the rates
 * at 0, 1/8, 2/8 .. 8/8 of the epoch's rows: this approximates any schedule. */
typedef struct {
    nn_optimizer optimizer;
    /* vectors that the optimiser keeps beside the parameters, two at most */
    int32_t moments;
    /* sgd: momentum m, v = m v + g, w -= rate v. adam: beta1, beta2, epsilon; bias-corrected.
     * rmsprop: beta, epsilon; m = beta m + (1 - beta) g^2, w -= rate g / (sqrt(m) + epsilon).
     * adagrad: epsilon; the same with m = m + g^2. epsilon is outside the root */
    double constants[3];
    int64_t batch;
    double rates[9];
    double weight_decay;                /* w -= rate decay w beside the step; not on biases */
    /* Not 0: the first dense layer's weight is w = v s, s a scale of each input, which begins at 1
     * and stays above 1 / 64. Steps are those of v, and of s by this multiple of the rate, without
     * decay. Only where nothing but embedding, dropout, flatten and activations comes before that
     * layer. */
    double scale_rate;
    uint32_t seed;                      /* of dropout masks, and of how images are moved: */
    /* by -shift .. shift rows down, and columns to the right; what comes in is as the pixel at
     * the edge. 0, 0: not at all */
    int32_t shift[2];
    int32_t mirror;                     /* whether half of them are mirrored, left to right */
    int32_t lowest;                     /* the layers below this one keep their parameters */
} nn_training;

/* The progress of an epoch. The caller may read it and set `stop` while the epoch runs in
 * another thread. */
typedef struct {
    int64_t row;                        /* rows of the order done so far; an epoch begins here */
    int64_t step;                       /* batches done since training began */
    /* sum over the rows done of their losses times their weights */
    double loss;
    int32_t stop;                       /* not 0: end after this batch */
} nn_progress;

/* How long the steps of a batch of training took, or of a call of net_predict. A row for each
 * thread of each batch: its begin, on nn_seconds' clock; then seconds: rows gathered; forward of
 * layer 0, 1, ...; loss; of each layer from the last to the first: gradients, update (0 where
 * these include it); between ranks: gradients summed, update, parameters sent; the batch's end,
 * of the first thread. What a thread does in pieces, micro-batches or some rows of a call, is
 * added up; a thread without any has a row of 0. NULL in net_profile, or no room left, and
 * nothing is written. */
typedef struct {
    int64_t capacity, batches;          /* rows of each thread: allocated, written */
    int32_t threads;                    /* that have rows: the first ones */
    int32_t predicts;                   /* whether calls of net_predict are noted, not batches */
    /* (capacity, threads, 7 + 3 layers), all 0 before; stamps.h names the places */
    double *seconds;
    double *last;                       /* (threads): when a step of it last ended */
} nn_profile;

/* The processes that train one network together over MPI: rank r of `size` takes the rows from n
 * r / size up to n (r + 1) / size of each batch of n. The functions are MPI's own. Its handles
 * are an int in MPICH and a pointer in Open MPI and in MPI's standard ABI; here they are an
 * intptr_t, which goes for either: on x86-64 and AArch64 each travels in a register of its own,
 * of which a function that wants an int reads the lower half. */
typedef struct {
    int32_t rank, size;
    /* rank 0 alone takes the steps and has the moments, and sends the parameters */
    int32_t central;
    int (*iallreduce)(const void *send, void *receive, int count, intptr_t type, intptr_t op,
                      intptr_t comm, void *request);
    int (*ireduce)(const void *send, void *receive, int count, intptr_t type, intptr_t op, int root,
                   intptr_t comm, void *request);
    int (*ibcast)(void *values, int count, intptr_t type, int root, intptr_t comm, void *request);
    int (*iallgather)(const void *send, int count, intptr_t type, void *receive, int each,
                      intptr_t of, intptr_t comm, void *request);
    int (*test)(void *request, int *done, void *status);
    /* MPI_SUM; MPI_FLOAT or MPI_DOUBLE as `real` is; MPI_DOUBLE */
    intptr_t comm, sum, type, double_type;
    void *in_place;                     /* MPI_IN_PLACE */
} nn_ranks;

/* The job of one network of a pack in a call: an epoch (pack_epoch), predictions or a loss of
 * some rows. */
typedef struct {
    int32_t member;                     /* number of the network; once in a call at most */
    /* epoch: whether the order is that of nn_shuffle on `rows`, with training.seed, `stream` and
     * `lane`; else it is `rows` */
    int32_t shuffled;
    const nn_data *data;
    const int64_t *rows;                /* of data. Predictions: NULL stands for the first n */
    int64_t n;
    uint32_t stream, lane;
    nn_training training;
    nn_progress *progress;
    void *out;                          /* predictions: (n, outputs) */
    double loss;                        /* is set: the mean loss, weighted */
    /* is set: not 0 where memory ran out before the first batch */
    int32_t failed;
} nn_job;

/* Walks from each of some rows of a table to each of others, walk w from row w % others to row w
 * / others. Each step takes the value of a column over from the row where the walk ends, or
 * gives it back. */
typedef struct {
    /* of the table; outputs of the first layer, an elementwise activation behind */
    int64_t columns, width;
    int64_t others, walks, steps;
    nn_activation activation;
} nn_walk;

typedef struct nn_net nn_net;
typedef struct nn_pack nn_pack;

/* ---- instruction sets ------------------------------------------------------------------------ */

/* The instruction set the kernels use: the best this processor has of "avx512", "avx2",
 * "baseline", or the one that the environment variable NN_ISA names; always "plain" in _seq. */
const char *nn_isa(void);

/* 1 where the extension was built with OpenMP. */
int nn_has_openmp(void);
/* Lets a read of a mapped file that was cut meanwhile, or of a disk that fails, end the process
 * with the exit code and this line. */
void nn_tell_lost(const char *line, int code);
void nn_free(void *pointer);

/* ---- random numbers (random.c) --------------------------------------------------------------- */

/* Philox4x32-10 (Salmon et al. 2011): block number `counter` of the stream, four words. */
void nn_philox(uint32_t out[4], uint32_t seed, uint64_t counter, uint32_t stream, uint32_t lane);
/* out[n], uniform in [0, 1): 53 bits of the stream each. */
void nn_uniform(double *out, int64_t n, uint32_t seed, uint32_t stream);
/* out[n], normal with mean 0 and variance 1 (Box and Muller). */
void nn_normal(double *out, int64_t n, uint32_t seed, uint32_t stream);
/* Fisher-Yates in place, from the given stream; `lane` tells one shuffle of the stream from the
 * next. */
void nn_shuffle(int64_t *order, int64_t n, uint32_t seed, uint32_t stream, uint32_t lane);

/* The original program's generator: glibc's srand and rand (TYPE_3). state needs 34 words. */
void nn_glibc_srand(uint32_t state[34], uint32_t seed);
uint32_t nn_glibc_rand(uint32_t state[34]);
/* out[n] = rand() / RAND_MAX */
void nn_glibc_uniform(double *out, int64_t n, uint32_t state[34]);
/* The original's shuffle: swap order[i] with order[i + rand() / (RAND_MAX / (n - i) + 1)], i =
 * 0..n-2 */
void nn_glibc_shuffle(int64_t *order, int64_t n, uint32_t state[34]);

#ifdef FN
/* ---- matrices and vectors (matrix.c and nn_aux.c of seq/ and omp/) --------------------------- */

/* c (m,n) = a (m,k) b (k,n); a_transposed: a is stored (k,m), b_transposed: b is stored (n,k).
 * 0, or -1 when memory runs out. */
int FN(matmul)(real *c, const real *a, const real *b, int64_t m, int64_t n, int64_t k,
               int a_transposed, int b_transposed, int threads);

/* Writes the first layer's outputs after each step that changes them, and for the opposite row,
 * which has the last row's values where this one has the first one's: (steps that change them,
 * 2, width), with OVERREAD bytes behind them; returns how many steps do. places (walks, steps):
 * which of them a step leads to, -1 - w where walk w has not left its first row. others (others,
 * columns + 1, width): the layer's sums for the rows where walks begin, and what each column
 * adds to them; own: the same of the rows where they end; order (others, steps): the column of a
 * step; differ (walks, columns): whether its value does (walk.c). */
int64_t FN(walk)(real *restrict out, int64_t *restrict places, const real *own, const real *others,
                 const int32_t *order, const uint8_t *differ, const nn_walk *walk);

/* ---- networks (net.c, buffers.c, threads.c, train.c, test.c) --------------------------------- */

/* A network of `count` layers with room for batches of `batch` rows, which lacks parameters.
 * NULL when memory runs out. One thread at a time computes with it, on up to `threads` threads. */
nn_net *FN(net_new)(const nn_layer *layers, int count, const nn_loss_settings *loss, int64_t batch,
                    int threads);
void FN(net_free)(nn_net *net);
/* A vector for parameters as the core keeps them: a copy of the network's, 0 where it lacks
 * them; for nn_free. NULL when memory runs out. */
real *FN(net_vector)(const nn_net *net);
/* Compute from now on with these parameters, of net_vector on this network or another of the
 * same layers. They stay the caller's; networks may share those that none of them changes. */
void FN(net_use)(nn_net *net, real *parameters);
/* Allocate for batches of up to `batch` rows. 0, or -1 when memory runs out (the network is as
 * before). */
int FN(net_reserve)(nn_net *net, int64_t batch);
/* Bytes the network holds: parameters, optimiser state, one batch's activations and gradients,
 * workspace. */
int64_t FN(net_bytes)(const nn_net *net);
/* Threads that pay off in training on a batch of `rows` rows (1 where more would wait longer
 * than they save). */
int FN(net_threads)(const nn_net *net, int64_t rows);
/* Writes to out[size] the kernel of layer number `layer`, counted from 0, in training on batches
 * of `rows` rows; and whether the layer is fused with its neighbours, and the batch trained as
 * micro-batches. -1: no such layer. */
int FN(net_route)(const nn_net *net, int64_t rows, int layer, char *out, int size);
/* Copy a parameter vector (NN_PARAMETERS), the optimiser's moments or the kept parameters in or
 * out. 0, or -1 when memory for a vector that nobody asked for before runs out. */
int FN(net_set)(nn_net *net, nn_vector what, const real *values);
int FN(net_get)(nn_net *net, nn_vector what, real *values);
/* Keep a copy of the parameters as they are now, instead of the last one. -1 when memory runs
 * out. */
int FN(net_keep)(nn_net *net);
/* From now on note in *profile when the steps of batches end; NULL: no longer. */
void FN(net_profile)(nn_net *net, nn_profile *profile);
/* From now on net_epoch trains together with the other ranks (*ranks stays the caller's); NULL:
 * alone. */
void FN(net_ranks)(nn_net *net, const nn_ranks *ranks);
/* One batch's mean loss; grads (parameter vector) and dx (n, inputs), each may be NULL. Dropout
 * acts as in training with that seed and step where seed >= 0, and not at all where it is
 * negative. 0, or -1 when memory runs out. */
int FN(net_gradients)(nn_net *net, double *loss, real *grads, real *dx, const real *x,
                      const real *y, int64_t n, int64_t seed, int64_t step);
/* out (n, outputs) = the network of data's rows[0 .. n-1]; of its first n rows where rows is
 * NULL. */
void FN(net_predict)(nn_net *net, real *out, const nn_data *data, const int64_t *rows, int64_t n);
/* Mean loss of data's rows[0 .. n-1], weighted; no dropout. 0 where all weights are 0. */
double FN(net_loss)(nn_net *net, const nn_data *data, const int64_t *rows, int64_t n);
/* Train on data's rows order[progress->row .. n-1], batch after batch, the last one shorter.
 * Updates progress.
 * A batch's gradient is the mean over its rows, weighted: a row of weight 2 is as good as two
 * rows. It is 0 where all of the batch's weights are 0.
 * With ranks all of them call it with the same order and progress, but for `stop`, which one is
 * enough to set.
 * 0, -1 when memory runs out before the first batch, -2 when a message between ranks fails. */
int FN(net_epoch)(nn_net *net, const nn_data *data, const int64_t *order, int64_t n,
                  const nn_training *training, nn_progress *progress);

/* ---- packs: networks of one architecture side by side, each on one thread (pack.c) ----------- */

/* `members` networks, parameters all 0; activations for `threads` of them. NULL when memory runs
 * out. */
nn_pack *FN(pack_new)(const nn_layer *layers, int count, const nn_loss_settings *loss, int members,
                      int threads);
void FN(pack_free)(nn_pack *pack);
/* Allocate for batches of up to `batch` rows, and for orders of `rows`. 0, or -1 when memory
 * runs out. */
int FN(pack_reserve)(nn_pack *pack, int64_t batch, int64_t rows);
int64_t FN(pack_bytes)(const nn_pack *pack);
/* As net_set, net_get and net_keep, of one member. -1 when memory runs out. */
int FN(pack_set)(nn_pack *pack, int member, nn_vector what, const real *values);
int FN(pack_get)(nn_pack *pack, int member, nn_vector what, real *values);
int FN(pack_keep)(nn_pack *pack, int member);
/* As net_epoch, net_predict and net_loss, for each job; threads take the next job as they get
 * free. Every result has the same bits as that of a network alone. pack_reserve must have made
 * room for the jobs. */
void FN(pack_epoch)(nn_pack *pack, nn_job *jobs, int count);
void FN(pack_predict)(nn_pack *pack, nn_job *jobs, int count);
void FN(pack_loss)(nn_pack *pack, nn_job *jobs, int count);
#endif
#endif
