/* buffers.c - the memory of a network: buffers for one batch, the optimiser's moments, the
 * gradients that are kept. uses: threads.c (forward_threads, micro_batches_of)
 */
#include "core.h"

static layer *last_layer(const nn_net *net) { return &net->layers[net->count - 1]; }

static char *scratch_of(const nn_net *net, thread_team t)
{
    return net->buffers.scratch + t.id * net->buffers.scratch_stride;
}

static void *take(nn_net *net, int64_t bytes)
{
    void *memory = nn_alloc(bytes);
    if (memory)
        net->bytes += bytes;
    return memory;
}

static void point_layers(nn_net *net)
{
    real *w = net->vectors[NN_PARAMETERS], *m = net->vectors[NN_MOMENT1],
         *v = net->vectors[NN_MOMENT2];
    for (int i = 0; i < net->count; i++) {
        layer *l = &net->layers[i];
        if (!has_parameters(l))
            continue;
        l->w = w + l->weight_at, l->b = w + l->bias_at;
        int kept = l->weight_at < net->gradients_size;
        l->dw = kept ? net->gradients + l->weight_at : NULL,
        l->db = kept ? net->gradients + l->bias_at : NULL;
        l->m = m ? m + l->weight_at : NULL, l->bm = m ? m + l->bias_at : NULL;
        l->v = v ? v + l->weight_at : NULL, l->bv = v ? v + l->bias_at : NULL;
        l->scales = i == net->scaled ? net->vectors[NN_SCALES] : NULL;
    }
}

/* ---- sizes ---- */

/* The gradient of a layer's output is needed until that of its input is known, so two buffers
 * serve all images in alternation. Vectors have their own: products run over the zeros at the
 * end of a row, which must stay 0. */
static int shares_dz(const nn_net *net, int i)
{
    const int32_t *out = net->layers[i].spec.out;
    return i + 1 < net->count && out[1] * out[2] > 1;
}

/* Bytes of shared scratch for one layer. */
static int64_t shared_scratch_of(const layer *l, int64_t n)
{
    return aligned(l->kind->memory.shared_scratch ? l->kind->memory.shared_scratch(&l->spec, n)
                                                  : 0);
}

/* The number of partial sums of a gradient, if all leading layers that go by rows agree on it;
 * 0: they differ, or none has any. */
static int64_t partial_sums_of_fused(const nn_net *net, int64_t n)
{
    int64_t count = 0;
    for (int i = 0; i < net->count && net->layers[i].kind->fast.by_rows; i++) {
        const layer *l = &net->layers[i];
        int64_t own = l->kind->fast.partial_sums ? l->kind->fast.partial_sums(&l->spec, n) : count;
        if (count && own != count)
            return 0;
        count = own;
    }
    return count;
}

/* How many of the first layers are fused in batches of up to n rows: those that go by rows, if
 * every thread gets a partial sum, and if their shared scratch is small enough to be kept side
 * by side. */
static int fused_layers_of(const nn_net *net, int64_t n)
{
    const int64_t most_shared = 1 << 24;
    int64_t shared = 0;
    int count = 0;
    for (; count < net->count && net->layers[count].kind->fast.by_rows; count++)
        shared += shared_scratch_of(&net->layers[count], n);
    return shared <= most_shared && partial_sums_of_fused(net, n) >= forward_threads(net, n) ? count
                                                                                             : 0;
}

static int reads_output(const layer *l, nn_activation below)
{
    return l->kind->fast.reads_output && l->kind->fast.reads_output(&l->spec, below);
}

/* Whether only the next fused layer reads a fused layer's output, and only in the forward pass. */
static int is_out_per_thread(const nn_net *net, int i, int fused_layers)
{
    const layer *l = &net->layers[i], *next = l + 1;
    if (i + 1 >= fused_layers || i + 2 >= net->count || has_parameters(next) ||
        next->kind->fast.reads_input)
        return 0;
    if (i > 0 && reads_output(l, l[-1].spec.activation))
        return 0;
    return l->spec.activation == NN_LINEAR || reads_output(next, l->spec.activation);
}

/* Rows whose values in all fused layers stay in the L2 cache. */
static int64_t fused_rows_of(const nn_net *net, int fused_layers)
{
    const int64_t near_bytes = 512 * 1024;
    int64_t bytes = 1;
    for (int i = 0; i < fused_layers; i++)
        bytes += row_stride(net->layers[i].outputs) * (int64_t)sizeof(real);
    return max_i64(1, near_bytes / bytes);
}

