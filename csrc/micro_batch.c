/* micro_batch.c - a batch of a small network as micro-batches: each thread takes whole ones
 * through all passes, and threads meet only before the step.
 * uses: buffers.c (last_layer), pass.c (train_batch, step_layer, first_trainable,
 *   stamp), fused.c (some_rows)
 */
#include "core.h"

/* The network with the buffers' rows from `first` on as its buffers, and with its own gradients
 * unless NULL. */
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

/* A thread's share of n gradients, as step_share takes it: the sum over `count` micro-batches,
 * in their order. */
static void sum_micro_batches(real *g, int64_t n, int64_t count, int64_t stride, const batch *b)
{
    int64_t first, last;
    thread_share(b->team, n, ALIGNMENT, &first, &last);
    for (int64_t m = 1; m < count; m++)
        for (int64_t i = first; i < last; i++)
            g[i] += g[m * stride + i];
}

/* As train_batch, as `count` micro-batches. All micro-batches of a thread use the same buffers,
 * which stay in its caches. */
static void train_micro_batches(nn_net *net, const nn_data *data, const int64_t *rows,
                                next_rows next, const batch *b, nn_activation activation,
                                int64_t count)
{
    int64_t first, last;
    layer layers[net->count];
    thread_share(b->team, count, 1, &first, &last);
    for (int64_t m = first; m < last; m++) {
        int64_t from = b->n * m / count, to = b->n * (m + 1) / count;
        nn_net own =
            rows_of_net(net, layers, b->n * first / count, net->gradients + m * net->engine_size);
        batch mine = some_rows(b, from, to);
        /* its buffers begin with it; it keeps the gradients */
        mine.row = b->row, mine.update = NULL;
        own.buffers.row_loss = net->buffers.row_loss + from;
        train_batch(&own, data, rows + from, (next_rows){next.rows + from, next.count - from},
                    &mine, activation);
    }
    barrier_wait(b->team);
    for (int i = first_trainable(net); i < net->count; i++) {
        layer *l = &net->layers[i];
        if (!has_parameters(l))
            continue;
        sum_micro_batches(l->dw, l->weight_size, count, net->engine_size, b);
        sum_micro_batches(l->db, l->bias_size, count, net->engine_size, b);
        step_layer(l, b);
    }
    stamp(net, b, stamp_stepped(net->count));
}
