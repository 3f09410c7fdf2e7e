/* ranks.c - what the ranks that train together tell each other: gradients once a batch, losses now and then.
 *
 * Mirrored: the gradients of all shares are added up everywhere, and every rank takes the same step. Central: they are
 * added up at rank 0, which alone has the optimiser's moments, takes the step and sends the parameters round. One value
 * more than the vector has says whether any rank is asked to stop, so that all do so after the same batch.
 */
#include "core.h"
#include <sched.h>
#include <string.h>

enum { MOST_VALUES = 1 << 30 };         /* in a message: MPI counts in int */
enum { LOSSES = 256 };                  /* of batches, between two tellings */

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

static int steps_here(const nn_net *net) { return !net->ranks || !net->ranks->central || net->ranks->rank == 0; }

/* A message that was begun comes to its end. MPI's own waiting spins for ever, which takes the core from the very rank
 * that is waited for where there are more ranks than free cores; this gives it away after some microseconds. */
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

/* values[n] of all ranks added up in place: everywhere, or, with central, at rank 0 alone. Not 0 where MPI fails. */
static int sum_over_ranks(const nn_ranks *r, real *values, int64_t n)
{
    int failed = 0;
    for (int64_t at = 0; at < n && !failed; at += MOST_VALUES) {
        int count = (int)min_i64(MOST_VALUES, n - at);
        intptr_t request = 0;
        if (!r->central)
            failed = r->iallreduce(r->in_place, values + at, count, r->type, r->sum, r->comm, &request);
        else if (r->rank == 0)
            failed = r->ireduce(r->in_place, values + at, count, r->type, r->sum, 0, r->comm, &request);
        else
            failed = r->ireduce(values + at, NULL, count, r->type, r->sum, 0, r->comm, &request);
        failed = finish(r, failed, &request);
    }
    return failed;
}

/* values[n] of rank 0 everywhere. */
static int send_round(const nn_ranks *r, real *values, int64_t n)
{
    int failed = 0;
    for (int64_t at = 0; at < n && !failed; at += MOST_VALUES) {
        intptr_t request = 0;
        failed = r->ibcast(values + at, (int)min_i64(MOST_VALUES, n - at), r->type, 0, r->comm, &request);
        failed = finish(r, failed, &request);
    }
    return failed;
}

/* By the first thread, when the gradients of this rank's share are there: make them those of the whole batch. */
static int sum_gradients(nn_net *net, int stop)
{
    net->gradients[net->engine_size] = (real)(stop != 0);
    return sum_over_ranks(net->ranks, net->gradients, net->engine_size + 1);
}

/* By the first thread, after the step: everywhere the same parameters; and whether any rank is asked to stop. */
static int same_parameters(nn_net *net, int *stop)
{
    const real *asked = net->gradients + net->engine_size;
    int failed = 0;
    if (net->ranks->central) {
        real *told = net->parameters + net->engine_size;
        *told = *asked;
        failed = send_round(net->ranks, net->parameters, net->engine_size + 1);
        asked = told;
    }
    *stop = failed || *asked > 0;
    return failed;
}

/* The losses of batches as the ranks' shares of them: kept until there are LOSSES, then told to all and added up batch
 * by batch and rank by rank. So their sum does not depend on where an epoch was interrupted. */
typedef struct {
    double *mine, *all;                 /* (LOSSES), (ranks, LOSSES) */
    int count;
    double whole;                       /* sum over all ranks of what has been told */
} loss_book;

static int loss_book_open(loss_book *book, const nn_ranks *ranks, double so_far)
{
    *book = (loss_book){.whole = so_far};
    if (!ranks)
        return 0;
    book->mine = nn_alloc((int64_t)sizeof(double) * LOSSES * (ranks->size + 1));
    book->all = book->mine + LOSSES;
    return book->mine ? 0 : -1;
}

static int loss_book_tell(loss_book *book, const nn_ranks *r)
{
    intptr_t request = 0;
    int failed = r->iallgather(book->mine, book->count, r->double_type, book->all, book->count, r->double_type, r->comm,
                               &request);
    failed = finish(r, failed, &request);
    for (int i = 0; i < book->count && !failed; i++)
        for (int rank = 0; rank < r->size; rank++)
            book->whole += book->all[rank * book->count + i];
    book->count = 0;
    return failed;
}

/* The next batch's loss on this rank's rows; *sum becomes the epoch's, some of it estimated until it is told. */
static int loss_book_add(loss_book *book, const nn_ranks *ranks, double loss, int last, double *sum)
{
    int failed = 0;
    double estimate = 0;
    book->mine[book->count++] = loss;
    if (book->count == LOSSES || last)
        failed = loss_book_tell(book, ranks);
    for (int i = 0; i < book->count; i++)
        estimate += book->mine[i] * ranks->size;
    *sum = book->whole + estimate;
    return failed;
}
