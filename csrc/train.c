/* train.c - the one epoch loop of the plain and the fast build, and the gradients of one batch.
 * uses: buffers.c (need_vector, need_gradients), ranks.c, pass.c (train_batch, first_trainable,
 *   end_profile),
 * micro_batch.c (train_micro_batches)
 */
#include "core.h"
#include <math.h>

/* ---- the optimiser's constants ---- */

/* The learning rate when the share `done` of the epoch is over. */
static double rate_at(const nn_training *t, double done)
{
    const int segments = sizeof t->rates / sizeof *t->rates - 1;
    int i = (int)(done * segments);
    return t->rates[i] + (t->rates[i + 1] - t->rates[i]) * (done * segments - i);
}

/* How many rows the given ones count as. */
static double weight_of(const nn_data *data, const int64_t *rows, int64_t n)
{
    const real *weights = data->weights;
    double sum = 0;
    if (!weights)
        return (double)n;
    for (int64_t r = 0; r < n; r++)
        sum += (double)weights[rows[r]];
    return sum;
}

/* The step before weigh_step. */
static update update_of(const nn_training *t, int64_t step, double done)
{
    double rate = rate_at(t, done);
    update u = {
        .optimizer = t->optimizer, .moments = t->moments, .rate = rate,
        .decay = rate * t->weight_decay, .scale_rate = t->scale_rate,
    };
    memcpy(u.constants, t->constants, sizeof u.constants);
    switch (t->optimizer) {
    case NN_SGD: case NN_RMSPROP: case NN_ADAGRAD: return u;
    case NN_ADAM:
        u.rate = rate / (1 - pow(t->constants[0], (double)(step + 1)));
        u.root_scale = 1 / sqrt(1 - pow(t->constants[1], (double)(step + 1)));
        return u;
    }
    NOT_REACHED;
}

/* Makes it a step by the mean over a batch whose rows weigh that much. */
static void weigh_step(update *u, double weight)
{
    u->inv_rows = weight > 0 ? 1 / weight : 0;
    if (u->moments == 0)
        u->rate *= u->inv_rows;
}

static int moves_images(const nn_training *t) { return t->shift[0] || t->shift[1] || t->mirror; }

/* ---- one epoch ---- */

/* Shared by the batches of one call of net_epoch. */
typedef struct {
    nn_net *net;
    const nn_data *data;
    const int64_t *order;
    int64_t n;
    const nn_training *training;
    nn_progress *progress;
    nn_activation activation;           /* of the last layer; the loss applies it */
    loss_book losses;
    int failed;
} epoch;

/* Makes room for the epoch's batches. -1 when memory runs out. */
static int prepare_epoch(epoch *e)
{
    nn_net *net = e->net;
    int64_t batch = e->training->batch, rest = (e->n - e->progress->row) % batch;
    int64_t most = largest_share(net, min_i64(batch, e->n));
    int moments = steps_here(net) ? e->training->moments : 0, complete = 1;
    int scales = e->training->scale_rate > 0 && net->scaled >= 0 && steps_here(net);
    if (FN(net_reserve)(net, most) || loss_book_open(&e->losses, net->ranks, e->progress->loss))
        return -1;
    for (int i = 0; i < moments; i++)
        complete &= need_vector(net, NN_MOMENT1 + i) != NULL;
    complete &= !scales || need_vector(net, NN_SCALES) != NULL;
    if (complete && (!scales || !need_gradients(net, 0)) &&
        !need_gradients(net, net->ranks ? 0 : most) &&
        (rest == 0 || !need_gradients(net, rest)))
        return 0;
    nn_free(e->losses.mine);
    return -1;
}

/* The rows of this rank in the batch that begins at `row`, for prefetching: exact if that is a
 * whole batch. */
static next_rows rows_after(const epoch *e, int64_t row)
{
    int64_t first, last;
    rank_share(e->net, e->training->batch, &first, &last);
    return (next_rows){e->order + row + first, min_i64(last, e->n - row) - first};
}

