/* test.c - the network's outputs for rows of a data set. */
#include "core.h"

/* Rows that a thread takes through all layers at a time: few enough that what a layer gives stays in the second-level
 * cache for the next, and many enough that it pays to copy large weights for them. */
static int64_t rows_at_a_time(const nn_net *net, int threads)
{
    const int64_t close_bytes = 256 * 1024, least = 256;
    int64_t bytes = row_stride(net->layers[0].inputs) * (int64_t)sizeof(real);
    for (int i = 0; i < net->count; i++)
        bytes += row_stride(net->layers[i].outputs) * (int64_t)sizeof(real);
    return max_i64(1, min_i64(net->batch / threads, max_i64(least, close_bytes / bytes)));
}

/* Rows as the caller has them, where the first layer can read them so; NULL where they must be gathered. */
static const real *rows_as_they_lie(const nn_net *net, const nn_data *data, const int64_t *rows)
{
    const layer *l = &net->layers[0];
    return l->kind->reads_any_row && l->kind->reads_any_row(&l->spec) && !rows && data->x_type == NN_SAME_TYPE ? data->x
                                                                                                           : NULL;
}

/* Fewer rows a thread are better predicted by all threads together: large weights are read only once. */
enum { LEAST_ALONE = 32 };

/* Rows of one thread that nobody has taken yet. */
typedef struct {
    int64_t next, end;
} rows_left;

/* Up to *n rows for a thread: its own, which lie in its caches if it had them last time, then those left to others.
 * The first one; -1: none are left. */
static int64_t take_next(rows_left *shares, int threads, int id, int64_t *n)
{
    for (int turn = 0; turn < threads; turn++) {
        rows_left *share = &shares[(id + turn) % threads];
        int64_t at = __atomic_fetch_add(&share->next, *n, __ATOMIC_RELAXED);
        if (at < share->end) {
            *n = min_i64(*n, share->end - at);
            return at;
        }
    }
    return -1;
}

/* Each thread takes the next rows through all layers, in its part of the batch's room: nobody waits for anybody. */
static void predict_alone(nn_net *net, real *out, const nn_data *data, const int64_t *rows, int64_t first, int64_t n,
                          const nn_progress *progress)
{
    int64_t inputs = net->layers[0].inputs, outputs = last_layer(net)->outputs, group = 1;
    int threads = forward_threads(net, min_i64(n, net->batch));
    int64_t size = rows_at_a_time(net, threads);
    rows_left shares[threads];
    const real *given = rows_as_they_lie(net, data, rows);
#ifdef NN_FAST
    int in_lanes = given && size >= LANES && fits_lanes(net);
    if (in_lanes)
        group = LANES, size = size / LANES * LANES;
#endif
    for (int t = 0; t < threads; t++)
        team_share((team){t, threads, NULL}, n, group, &shares[t].next, &shares[t].end);
    #pragma omp parallel num_threads(threads)
    {
        team here = nn_team_here(NULL);
        layer layers[net->count];
        nn_net own = part_of(net, layers, here.id * size, NULL);
        for (int64_t at, count = size; (at = take_next(shares, threads, here.id, &count)) >= 0; count = size) {
            batch b = {.team = {0, 1, NULL}, .n = count, .scratch = scratch_of(net, here)};
            int64_t done = 0;
            const real *x = own.x;
            if (progress && __atomic_load_n(&progress->stop, __ATOMIC_RELAXED))
                break;
#ifdef NN_FAST
            for (; in_lanes && done + LANES <= b.n; done += LANES)
                forward_lanes(&own, out + (at + done) * outputs, given + (first + at + done) * inputs, inputs);
            if (done == b.n)
                continue;
            b.n -= done;
#endif
            if (given)
                x = given + (first + at + done) * inputs, b.x_row = inputs;
            else
                gather(&own, data, rows ? rows + first + at : NULL, first + at, (ahead){NULL, 0}, 0, &b);
            for (int i = 0; i < net->count; i++, b.x_row = 0) {
                layers[i].kind->forward(&layers[i], layers[i].out, x, &b);
                x = layers[i].out;
            }
            take_images(out + (at + done) * outputs, x, b.n, last_layer(net)->spec.out);
        }
    }
}

void FN(net_predict)(nn_net *net, real *out, const nn_data *data, const int64_t *rows, int64_t first, int64_t n,
                     const nn_progress *progress)
{
    const layer *output = last_layer(net);
    int64_t outputs = output->outputs;
    int stop = 0;
    int64_t together = min_i64(n, net->batch);
    if (rows_stand_alone(net) && together >= LEAST_ALONE * forward_threads(net, together)) {
        predict_alone(net, out, data, rows, first, n, progress);
        return;
    }
    #pragma omp parallel num_threads(forward_threads(net, min_i64(n, net->batch))) firstprivate(stop)
    {
        team here = nn_team_here(&net->meet);
        for (int64_t done = 0; done < n && !stop; done += net->batch) {
            batch b = {
                .team = here, .thread = here.id, .n = min_i64(net->batch, n - done), .scratch = scratch_of(net, here),
            };
            gather(net, data, rows ? rows + first + done : NULL, first + done, (ahead){NULL, 0}, 0, &b);
            feedforward(net, &b);
            if (here.id == 0) {
                take_images(out + done * outputs, output->out, b.n, output->spec.out);
                net->stop = progress ? __atomic_load_n(&progress->stop, __ATOMIC_RELAXED) : 0;
            }
            team_wait(here);
            stop = net->stop;
        }
    }
}

double FN(net_loss)(nn_net *net, const nn_data *data, const int64_t *rows, int64_t n)
{
    layer *output = last_layer(net);
    int activation = output->spec.activation;
    double loss = 0;
    output->spec.activation = NN_LINEAR;        /* the loss does it */
    #pragma omp parallel num_threads(forward_threads(net, min_i64(n, net->batch)))
    {
        team here = nn_team_here(&net->meet);
        for (int64_t done = 0; done < n; done += net->batch) {
            batch b = {
                .team = here, .thread = here.id, .n = min_i64(net->batch, n - done), .scratch = scratch_of(net, here),
            };
            gather(net, data, rows + done, 0, (ahead){NULL, 0}, 1, &b);
            feedforward(net, &b);
            loss_of_batch(net, &b, activation);
            for (int64_t r = 0; here.id == 0 && r < b.n; r++)
                loss += net->row_loss[r];
            team_wait(here);
        }
    }
    output->spec.activation = activation;
    return loss / (double)n;
}
