/* fused.c - fused layers: the first layers, whose rows do not depend on each other. Each thread
 * takes a few rows through all of them before the next few. A layer's output is then still in
 * the L2 cache when the next layer reads it, and no thread waits for another in between. The
 * gradients between the layers exist for those few rows only. The weights' gradients are partial
 * sums over rows of the batch, the same for any number of threads.
 * uses: buffers.c (shares_dz, partial_sums_of_fused), pass.c (stamp, step_layer)
 */
#include "core.h"

/* Rows [first, last) of a batch, for one thread. */
static batch some_rows(const batch *b, int64_t first, int64_t last)
{
    batch some = *b;
    some.team = (thread_team){0, 1, NULL};
    some.n = last - first, some.row = b->row + first, some.first_row = b->first_row + first;
    return some;
}

/* Where some rows of a layer's output begin, and of its input. */
static real *output_rows(const nn_net *net, int i, const batch *some)
{
    const layer *l = &net->layers[i];
    return l->out + (l->out_per_thread ? some->thread * net->buffers.fused_rows : some->row) *
                        row_stride(l->outputs);
}

static const real *input_rows(const nn_net *net, int i, const batch *some)
{
    return i > 0 ? output_rows(net, i - 1, some)
                 : net->buffers.x + some->row * row_stride(net->layers[0].inputs);
}

static void prepare_fused(nn_net *net, int backward, int lowest, const batch *b)
{
    for (int i = lowest; i < net->buffers.fused_layers; i++)
        if (net->layers[i].kind->fast.prepare)
            net->layers[i].kind->fast.prepare(&net->layers[i], backward, b);
    barrier_wait(b->team);
}

static void forward_fused(nn_net *net, const batch *b)
{
    int fused = net->buffers.fused_layers;
    int64_t rows = net->buffers.fused_rows, first, last;
    prepare_fused(net, 0, 0, b);
    thread_share(b->team, b->n, 1, &first, &last);
    for (int64_t r = first; r < last; r += rows) {
        batch some = some_rows(b, r, min_i64(last, r + rows));
        for (int i = 0; i < fused; i++) {
            layer *l = &net->layers[i];
            l->kind->forward(l, output_rows(net, i, &some), input_rows(net, i, &some), &some);
            stamp(net, b, stamp_forward(i));
        }
    }
    barrier_wait(b->team);
    stamp(net, b, stamp_forward(fused - 1));
}

/* Where the gradient of a layer's output begins for some rows. */
static real *dz_rows(const nn_net *net, int i, const batch *some)
{
    const layer *l = &net->layers[i];
    if (shares_dz(net, i))
        return l->dz + some->thread * net->buffers.dz_stride[i % 2];
    return l->dz + some->row * row_stride(l->outputs);
}

/* The rows of one partial sum, from the last fused layer down to `lowest`. */
static void backward_partial_sum(nn_net *net, int64_t number, const batch *some, real *dx,
                                 int lowest, const batch *b)
{
    for (int i = net->buffers.fused_layers - 1; i >= lowest; i--) {
        layer *l = &net->layers[i];
        const real *x = input_rows(net, i, some), *dz = dz_rows(net, i, some);
        nn_activation below = i > 0 ? net->layers[i - 1].spec.activation : NN_LINEAR;
        if (i > lowest)
            l->kind->backward_input(l, dz_rows(net, i - 1, some), dz, x, below, some);
        else if (dx)
            l->kind->backward_input(l, dx + some->row * row_stride(l->inputs), dz, x, below, some);
        if (has_parameters(l))
            l->kind->fast.add_partial_sum(l, dz, x, number, some);
        stamp(net, b, stamp_gradients(net->count, i));
    }
}

/* The gradients of the fused layers from their partial sums, and with b->update the steps. */
static void reduce_fused(nn_net *net, const batch *b, int lowest)
{
    int fused = net->buffers.fused_layers;
    for (int i = lowest; i < fused; i++)
        if (has_parameters(&net->layers[i]))
            net->layers[i].kind->fast.reduce(&net->layers[i], b->n, b);
    barrier_wait(b->team);
    for (int i = lowest; i < fused && b->update; i++)
        if (has_parameters(&net->layers[i]))
            step_layer(&net->layers[i], b);
    barrier_wait(b->team);
}

static void backward_fused(nn_net *net, const batch *b, real *dx, int lowest)
{
    int64_t count = partial_sums_of_fused(net, b->n), first, last;
    prepare_fused(net, 1, lowest, b);
    thread_share(b->team, count, 1, &first, &last);
    for (int64_t number = first; number < last; number++) {
        batch some = some_rows(b, b->n * number / count, b->n * (number + 1) / count);
        backward_partial_sum(net, number, &some, dx, lowest, b);
    }
    barrier_wait(b->team);
    reduce_fused(net, b, lowest);
    stamp(net, b, stamp_gradients(net->count, lowest));
}
