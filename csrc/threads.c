/* threads.c - how many threads a network pays for, and whether a batch is trained as micro-batches.
 * uses: buffers.c (shared_scratch_of, shares_dz)
 */
#include "core.h"

/* With fewer rows than threads, several threads work on one image: its values then go from core
 * to core at every layer, which takes the time that the threads gain. */
static int is_worth_sharing(const layer *l, int64_t rows, int threads)
{
    int image = l->spec.in[1] * l->spec.in[2] > 1;
    if (threads == 1)
        return 1;
    return (rows >= threads || !image) && (!l->kind->fast.gains_by_sharing ||
                                           l->kind->fast.gains_by_sharing(&l->spec, rows, threads));
}

/* How many threads pay off on the layers that `threads` threads can share. A barrier costs about
 * ten thousand multiplications, and a layer needs a handful of barriers; one thread alone needs
 * none. */
static int64_t threads_worth(const nn_net *net, int64_t rows, int threads)
{
    /* operations of a batch's forward pass that pay for one more thread */
    const double worth = 2e6;
    double flops = 0;
    for (int i = 0; i < net->count; i++)
        if (is_worth_sharing(&net->layers[i], rows, threads))
            flops += net->layers[i].kind->flops(&net->layers[i].spec) * (double)rows;
    return flops < worth ? 1 : (int64_t)(1.5 + flops / worth);
}

static int64_t most_threads(const nn_net *net, int64_t rows) { return threads_worth(net, rows, 1); }

/* Threads for a forward pass; training never gets more. */
static int forward_threads(const nn_net *net, int64_t rows)
{
    int threads = (int)min_i64(net->threads, most_threads(net, rows));
    return rows >= threads
               ? threads
               : (int)max_i64(rows, min_i64(threads, threads_worth(net, rows, threads)));
}

int FN(net_threads)(const nn_net *net, int64_t rows)
{
    int threads = forward_threads(net, rows);
    return (int)min_i64(threads, threads_worth(net, rows, threads));
}

/* Whether a row's prediction needs nothing but the row: no layer has a workspace. */
static int rows_stand_alone(const nn_net *net)
{
    for (int i = 0; i < net->count; i++)
        if (net->layers[i].kind->memory.workspace)
            return 0;
    return 1;
}

/* The number of micro-batches of a batch of n rows, each with gradients of its own. Sizes alone
 * decide it, so the sums are the same for any number of threads. 1 where the gradients would
 * need much memory beside the activations, where fewer than half the threads that pay off would
 * get a micro-batch, or where layers share memory. */
static int64_t micro_batches_of(const nn_net *net, int64_t n)
{
    const int64_t least_rows = 64;
    int64_t row = net->layers[0].inputs, count = 1;
    if (n < 2 * least_rows || net->ranks || !rows_stand_alone(net))
        return 1;
    for (int i = 0; i < net->count; i++) {
        if (shares_dz(net, i) || shared_scratch_of(&net->layers[i], n))
            return 1;
        row += net->layers[i].outputs;
    }
    while (n >= 2 * count * least_rows && 2 * count * net->engine_size <= n * row / 5)
        count *= 2;
    return 2 * count >= most_threads(net, n) ? count : 1;
}