/* The gradients of `rows` rows of the order from `row` on; without ranks also their step. */
static void train_one_batch(const epoch *e, const batch *b, int64_t row, int64_t rows)
{
    nn_net *net = e->net;
    const int64_t *own = e->order + row + b->first_row;
    next_rows next = rows_after(e, row + rows);
    int64_t micro_batches = micro_batches_of(net, b->n);
    if (micro_batches > 1)
        train_micro_batches(net, e->data, own, next, b, e->activation, micro_batches);
    else if (b->n)
        train_batch(net, e->data, own, next, b, e->activation);
    else if (b->team.id == 0)           /* this rank has no rows of the batch */
        memset(net->gradients, 0, (size_t)net->engine_size * sizeof(real));
}

/* One step with the gradients of all ranks, for the batch of `rows` rows of the order from `row`
 * on. *stop: whether this rank is asked to, before; whether any is, after. */
static int step_together(const epoch *e, const batch *b, update *u, int64_t row, int64_t rows,
                         int *stop)
{
    nn_net *net = e->net;
    int failed = 0;
    if (b->team.id == 0)
        failed = sum_gradients(net, weight_of(e->data, e->order + row + b->first_row, b->n), *stop);
    barrier_wait(b->team);
    weigh_step(u, e->data->weights ? summed_weight(net) : (double)rows);
    stamp(net, b, stamp_summed(net->count));
    for (int i = first_trainable(net); i < net->count && steps_here(net); i++)
        apply_update(&net->layers[i], b);
    stamp(net, b, stamp_stepped(net->count));
    if (b->team.id == 0)
        failed |= same_parameters(net, stop);
    stamp(net, b, stamp_sent(net->count));
    return failed;
}

/* By the first thread: adds the losses of the batch's rows to the epoch's. `last`: no batch
 * follows for now. */
static int add_losses(const nn_net *net, loss_book *losses, const batch *b, int last,
                      nn_progress *progress)
{
    double loss = net->ranks ? 0 : progress->loss;
    for (int64_t r = 0; r < b->n; r++)
        loss += net->buffers.row_loss[r];
    if (net->ranks)
        return loss_book_add(losses, net->ranks, loss, last, &progress->loss);
    /* written once: other threads' may be in the same cache line */
    progress->loss = loss;
    return 0;
}

/* After the batch of `rows` rows of the order from `row` on: the ranks' common step u, the
 * losses, progress. Returns whether to stop. */
static int finish_batch(epoch *e, const batch *b, update *u, int64_t row, int64_t rows)
{
    nn_net *net = e->net;
    int64_t done = row + rows;
    nn_progress *progress = e->progress;
    int asked = __atomic_load_n(&progress->stop, __ATOMIC_RELAXED);
    int lost = net->ranks ? step_together(e, b, u, row, rows, &asked) : 0;
    if (net->profile)
        barrier_wait(b->team);          /* all threads have noted their last step */
    if (b->team.id == 0) {
        e->failed = lost || add_losses(net, &e->losses, b, asked || done == e->n, progress);
        end_profile(net, b);
        progress->step = b->step + 1;
        __atomic_store_n(&progress->row, done, __ATOMIC_RELAXED);
        __atomic_store_n(&net->stop, asked || e->failed, __ATOMIC_RELAXED);
    }
    barrier_wait(b->team);              /* all threads see the same stop, or none does */
    return net->stop;
}

/* From here on this thread takes subnormal numbers for 0; the plain build keeps them. Moments of
 * weights that no gradient reaches decay to subnormal numbers and stay there, and processors
 * take a hundred times longer for these. Returns the mode before, for restore_mode. */
static uint64_t flush_subnormals(void)
{
    uint64_t mode = 0;
#if defined(NN_FAST) && defined(__SSE2__)
    mode = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr((unsigned)mode | 0x8040);    /* results, operands */
#elif defined(NN_FAST) && defined(__aarch64__)
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    __asm__ volatile("msr fpcr, %0" : : "r"(mode | 1 << 24));
#endif
    return mode;
}

static void restore_mode(uint64_t mode)
{
#if defined(NN_FAST) && defined(__SSE2__)
    __builtin_ia32_ldmxcsr((unsigned)mode);
#elif defined(NN_FAST) && defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
#endif
    (void)mode;
}

