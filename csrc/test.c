/* test.c - the network's outputs for rows of a data set. */
#include "core.h"

void FN(net_predict)(nn_net *net, real *out, const nn_data *data, const int64_t *rows, int64_t first, int64_t n,
                     const nn_progress *progress)
{
    const layer *output = last_layer(net);
    int64_t outputs = output->outputs;
    int stop = 0;
    #pragma omp parallel num_threads(FN(net_threads)(net, min_i64(n, net->batch))) firstprivate(stop)
    {
        team here = nn_team_here(&net->meet);
        for (int64_t done = 0; done < n && !stop; done += net->batch) {
            batch b = {here, min_i64(net->batch, n - done), 0, 0, 0, scratch_of(net, here), NULL};
            gather(net, data, rows ? rows + first + done : NULL, first + done, 0, 0, &b);
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
    #pragma omp parallel num_threads(FN(net_threads)(net, min_i64(n, net->batch)))
    {
        team here = nn_team_here(&net->meet);
        for (int64_t done = 0; done < n; done += net->batch) {
            batch b = {here, min_i64(net->batch, n - done), 0, 0, 0, scratch_of(net, here), NULL};
            gather(net, data, rows + done, 0, 0, 1, &b);
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