/* The most rows that one partial sum covers in a batch of up to n rows; 0: no partial sums. */
static int64_t rows_of_partial_sum(const nn_net *net, int64_t n)
{
    int64_t count = partial_sums_of_fused(net, n);
    /* 2: 3 rows make 2 partial sums */
    return count ? max_i64(min_i64(n, 2), (n + count - 1) / count) : 0;
}

/* ---- buffers ---- */

/* Bytes of the buffers that layers share. */
typedef struct {
    int64_t shared_scratch, dz[2];
} shared_bytes;

/* Decides which layers are fused, and what the shared buffers take; sets the strides in
 * net->buffers. */
static shared_bytes plan_buffers(nn_net *net, int64_t n, int threads)
{
    buffers *own = &net->buffers;
    shared_bytes bytes = {0};
    int64_t fused_scratch = 0, partial_rows = rows_of_partial_sum(net, n), dz_values[2] = {0, 0};
    own->fused_layers = fused_layers_of(net, n);
    own->fused_rows = min_i64((n + threads - 1) / threads, fused_rows_of(net, own->fused_layers));
    for (int i = 0; i < net->count; i++) {
        const layer *l = &net->layers[i];
        int fused = i < own->fused_layers;
        if (l->kind->memory.scratch)
            own->scratch_stride =
                max_i64(own->scratch_stride, l->kind->memory.scratch(&l->spec, n));
        fused_scratch = fused ? fused_scratch + shared_scratch_of(l, n) : 0;
        bytes.shared_scratch =
            max_i64(bytes.shared_scratch, max_i64(fused_scratch, shared_scratch_of(l, n)));
        if (shares_dz(net, i) && fused)
            own->dz_stride[i % 2] =
                max_i64(own->dz_stride[i % 2], partial_rows * row_stride(l->outputs));
        else if (shares_dz(net, i))
            dz_values[i % 2] = max_i64(dz_values[i % 2], n * row_stride(l->outputs));
    }
    own->scratch_stride = aligned(own->scratch_stride);
    for (int i = 0; i < 2; i++)
        bytes.dz[i] = max_i64(dz_values[i], threads * own->dz_stride[i]) * (int64_t)sizeof(real);
    return bytes;
}

/* Output, gradient and workspace of layer i, which has the shared scratch at `shared`. 0 when
 * memory runs out. */
static int make_layer_buffers(nn_net *net, int i, int64_t n, int threads, char *shared)
{
    layer *l = &net->layers[i];
    const buffers *own = &net->buffers;
    int64_t bytes = n * row_stride(l->outputs) * (int64_t)sizeof(real);
    int64_t per_thread = threads * own->fused_rows * row_stride(l->outputs) * (int64_t)sizeof(real);
    l->out_per_thread = is_out_per_thread(net, i, own->fused_layers);
    l->out = take(net, l->out_per_thread ? per_thread : bytes);
    if (i + 1 == net->count)
        l->dz = l->out;                 /* the loss turns the output into its gradient */
    else
        l->dz = shares_dz(net, i) ? own->dz[i % 2] : take(net, bytes);
    l->work =
        take(net, l->kind->memory.workspace ? l->kind->memory.workspace(&l->spec, n, threads) : 0);
    l->shared_scratch = shared;
    return l->out && l->dz && l->work;
}

/* Buffers for n rows, instead of those that `net` has copies of. 0 when memory runs out. */
static int make_buffers(nn_net *net, int64_t n)
{
    int64_t inputs = row_stride(net->layers[0].inputs),
            outputs = row_stride(last_layer(net)->outputs);
    int threads = forward_threads(net, n), complete = 1;
    buffers *own = &net->buffers;
    *own = (buffers){0}, net->dx = NULL;
    for (int i = 0; i < net->count; i++)
        net->layers[i].out = net->layers[i].dz = NULL, net->layers[i].work = NULL;
    own->x = take(net, n * inputs * (int64_t)sizeof(real)),
    own->y = take(net, n * outputs * (int64_t)sizeof(real));
    own->row_loss = take(net, n * (int64_t)sizeof(double));
    shared_bytes bytes = plan_buffers(net, n, threads);
    own->scratch = take(net, own->scratch_stride * threads);
    own->shared_scratch = take(net, bytes.shared_scratch);
    own->dz[0] = take(net, bytes.dz[0]), own->dz[1] = take(net, bytes.dz[1]);
    complete = own->x && own->y && own->row_loss && own->scratch && own->shared_scratch &&
               own->dz[0] && own->dz[1];
    char *fused_scratch = own->shared_scratch;
    for (int i = 0; complete && i < net->count; i++) {
        complete = make_layer_buffers(net, i, n, threads,
                                      i < own->fused_layers ? fused_scratch : own->shared_scratch);
        fused_scratch += shared_scratch_of(&net->layers[i], n);
    }
    return complete;
}