int FN(net_epoch)(nn_net *net, const nn_data *data, const int64_t *order, int64_t n,
                  const nn_training *training, nn_progress *progress)
{
    layer *output = last_layer(net);
    epoch e = {
        .net = net, .data = data, .order = order, .n = n, .training = training,
        .progress = progress,
        .activation = output->spec.activation,
    };
    int stop = 0;
    if (prepare_epoch(&e))
        return -1;
    net->lowest = training->lowest;
    output->spec.activation = NN_LINEAR;        /* the loss applies it */
    int threads =
        nn_begin(FN(net_threads)(net, largest_share(net, min_i64(training->batch, n))), 0);
    thread_barrier barrier = {0};
    #pragma omp parallel num_threads(threads) firstprivate(stop)
    {
        thread_team here = nn_this_team(&barrier);
        uint64_t mode = flush_subnormals();
        for (int64_t row = progress->row, step = progress->step; row < n && !stop; step++) {
            int64_t rows = min_i64(training->batch, n - row), first, last;
            rank_share(net, rows, &first, &last);
            update u = update_of(training, step, (double)row / (double)n);
            if (!net->ranks)
                weigh_step(&u, weight_of(data, order + row, rows));
            batch b = {
                .team = here, .thread = here.id, .n = last - first, .first_row = first,
                .training = 1,
                .seed = training->seed, .step = step,
                .moves = moves_images(training) ? training : NULL,
                .scratch = scratch_of(net, here), .update = net->ranks ? NULL : &u,
            };
            train_one_batch(&e, &b, row, rows);
            b.update = &u;              /* ranks step together, after the sum of their gradients */
            stop = finish_batch(&e, &b, &u, row, rows);
            row += rows;
        }
        restore_mode(mode);
    }
    nn_end(threads);
    output->spec.activation = e.activation;
    net->lowest = 0;
    nn_free(e.losses.mine);
    return e.failed ? -2 : 0;
}

/* ---- gradients of one batch ---- */

static void scale_to_mean(real *g, int64_t n, int64_t rows)
{
    double scale = 1.0 / (double)rows;
    for (int64_t i = 0; i < n; i++)
        g[i] = (real)(g[i] * scale);
}

/* Rows as the core keeps them, into the caller's layout. */
static void take_images(real *to, const real *from, int64_t rows, const int32_t shape[3])
{
    for (int64_t r = 0; r < rows; r++)
        image_out(to + r * values(shape), from + r * row_stride(values(shape)), shape);
}

int FN(net_gradients)(nn_net *net, double *loss, real *grads, real *dx, const real *x,
                      const real *y, int64_t n, int64_t seed, int64_t step)
{
    layer *output = last_layer(net);
    nn_activation activation = output->spec.activation;
    int64_t inputs = net->layers[0].inputs;
    double sum = 0;
    nn_data data = {.x = x, .x_type = NN_SAME_TYPE, .y = y};
    if (FN(net_reserve)(net, n) || need_gradients(net, 0))
        return -1;
    if (dx && !net->dx &&
        !(net->dx = take(net, net->batch * row_stride(inputs) * (int64_t)sizeof(real))))
        return -1;
    output->spec.activation = NN_LINEAR;
    int threads = nn_begin(FN(net_threads)(net, n), 1);
    thread_barrier barrier = {0};
    #pragma omp parallel num_threads(threads)
    {
        thread_team here = nn_this_team(&barrier);
        batch b = {
            .team = here, .thread = here.id, .n = n, .training = seed >= 0, .seed = (uint32_t)seed,
            .step = step,
            .scratch = scratch_of(net, here),
        };
        gather(net, &data, NULL, 0, (next_rows){NULL, 0}, 1, &b);
        feedforward(net, &b);
        loss_of_batch(net, &data, NULL, &b, activation);
        backpropagate(net, &b, dx ? net->dx : NULL);
    }
    nn_end(threads);
    output->spec.activation = activation;
    for (int64_t r = 0; r < n; r++)
        sum += net->buffers.row_loss[r];
    *loss = sum / (double)n;
    if (grads) {
        copy_vector(net, grads, net->gradients, 1);
        scale_to_mean(grads, net->size, n);
    }
    if (dx) {
        take_images(dx, net->dx, n, net->layers[0].spec.in);
        scale_to_mean(dx, n * inputs, n);
    }
    return 0;
}
