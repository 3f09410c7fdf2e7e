/* net.c - a network in memory: its layers, parameters and room for one batch. */
#include "core.h"
#include <stdlib.h>
#include <string.h>

static const layer_kind *const layer_kinds[] = {
    [NN_DENSE] = &dense_kind,
    [NN_CONV] = &conv_kind,
    [NN_PAD] = &pad_kind,
    [NN_MAXPOOL] = &maxpool_kind,
    [NN_AVGPOOL] = &avgpool_kind,
    [NN_DROPOUT] = &dropout_kind,
    [NN_FLATTEN] = &flatten_kind,
};

static layer *last_layer(const nn_net *net) { return &net->layers[net->count - 1]; }

/* A bias for each channel; a vector's values are channels of one pixel. */
static int64_t biases_of(const layer *l) { return l->spec.out[0]; }

static char *scratch_of(const nn_net *net, team t) { return net->scratch + t.id * net->scratch_stride; }

static void *take(nn_net *net, int64_t bytes)
{
    net->bytes += bytes;
    return nn_alloc(bytes);
}

static void lay_out_layer(nn_net *net, layer *l)
{
    const int64_t line = ALIGNMENT / (int64_t)sizeof(real);
    l->weight_size = l->kind->weights(&l->spec);
    l->bias_size = row_stride(biases_of(l));
    l->weight_at = net->engine_size;
    l->bias_at = l->weight_at + (l->weight_size + line - 1) / line * line;
    net->engine_size = l->bias_at + (l->bias_size + line - 1) / line * line;
    net->size = max_i64(net->size, l->spec.bias + biases_of(l));
}

/* Where each layer's weight and bias stand, here and in the caller's parameter vector. Layers that can take a step
 * without keeping gradients come last, so that the others' gradients are the first part of a vector. */
static void lay_out_parameters(nn_net *net)
{
    for (int steps_at_once = 0; steps_at_once < 2; steps_at_once++) {
        for (int i = 0; i < net->count; i++)
            if (net->layers[i].spec.weight >= 0 && !!net->layers[i].kind->most_stepped_rows == steps_at_once)
                lay_out_layer(net, &net->layers[i]);
        if (!steps_at_once)
            net->kept_size = net->engine_size;
    }
}

static void point_layers(nn_net *net)
{
    for (int i = 0; i < net->count; i++) {
        layer *l = &net->layers[i];
        if (!l->weight_size)
            continue;
        l->w = net->parameters + l->weight_at, l->b = net->parameters + l->bias_at;
        int kept = l->weight_at < net->gradients_size;
        l->dw = kept ? net->gradients + l->weight_at : NULL, l->db = kept ? net->gradients + l->bias_at : NULL;
        l->m = net->moment1 ? net->moment1 + l->weight_at : NULL;
        l->bm = net->moment1 ? net->moment1 + l->bias_at : NULL;
        l->v = net->moment2 ? net->moment2 + l->weight_at : NULL;
        l->bv = net->moment2 ? net->moment2 + l->bias_at : NULL;
    }
}

/* Everything whose size depends on the rows of a batch. */
typedef struct {
    real *x, *y;
    double *row_loss;
    real **out, **dz;                   /* dz: of layers that have one of their own */
    real *turn[2];                      /* see shares_dz */
    void **work;
    char *scratch;
    int64_t scratch_stride;
    void *common;
    int deep;
    int64_t near_rows, turn_stride[2];
} room;

static void room_free(room *r, int count)
{
    for (int i = 0; i < count; i++) {
        nn_free(r->out ? r->out[i] : NULL);
        nn_free(r->dz ? r->dz[i] : NULL);
        nn_free(r->work ? r->work[i] : NULL);
    }
    nn_free(r->x), nn_free(r->y), nn_free(r->row_loss), nn_free(r->scratch), nn_free(r->common);
    nn_free(r->turn[0]), nn_free(r->turn[1]);
    free(r->out), free(r->dz), free(r->work);
}