/* Frees what make_buffers made, and dx. */
static void release_buffers(nn_net *net)
{
    buffers *own = &net->buffers;
    for (int i = 0; i < net->count; i++) {
        layer *l = &net->layers[i];
        nn_free(l->out), nn_free(l->work);
        if (i + 1 < net->count && !shares_dz(net, i))
            nn_free(l->dz);
    }
    nn_free(own->x), nn_free(own->y), nn_free(net->dx), nn_free(own->row_loss),
        nn_free(own->scratch);
    nn_free(own->shared_scratch), nn_free(own->dz[0]), nn_free(own->dz[1]);
}

enum { SCALE_ROWS = 4 };                /* see layer.scales */

/* Bytes of a vector as the core keeps it. */
static int64_t bytes_of_vector(const nn_net *net, nn_vector what)
{
    int64_t size = net->engine_size;
    if (what == NN_SCALES)
        size = net->scaled < 0 ? 0 : SCALE_ROWS * row_stride(net->layers[net->scaled].inputs);
    return size * (int64_t)sizeof(real);
}

/* Bytes of all vectors: of the parameters, which a network counts as its own, and of those that
 * somebody asked for. */
static int64_t bytes_of_vectors(const nn_net *net, real *const vectors[])
{
    int64_t bytes = bytes_of_vector(net, NN_PARAMETERS);
    for (int v = NN_MOMENT1; v <= NN_KEPT; v++)
        if (vectors[v])
            bytes += bytes_of_vector(net, v);
    return bytes;
}

int FN(net_reserve)(nn_net *net, int64_t n)
{
    if (n <= net->batch)
        return 0;
    layer layers[net->count];
    /* the network stays unchanged until all memory is allocated */
    nn_net next = *net;
    memcpy(layers, net->layers, sizeof layers);
    next.layers = layers;
    next.bytes = bytes_of_vectors(net, net->vectors) +
                 net->gradients_size * (int64_t)sizeof(real);
    if (!make_buffers(&next, n)) {
        release_buffers(&next);
        return -1;
    }
    release_buffers(net);
    memcpy(net->layers, layers, sizeof layers);
    net->buffers = next.buffers, net->dx = NULL, net->bytes = next.bytes, net->batch = n;
    return 0;
}

/* ---- vectors and gradients ---- */

/* A vector as the core keeps it, made now if nobody asked for it before; NULL when memory runs
 * out. */
static real *need_vector(nn_net *net, nn_vector what)
{
    if (!net->vectors[what]) {
        net->vectors[what] = take(net, bytes_of_vector(net, what));
        point_layers(net);
    }
    return net->vectors[what];
}

/* Makes room for the gradients that are kept in a batch of `rows` rows; for those of all layers
 * where rows is 0. The vector only grows. -1 when memory runs out. */
static int need_gradients(nn_net *net, int64_t rows)
{
    int64_t size = rows ? net->kept_size : net->engine_size;
    for (int i = 0; i < net->count; i++)
        if (has_parameters(&net->layers[i]) && net->layers[i].weight_at >= net->kept_size
            && rows > net->layers[i].kind->parameters.most_stepped_rows(&net->layers[i].spec))
            size = net->engine_size;
    if (rows && micro_batches_of(net, rows) > 1)
        size = micro_batches_of(net, rows) * net->engine_size;
    if (size <= net->gradients_size)
        return 0;
    real *gradients = nn_alloc((size + 2) * (int64_t)sizeof(real));
    if (!gradients)
        return -1;
    nn_free(net->gradients);
    net->bytes += (size - net->gradients_size) * (int64_t)sizeof(real);
    net->gradients = gradients, net->gradients_size = size;
    point_layers(net);
    return 0;
}
