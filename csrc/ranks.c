/* ranks.c - messages between the ranks that train together: gradients once a batch, losses now
 * and then.
 *
 * Mirrored: gradients are summed on every rank, and every rank takes the same step. Central:
 * they are summed on rank 0, which alone has the optimiser's moments; it takes the step and
 * broadcasts the parameters. The vectors have one value more: whether any rank is asked to stop,
 * so that all ranks stop after the same batch; the gradients a second one, the weight of the
 * batch's rows.
 * uses: buffers.c
 */
#include "core.h"
#include <sched.h>
#include <string.h>

enum { MOST_VALUES = 1 << 30 };         /* in a message: MPI counts in int */
enum { EXCHANGE_EVERY = 256 };                  /* batches between two exchanges of losses */

/* The rows of a batch of n that are this rank's. */
static void rank_share(const nn_net *net, int64_t n, int64_t *first, int64_t *last)
{
    const nn_ranks *ranks = net->ranks;
    *first = ranks ? n * ranks->rank / ranks->size : 0;
    *last = ranks ? n * (ranks->rank + 1) / ranks->size : n;
}

/* The most rows that are any batch's share. */
static int64_t largest_share(const nn_net *net, int64_t n)
{
    return net->ranks ? (n + net->ranks->size - 1) / net->ranks->size : n;
}

static int steps_here(const nn_net *net)
{ return !net->ranks || !net->ranks->central || net->ranks->rank == 0; }

/* Waits for the end of a message. MPI's own waiting spins for ever, which takes the core from
 * the awaited rank where there are more ranks than free cores; this gives the core away after
 * some microseconds. */
static int finish(const nn_ranks *r, int failed, intptr_t *request)
{
    enum { SPINS = 100 };
    int64_t status[16];                 /* MPI_Status is smaller in every MPI */
    int done = 0;
    for (int spin = 0; !failed && !done; spin++) {
        failed = r->test(request, &done, status);
        if (!done && spin >= SPINS)
            sched_yield();
    }
    return failed;
}

typedef enum { SUM, BROADCAST } message;

/* SUM: values[n] of all ranks summed in place: on every rank, or, if central, on rank 0.
 * BROADCAST: those of rank 0 to every rank. Not 0 where MPI fails. */
static int exchange(const nn_ranks *r, message what, real *values, int64_t n)
{
    int failed = 0;
    for (int64_t at = 0; at < n && !failed; at += MOST_VALUES) {
        int count = (int)min_i64(MOST_VALUES, n - at);
        real *part = values + at;
        intptr_t request = 0;
        if (what == BROADCAST)
            failed = r->ibcast(part, count, r->type, 0, r->comm, &request);
        else if (!r->central)
            failed = r->iallreduce(r->in_place, part, count, r->type, r->sum, r->comm, &request);
        else if (r->rank == 0)
            failed = r->ireduce(r->in_place, part, count, r->type, r->sum, 0, r->comm, &request);
        else
            failed = r->ireduce(part, NULL, count, r->type, r->sum, 0, r->comm, &request);
        failed = finish(r, failed, &request);
    }
    return failed;
}

/* By the first thread, after this rank's gradients: the gradients of the whole batch. */
static int sum_gradients(nn_net *net, double weight, int stop)
{
    net->gradients[net->engine_size] = (real)(stop != 0);
    net->gradients[net->engine_size + 1] = (real)weight;
    return exchange(net->ranks, SUM, net->gradients, net->engine_size + 2);
}

/* The weight of the batch's rows, of all ranks. */
static double summed_weight(const nn_net *net)
{ return (double)net->gradients[net->engine_size + 1]; }

/* By the first thread, after the step: the same parameters on every rank; *stop: whether any
 * rank is asked to stop. */
static int same_parameters(nn_net *net, int *stop)
{
    const real *asked = net->gradients + net->engine_size;
    int failed = 0;
    if (net->ranks->central) {
        real *flag = net->vectors[NN_PARAMETERS] + net->engine_size;
        *flag = *asked;
        failed = exchange(net->ranks, BROADCAST, net->vectors[NN_PARAMETERS], net->engine_size + 1);
        asked = flag;
    }
    *stop = failed || *asked > 0;
    return failed;
}

/* The losses of batches on this rank's rows: kept until there are EXCHANGE_EVERY, then exchanged
 * and summed batch by batch and rank by rank. So the sum does not depend on where an epoch was
 * interrupted. */
typedef struct {
    double *mine, *all;                 /* (EXCHANGE_EVERY), (ranks, EXCHANGE_EVERY) */
    int count;
    double whole;                       /* sum over all ranks of what has been exchanged */
} loss_book;

static int loss_book_open(loss_book *book, const nn_ranks *ranks, double so_far)
{
    *book = (loss_book){.whole = so_far};
    if (!ranks)
        return 0;
    book->mine = nn_alloc((int64_t)sizeof(double) * EXCHANGE_EVERY * (ranks->size + 1));
    book->all = book->mine + EXCHANGE_EVERY;
    return book->mine ? 0 : -1;
}

static int loss_book_exchange(loss_book *book, const nn_ranks *r)
{
    intptr_t request = 0;
    int failed = r->iallgather(book->mine, book->count, r->double_type, book->all, book->count,
                               r->double_type, r->comm, &request);
    failed = finish(r, failed, &request);
    for (int i = 0; i < book->count && !failed; i++)
        for (int rank = 0; rank < r->size; rank++)
            book->whole += book->all[rank * book->count + i];
    book->count = 0;
    return failed;
}

/* The next batch's loss on this rank's rows; *sum becomes the epoch's loss, part of it estimated
 * until an exchange. */
static int loss_book_add(loss_book *book, const nn_ranks *ranks, double loss, int last, double *sum)
{
    int failed = 0;
    double estimate = 0;
    book->mine[book->count++] = loss;
    if (book->count == EXCHANGE_EVERY || last)
        failed = loss_book_exchange(book, ranks);
    for (int i = 0; i < book->count; i++)
        estimate += book->mine[i] * ranks->size;
    *sum = book->whole + estimate;
    return failed;
}
