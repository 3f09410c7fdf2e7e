/* micro_batch.c - a batch of a small network as micro-batches: each thread takes whole ones through all passes, and
 * threads meet only before the step.
 * uses: buffers.c (last_layer), pass.c (train_batch, step_layer, stamp)
 */
#include "core.h"

/* The network with the buffers' rows from `first` on as its buffers, and with its own gradients unless NULL. */
static nn_net rows_of_net(const nn_net *net, layer *layers, int64_t first, real *gradients)
{
    nn_net own = *net;
    own.layers = layers;
    own.buffers.x += first * row_stride(net->layers[0].inputs);
    own.buffers.y += first * row_stride(last_layer(net)->outputs);
    own.buffers.row_loss += first;
    for (int i = 0; i < net->count; i++) {
        layer *l = &layers[i];
        *l = net->layers[i];
        l->out += first * row_stride(l->outputs), l->dz += first * row_stride(l->outputs);
        if (gradients)
            l->dw = gradients + l->weight_at, l->db = gradients + l->bias_at;
    }
    return own;
}

/* Adds a micro-batch's stamps to `sum` as durations, except for the first stamp. */
static void add_durations(double *sum, const double *stamps, int places)
{
    double before = stamps[STAMP_BEGIN];
    sum[STAMP_BEGIN] = sum[STAMP_BEGIN] > 0 ? sum[STAMP_BEGIN] : before;
    for (int i = STAMP_BEGIN + 1; i < places; i++)
        if (stamps[i] > 0) {                    /* the step was taken */
            sum[i] += stamps[i] - before;
            before = stamps[i];
        }
}

/* The batch's stamps from the durations, as if the same step of all micro-batches ran together. */
static void stamp_durations(const nn_net *net, const double *sum, int places)
{
    nn_profile *p = net->profile;
    double at = 0;
    for (int i = 0; i < places && p->batches < p->capacity; i++) {
        at += sum[i];
        if (sum[i] > 0)
            p->stamps[p->batches * places + i] = at;
    }
}

/* A thread's share of n gradients, as step_share takes it: the sum over `count` micro-batches, in their order. */
static void sum_micro_batches(real *g, int64_t n, int64_t count, int64_t stride, const batch *b)
{
    int64_t first, last;
    thread_share(b->team, n, ALIGNMENT, &first, &last);
    for (int64_t m = 1; m < count; m++)
        for (int64_t i = first; i < last; i++)
            g[i] += g[m * stride + i];
}

static void step_micro_batches(layer *l, int64_t count, int64_t stride, const batch *b)
{
    sum_micro_batches(l->dw, l->weight_size, count, stride, b);
    sum_micro_batches(l->db, l->bias_size, count, stride, b);
    step_layer(l, b);
}

/* Rows [from, to) of a batch, for one thread; it keeps the gradients. */
static batch micro_batch(const batch *b, int64_t from, int64_t to)
{
    batch own = *b;
    own.team = (thread_team){0, 1, NULL}, own.n = to - from, own.first_row += from, own.update = NULL;
    return own;
}

/* As train_batch, as `count` micro-batches. All micro-batches of a thread use the same buffers, which stay in its
 * caches. */
static void train_micro_batches(nn_net *net, const nn_data *data, const int64_t *rows, next_rows next, const batch *b,
                                nn_activation activation, int64_t count)
{
    int64_t first, last;
    int places = stamps_in_all(net->count), timed = net->profile && b->team.id == 0;
    layer layers[net->count];
    double stamps[places], spent[places];
    nn_profile clock = {1, 0, stamps};
    memset(spent, 0, sizeof spent);
    thread_share(b->team, count, 1, &first, &last);
    for (int64_t m = first; m < last; m++) {
        int64_t from = b->n * m / count, to = b->n * (m + 1) / count;
        nn_net own = rows_of_net(net, layers, b->n * first / count, net->gradients + m * net->engine_size);
        batch mine = micro_batch(b, from, to);
        own.buffers.row_loss = net->buffers.row_loss + from;
        own.profile = timed ? &clock : NULL;
        memset(stamps, 0, sizeof stamps);
        train_batch(&own, data, rows + from, (next_rows){next.rows + from, next.count - from}, &mine, activation);
        if (timed)
            add_durations(spent, stamps, places);
    }
    if (timed)
        stamp_durations(net, spent, places);
    barrier_wait(b->team);
    for (int i = 0; i < net->count; i++)
        if (has_parameters(&net->layers[i]))
            step_micro_batches(&net->layers[i], count, net->engine_size, b);
    stamp(net, b, stamp_stepped(net->count));
}
