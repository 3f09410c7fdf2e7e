/* depth.c - the first layers, whose rows do not depend on each other, depth first: each thread takes a few rows of the
 * batch through all of them before the next few, so that what a layer writes is near when the next one reads it,
 * and no thread waits for another in between. Gradients of what lies between the layers are then needed for those few
 * rows only. Those of the weights are summed in pieces of the batch, the same for any number of threads.
 */
#include "core.h"

/* Rows [first, last) of a batch as one that its thread has for itself. */
static batch some_rows(const batch *b, int64_t first, int64_t last)
{
    batch some = *b;
    some.team = (team){0, 1, NULL};
    some.n = last - first, some.row = b->row + first, some.first_row = b->first_row + first;
    return some;
}

/* Where some rows of a layer's output stand, and of its input. */
static real *output_rows(const nn_net *net, int i, const batch *some)
{
    const layer *l = &net->layers[i];
    return l->out + (l->passing ? some->thread * net->near_rows : some->row) * row_stride(l->outputs);
}

static const real *input_rows(const nn_net *net, int i, const batch *some)
{
    return i > 0 ? output_rows(net, i - 1, some) : net->x + some->row * row_stride(net->layers[0].inputs);
}

/* What the layers took, for the profile: they come in turn again and again. */
typedef struct {
    double *spent, since;                       /* spent: by layer; NULL: nobody asks */
} laps;

static void lap(laps *t, int i)
{
    if (t->spent) {
        double now = nn_seconds();
        t->spent[i] += now - t->since;
        t->since = now;
    }
}

static void prepare_deep(nn_net *net, int backward, int lowest, const batch *b)
{
    for (int i = lowest; i < net->deep; i++)
        if (net->layers[i].kind->prepare)
            net->layers[i].kind->prepare(&net->layers[i], backward, b);
    team_wait(b->team);
}

static void forward_deep(nn_net *net, const batch *b)
{
    double *stamps = stamps_of(net, b), spent[net->deep];
    laps t = {stamps ? memset(spent, 0, sizeof spent) : NULL, stamps ? nn_seconds() : 0};
    int64_t first, last;
    prepare_deep(net, 0, 0, b);
    team_share(b->team, b->n, 1, &first, &last);
    for (int64_t r = first; r < last; r += net->near_rows) {
        batch some = some_rows(b, r, min_i64(last, r + net->near_rows));
        for (int i = 0; i < net->deep; i++) {
            layer *l = &net->layers[i];
            l->kind->forward(l, output_rows(net, i, &some), input_rows(net, i, &some), &some);
            lap(&t, i);
        }
    }
    team_wait(b->team);
    lap(&t, net->deep - 1);
    for (int i = 0; stamps && i < net->deep; i++)
        stamps[2 + i] = stamps[1 + i] + spent[i];
}

/* Where the gradient of a layer's output stands for some rows. */
static real *dz_rows(const nn_net *net, int i, const batch *some)
{
    const layer *l = &net->layers[i];
    return l->dz + (shares_dz(net, i) ? some->thread * net->turn_stride[i % 2] : some->row * row_stride(l->outputs));
}

/* One piece of the batch through the layers above `lowest` and that one. */
static void backward_piece(nn_net *net, int64_t number, const batch *some, real *dx, int lowest, laps *t)
{
    for (int i = net->deep - 1; i >= lowest; i--) {
        layer *l = &net->layers[i];
        const real *x = input_rows(net, i, some), *dz = dz_rows(net, i, some);
        int below = i > 0 ? net->layers[i - 1].spec.activation : NN_LINEAR;
        if (i > lowest)
            l->kind->backward_input(l, dz_rows(net, i - 1, some), dz, x, below, some);
        else if (dx)
            l->kind->backward_input(l, dx + some->row * row_stride(l->inputs), dz, x, below, some);
        if (l->weight_size)
            l->kind->sum_piece(l, dz, x, number, some);
        lap(t, i);
    }
}

static void backward_deep(nn_net *net, const batch *b, real *dx, int lowest)
{
    double *stamps = stamps_of(net, b), spent[net->deep];
    laps t = {stamps ? memset(spent, 0, sizeof spent) : NULL, stamps ? nn_seconds() : 0};
    int64_t pieces = pieces_of_rows(net, b->n), first, last;
    prepare_deep(net, 1, lowest, b);
    team_share(b->team, pieces, 1, &first, &last);
    for (int64_t number = first; number < last; number++) {
        batch some = some_rows(b, b->n * number / pieces, b->n * (number + 1) / pieces);
        backward_piece(net, number, &some, dx, lowest, &t);
    }
    team_wait(b->team);
    for (int i = lowest; i < net->deep; i++)
        if (net->layers[i].weight_size)
            net->layers[i].kind->gather_pieces(&net->layers[i], b->n, b);
    team_wait(b->team);
    for (int i = lowest; i < net->deep && b->update; i++)
        if (net->layers[i].weight_size)
            step_layer(&net->layers[i], b);
    team_wait(b->team);
    lap(&t, lowest);
    double *at = stamps ? stamps + 3 + net->count + 2 * (net->count - net->deep) : NULL;
    for (int i = net->deep - 1; stamps && i >= lowest; i--, at += 2)
        at[0] = at[1] = at[-1] + spent[i];
}
