/* test.c - the network's outputs for rows of a data set, and their loss.
 * uses: micro_batch.c (rows_of_net), pass.c (gather, feedforward, loss_of_batch, stamp,
 * end_profile), train.c (take_images, weight_of)
 */
#include "core.h"

/* Rows that a thread takes through all layers at a time: few, so that a layer's output stays in
 * the L2 cache for the next layer; many enough for packing large weights to pay off. */
static int64_t rows_at_a_time(const nn_net *net, int threads)
{
    const int64_t near_bytes = 256 * 1024, least = 256;
    int64_t bytes = row_stride(net->layers[0].inputs) * (int64_t)sizeof(real);
    for (int i = 0; i < net->count; i++)
        bytes += row_stride(net->layers[i].outputs) * (int64_t)sizeof(real);
    return max_i64(1, min_i64(net->batch / threads, max_i64(least, near_bytes / bytes)));
}

/* The caller's rows, if the first layer can read them in place; NULL where they must be
 * gathered. */
static const real *rows_in_place(const nn_net *net, const nn_data *data, const int64_t *rows)
{
    const layer *l = &net->layers[0];
    int readable = l->kind->fast.reads_any_row && l->kind->fast.reads_any_row(&l->spec);
    return readable && !rows && data->x_type == NN_SAME_TYPE ? data->x : NULL;
}

/* With fewer rows a thread, all threads predict together: large weights are then read only once. */
enum { LEAST_ALONE = 32 };

/* Each thread takes the next rows through all layers, in its part of the buffers: no thread
 * waits for another. */
static void predict_alone(nn_net *net, real *out, const nn_data *data, const int64_t *rows,
                          int64_t n, int threads)
{
    const real *given = rows_in_place(net, data, rows);
    const int64_t size = rows_at_a_time(net, threads), inputs = net->layers[0].inputs;
    const layer *output = last_layer(net);
    int64_t next = 0;
    #pragma omp parallel num_threads(threads)
    {
        thread_team here = nn_this_team(NULL);
        layer layers[net->count];
        nn_net own = rows_of_net(net, layers, here.id * size, NULL);
        for (int64_t at; (at = __atomic_fetch_add(&next, size, __ATOMIC_RELAXED)) < n;) {
            batch b = {
                .team = {0, 1, NULL}, .thread = here.id, .n = min_i64(size, n - at),
                .scratch = scratch_of(net, here),
            };
            const real *x = given ? given + at * inputs : own.buffers.x;
            stamp(net, &b, STAMP_BEGIN);
            if (given)
                b.x_row = inputs;
            else
                gather(&own, data, rows ? rows + at : NULL, at, (next_rows){NULL, 0}, 0, &b);
            stamp(net, &b, STAMP_GATHERED);
            for (int i = 0; i < net->count; x = layers[i++].out, b.x_row = 0) {
                layers[i].kind->forward(&layers[i], layers[i].out, x, &b);
                stamp(net, &b, stamp_forward(i));
            }
            take_images(out + at * output->outputs, x, b.n, output->spec.out);
            stamp(net, &b, stamp_forward(net->count - 1));
        }
    }
}

/* All rows, batch by batch, by all threads: out (n, outputs) or, where that is NULL, the sum of
 * their losses behind the activation of the last layer, which is its own no longer. */
static double predict_together(nn_net *net, real *out, const nn_data *data, const int64_t *rows,
                               int64_t n, int threads, nn_activation activation)
{
    const layer *output = last_layer(net);
    double loss = 0;
    thread_barrier barrier = {0};
    (void)threads;                      /* of a build without OpenMP */
    #pragma omp parallel num_threads(threads)
    {
        thread_team here = nn_this_team(&barrier);
        for (int64_t done = 0; done < n; done += net->batch) {
            batch b = {
                .team = here, .thread = here.id, .n = min_i64(net->batch, n - done),
                .scratch = scratch_of(net, here),
            };
            if (out)
                stamp(net, &b, STAMP_BEGIN);
            gather(net, data, rows ? rows + done : NULL, done, (next_rows){NULL, 0}, !out, &b);
            stamp(net, &b, STAMP_GATHERED);
            feedforward(net, &b);
            if (!out)
                loss_of_batch(net, data, rows + done, &b, activation);
            else if (here.id == 0)
                take_images(out + done * output->outputs, output->out, b.n, output->spec.out);
            for (int64_t r = 0; !out && here.id == 0 && r < b.n; r++)
                loss += net->buffers.row_loss[r];
            barrier_wait(here);
        }
    }
    return loss;
}

void FN(net_predict)(nn_net *net, real *out, const nn_data *data, const int64_t *rows, int64_t n)
{
    int64_t together = min_i64(n, net->batch);
    int threads = nn_begin(forward_threads(net, together), 1);
    nn_profile *profile = net->profile;
    if (profile && !profile->predicts)
        net->profile = NULL;
    if (rows_stand_alone(net) && together >= LEAST_ALONE * threads)
        predict_alone(net, out, data, rows, n, threads);
    else
        predict_together(net, out, data, rows, n, threads, NN_LINEAR);
    end_profile(net, &(batch){0});
    net->profile = profile;
    nn_end(threads);
}

double FN(net_loss)(nn_net *net, const nn_data *data, const int64_t *rows, int64_t n)
{
    layer *output = last_layer(net);
    nn_activation activation = output->spec.activation;
    double weight = weight_of(data, rows, n);
    int threads = nn_begin(forward_threads(net, min_i64(n, net->batch)), 1);
    output->spec.activation = NN_LINEAR;        /* the loss applies it */
    double loss = predict_together(net, NULL, data, rows, n, threads, activation);
    nn_end(threads);
    output->spec.activation = activation;
    return weight > 0 ? loss / weight : 0;
}