/* The gradient of a layer's output is needed until that of its input is known, so two buffers serve all images in
 * turn. Vectors have their own: products run over the zeros that fill them up, which must stay. */
static int shares_dz(const nn_net *net, int i)
{
    const int32_t *out = net->layers[i].spec.out;
    return i + 1 < net->count && out[1] * out[2] > 1;
}

/* Bytes of a layer's own share of what is common, where layers may not share it. */
static int64_t common_of(const layer *l, int64_t n)
{
    int64_t bytes = l->kind->common ? l->kind->common(&l->spec, n) : 0;
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* The pieces in which the first layers that go by rows all sum their gradients; 0: there are none, or they differ. */
static int64_t pieces_of_rows(const nn_net *net, int64_t n)
{
    int64_t pieces = 0;
    for (int i = 0; i < net->count && net->layers[i].kind->by_rows; i++) {
        const layer *l = &net->layers[i];
        int64_t own = l->kind->pieces ? l->kind->pieces(&l->spec, n) : pieces;
        if (pieces && own != pieces)
            return 0;
        pieces = own;
    }
    return pieces;
}

static int forward_threads(const nn_net *net, int64_t rows);

/* How many of the first layers threads run depth first in batches of up to n rows (depth.c): those that go by rows, if
 * there are pieces for all threads, and what these layers prepare is little enough to be kept side by side. */
static int deep_layers(const nn_net *net, int64_t n)
{
    const int64_t most_common = 1 << 24;
    int64_t common = 0;
    int count = 0;
    for (; count < net->count && net->layers[count].kind->by_rows; count++)
        common += common_of(&net->layers[count], n);
    return common <= most_common && pieces_of_rows(net, n) >= forward_threads(net, n) ? count : 0;
}

static int reads_output(const layer *l, int below)
{
    return l->kind->reads_output && l->kind->reads_output(&l->spec, below);
}

/* Whether the output of one of the deep layers is of no use but to the next of them, and that only forward. */
static int passes(const nn_net *net, int i, int deep)
{
    const layer *l = &net->layers[i], *next = l + 1;
    if (i + 1 >= deep || i + 2 >= net->count || next->weight_size || (i > 0 && reads_output(l, l[-1].spec.activation)))
        return 0;
    return l->spec.activation == NN_LINEAR || reads_output(next, l->spec.activation);
}

/* Rows whose values of all deep layers stay in the second-level cache. */
static int64_t rows_nearby(const nn_net *net, int deep)
{
    const int64_t near_bytes = 512 * 1024;
    int64_t bytes = 1;
    for (int i = 0; i < deep; i++)
        bytes += row_stride(net->layers[i].outputs) * (int64_t)sizeof(real);
    return max_i64(1, near_bytes / bytes);
}

/* The most rows in any piece of up to n rows, if there are pieces at all. */
static int64_t rows_of_piece(const nn_net *net, int64_t n)
{
    int64_t pieces = pieces_of_rows(net, n);
    return pieces ? max_i64(min_i64(n, 2), (n + pieces - 1) / pieces) : 0;      /* 2: as 3 rows are 2 pieces */
}

static int room_new(nn_net *net, room *r, int64_t n)
{
    int64_t inputs = row_stride(net->layers[0].inputs), outputs = row_stride(last_layer(net)->outputs);
    int64_t common = 0, turn[2] = {0, 0}, kept = 0, piece_rows = rows_of_piece(net, n);
    int threads = forward_threads(net, n), complete = 1;
    *r = (room){
        .deep = deep_layers(net, n),
        .x = take(net, n * inputs * (int64_t)sizeof(real)), .y = take(net, n * outputs * (int64_t)sizeof(real)),
        .row_loss = take(net, n * (int64_t)sizeof(double)),
        .out = calloc((size_t)net->count, sizeof(real *)), .dz = calloc((size_t)net->count, sizeof(real *)),
        .work = calloc((size_t)net->count, sizeof(void *)),
    };
    r->near_rows = min_i64((n + threads - 1) / threads, rows_nearby(net, r->deep));
    for (int i = 0; i < net->count; i++) {
        const layer *l = &net->layers[i];
        if (l->kind->scratch)
            r->scratch_stride = max_i64(r->scratch_stride, l->kind->scratch(&l->spec, n));
        kept = i < r->deep ? kept + common_of(l, n) : 0;
        common = max_i64(common, max_i64(kept, common_of(l, n)));
        if (shares_dz(net, i) && i < r->deep)
            r->turn_stride[i % 2] = max_i64(r->turn_stride[i % 2], piece_rows * row_stride(l->outputs));
        else if (shares_dz(net, i))
            turn[i % 2] = max_i64(turn[i % 2], n * row_stride(l->outputs));
    }
    r->scratch_stride = (r->scratch_stride + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    r->scratch = take(net, r->scratch_stride * threads);
    r->common = take(net, common);
    for (int i = 0; i < 2; i++)
        r->turn[i] = take(net, max_i64(turn[i], threads * r->turn_stride[i]) * (int64_t)sizeof(real));
    complete = r->scratch && r->common && r->turn[0] && r->turn[1] && r->x && r->y && r->row_loss && r->out && r->dz && r->work;
    for (int i = 0; complete && i < net->count; i++) {
        const layer *l = &net->layers[i];
        int64_t bytes = n * row_stride(l->outputs) * (int64_t)sizeof(real);
        int64_t under_way = threads * r->near_rows * row_stride(l->outputs) * (int64_t)sizeof(real);
        r->out[i] = take(net, passes(net, i, r->deep) ? under_way : bytes);
        int own = i + 1 < net->count && !shares_dz(net, i);     /* the last layer's output becomes its dz */
        r->dz[i] = own ? take(net, bytes) : NULL;
        r->work[i] = take(net, l->kind->workspace ? l->kind->workspace(&l->spec, n, threads) : 0);
        complete = r->out[i] && (r->dz[i] || !own) && r->work[i];
    }
    if (!complete)
        room_free(r, net->count);
    return complete;
}

/* Everything that net_reserve made, and dx. */
static void leave_room(nn_net *net)
{
    for (int i = 0; i < net->count; i++) {
        layer *l = &net->layers[i];
        nn_free(l->out), nn_free(l->work);
        if (i + 1 < net->count && !shares_dz(net, i))
            nn_free(l->dz);
    }
    nn_free(net->x), nn_free(net->y), nn_free(net->dx), nn_free(net->row_loss), nn_free(net->scratch);
    nn_free(net->common), nn_free(net->turn[0]), nn_free(net->turn[1]);
}

int FN(net_reserve)(nn_net *net, int64_t n)
{
    room next;
    int64_t before = net->bytes;
    if (n <= net->batch)
        return 0;
    net->bytes = net->engine_size * (1 + !!net->moment1 + !!net->moment2) + net->gradients_size;
    net->bytes *= (int64_t)sizeof(real);
    if (!room_new(net, &next, n)) {
        net->bytes = before;
        return -1;
    }
    leave_room(net);
    net->common = next.common, net->scratch = next.scratch, net->scratch_stride = next.scratch_stride;
    net->x = next.x, net->y = next.y, net->dx = NULL, net->row_loss = next.row_loss;
    net->turn[0] = next.turn[0], net->turn[1] = next.turn[1];
    net->deep = next.deep, net->near_rows = next.near_rows;
    memcpy(net->turn_stride, next.turn_stride, sizeof net->turn_stride);
    char *common = next.common;
    for (int i = 0; i < net->count; i++) {
        layer *l = &net->layers[i];
        l->out = next.out[i], l->passing = passes(net, i, net->deep), l->work = next.work[i];
        l->common = i < net->deep ? common : next.common;
        common += common_of(l, n);
        l->dz = i + 1 == net->count ? l->out : shares_dz(net, i) ? next.turn[i % 2] : next.dz[i];
    }
    free(next.out), free(next.dz), free(next.work);
    net->batch = n;
    return 0;
}

nn_net *FN(net_new)(const nn_layer *specs, int count, int loss, int64_t n, int threads)
{
    nn_net *net = nn_alloc(sizeof *net);
    if (!net)
        return NULL;
    net->count = count, net->loss = loss, net->threads = threads < 1 ? 1 : threads;
    net->layers = nn_alloc(count * (int64_t)sizeof *net->layers);
    if (!net->layers) {
        FN(net_free)(net);
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        layer *l = &net->layers[i];
        l->spec = specs[i], l->kind = layer_kinds[specs[i].kind], l->index = i;
        l->inputs = values(specs[i].in), l->outputs = values(specs[i].out);
    }
    lay_out_parameters(net);
    net->parameters = nn_alloc((net->engine_size + 1) * (int64_t)sizeof(real));
    if (!net->parameters || FN(net_reserve)(net, max_i64(n, 1))) {
        FN(net_free)(net);
        return NULL;
    }
    point_layers(net);
    return net;
}

void FN(net_free)(nn_net *net)
{
    if (!net)
        return;
    if (net->layers)
        leave_room(net);
    nn_free(net->parameters), nn_free(net->gradients), nn_free(net->moment1), nn_free(net->moment2);
    nn_free(net->layers), nn_free(net);
}

/* The optimiser's memory, made when one first asks. */
static int need_moments(nn_net *net, int first, int second)
{
    int64_t bytes = net->engine_size * (int64_t)sizeof(real);
    if (first && !net->moment1)
        net->moment1 = take(net, bytes);
    if (second && !net->moment2)
        net->moment2 = take(net, bytes);
    point_layers(net);
    return (first && !net->moment1) || (second && !net->moment2) ? -1 : 0;
}

/* An image that several threads work on goes from core to core at every layer, which takes as long as they gain. */
static int is_shared(const layer *l, int64_t rows, int threads)
{
    int image = l->spec.in[1] * l->spec.in[2] > 1;
    if (threads == 1)
        return 1;
    return (rows >= threads || !image) && (!l->kind->shared || l->kind->shared(&l->spec, rows, threads));
}

/* Threads that the layers are worth which so many threads would share. A barrier costs about as much as some ten
 * thousand multiplications, and a layer needs a handful of them; one thread alone needs none. */
static int64_t threads_worth(const nn_net *net, int64_t rows, int threads)
{
    const double worth = 2e6;           /* operations of a batch's forward pass that are worth one more thread */
    double flops = 0;
    for (int i = 0; i < net->count; i++)
        if (is_shared(&net->layers[i], rows, threads))
            flops += net->layers[i].kind->flops(&net->layers[i].spec) * (double)rows;
    return flops < worth ? 1 : (int64_t)(1.5 + flops / worth);
}

static int64_t most_threads(const nn_net *net, int64_t rows) { return threads_worth(net, rows, 1); }

/* Threads that a forward pass is worth; training is worth no more. */
static int forward_threads(const nn_net *net, int64_t rows)
{
    int threads = (int)min_i64(net->threads, most_threads(net, rows));
    return rows >= threads ? threads : (int)max_i64(rows, min_i64(threads, threads_worth(net, rows, threads)));
}

int FN(net_threads)(const nn_net *net, int64_t rows)
{
    int threads = forward_threads(net, rows);
    return (int)min_i64(threads, threads_worth(net, rows, threads));
}

/* Whether a row's prediction needs nothing but the row: no layer keeps anything. */
static int rows_stand_alone(const nn_net *net)
{
    for (int i = 0; i < net->count; i++)
        if (net->layers[i].kind->workspace)
            return 0;
    return 1;
}

/* Whether threads share anything beside the batch in training on n rows. */
static int threads_share(const nn_net *net, int64_t n)
{
    for (int i = 0; i < net->count; i++)
        if (common_of(&net->layers[i], n))
            return 1;
    return 0;
}

/* Parts that a batch of n rows is trained in, each with gradients of its own; threads take whole ones. It depends on
 * sizes alone, so that sums do. 1 where the parts' gradients would need much room beside the activations, where parts
 * would be fewer than half the threads that the work is worth, or where layers share the room of a gradient. */
static int64_t parts_of(const nn_net *net, int64_t n)
{
    const int64_t least_rows = 64;
    int64_t row = net->layers[0].inputs, parts = 1;
    if (n < 2 * least_rows || net->ranks || !rows_stand_alone(net) || threads_share(net, n))
        return 1;
    for (int i = 0; i < net->count; i++) {
        if (shares_dz(net, i))
            return 1;
        row += net->layers[i].outputs;
    }
    while (n >= 2 * parts * least_rows && 2 * parts * net->engine_size <= n * row / 5)
        parts *= 2;
    return 2 * parts >= most_threads(net, n) ? parts : 1;
}

/* The gradients of layers that do not take their step as they find them in a batch of that many rows; of all layers
 * where rows is 0. The vector only grows. */
static int need_gradients(nn_net *net, int64_t rows)
{
    int64_t size = rows ? net->kept_size : net->engine_size;
    for (int i = 0; i < net->count; i++)
        if (net->layers[i].weight_size && net->layers[i].weight_at >= net->kept_size
            && rows > net->layers[i].kind->most_stepped_rows(&net->layers[i].spec))
            size = net->engine_size;
    if (rows && parts_of(net, rows) > 1)
        size = parts_of(net, rows) * net->engine_size;
    if (size <= net->gradients_size)
        return 0;
    real *gradients = nn_alloc((size + 1) * (int64_t)sizeof(real));
    if (!gradients)
        return -1;
    nn_free(net->gradients);
    net->bytes += (size - net->gradients_size) * (int64_t)sizeof(real);
    net->gradients = gradients, net->gradients_size = size;
    point_layers(net);
    return 0;
}

int64_t FN(net_bytes)(const nn_net *net) { return net->bytes; }

void FN(net_profile)(nn_net *net, nn_profile *profile) { net->profile = profile; }
void FN(net_ranks)(nn_net *net, const nn_ranks *ranks) { net->ranks = ranks; }

static real *whole_vector(nn_net *net, int what)
{
    if (what == NN_MOMENT1 || what == NN_MOMENT2)
        need_moments(net, what == NN_MOMENT1, what == NN_MOMENT2);
    return what == NN_MOMENT1 ? net->moment1 : what == NN_MOMENT2 ? net->moment2 : net->parameters;
}

static void import_vector(const nn_net *net, real *to, const real *from)
{
    for (int i = 0; i < net->count; i++) {
        const layer *l = &net->layers[i];
        if (!l->weight_size)
            continue;
        l->kind->import(l, to + l->weight_at, from + l->spec.weight);
        memcpy(to + l->bias_at, from + l->spec.bias, (size_t)biases_of(l) * sizeof(real));
    }
}

static void export_vector(const nn_net *net, real *to, const real *from)
{
    for (int i = 0; i < net->count; i++) {
        const layer *l = &net->layers[i];
        if (!l->weight_size)
            continue;
        l->kind->export(l, to + l->spec.weight, from + l->weight_at);
        memcpy(to + l->spec.bias, from + l->bias_at, (size_t)biases_of(l) * sizeof(real));
    }
}

void FN(net_set)(nn_net *net, int what, const real *from) { import_vector(net, whole_vector(net, what), from); }
void FN(net_get)(nn_net *net, int what, real *to) { export_vector(net, to, whole_vector(net, what)); }
