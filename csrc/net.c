/* net.c - a network: its layer kinds, the layout of its parameter vectors, and their way in and
 * out.
 * uses: the files of the layer kinds, buffers.c (last_layer, point_layers, release_buffers,
 * need_vector)
 */
#include "core.h"

static const layer_kind *kind_of(nn_kind kind)
{
    switch (kind) {
    case NN_DENSE: return &dense_kind;
    case NN_CONV: return &conv_kind;
    case NN_PAD: return &pad_kind;
    case NN_MAXPOOL: return &maxpool_kind;
    case NN_AVGPOOL: return &avgpool_kind;
    case NN_DROPOUT: return &dropout_kind;
    case NN_FLATTEN: return &flatten_kind;
    case NN_ACTIVATION: return &activation_kind;
    case NN_EMBEDDING: return &embedding_kind;
    }
    NOT_REACHED;
}

/* A vector's values are channels of one pixel. */
static int64_t biases_of(const layer *l)
{
    return l->kind->parameters.biases ? l->kind->parameters.biases(&l->spec) : l->spec.out[0];
}

static void lay_out_layer(nn_net *net, layer *l)
{
    const int64_t line = ALIGNMENT / (int64_t)sizeof(real);
    l->weight_size = l->kind->parameters.size(&l->spec);
    l->bias_size = row_stride(biases_of(l));
    l->weight_at = net->engine_size;
    l->bias_at = l->weight_at + (l->weight_size + line - 1) / line * line;
    net->engine_size = l->bias_at + (l->bias_size + line - 1) / line * line;
    net->size = max_i64(net->size, l->spec.bias + biases_of(l));
}

/* Sets where each layer's weight and bias begin in the core's vectors. Layers that always keep
 * their gradients come first, so that the vector of gradients may end before those of the
 * others. */
static void lay_out_parameters(nn_net *net)
{
    for (int steps_at_once = 0; steps_at_once < 2; steps_at_once++) {
        for (int i = 0; i < net->count; i++)
            if (net->layers[i].spec.weight >= 0
                && !!net->layers[i].kind->parameters.most_stepped_rows == steps_at_once)
                lay_out_layer(net, &net->layers[i]);
        if (!steps_at_once)
            net->kept_size = net->engine_size;
    }
}

/* The layer whose inputs may have scales: the first that is not of the kinds which may come
 * before it, if it is dense; else -1. */
static int scaled_layer(const nn_net *net)
{
    for (int i = 0; i < net->count; i++)
        switch (net->layers[i].spec.kind) {
        case NN_DENSE: return i;
        case NN_EMBEDDING: case NN_DROPOUT: case NN_FLATTEN: case NN_ACTIVATION: break;
        case NN_CONV: case NN_PAD: case NN_MAXPOOL: case NN_AVGPOOL: return -1;
        }
    return -1;
}

nn_net *FN(net_new)(const nn_layer *specs, int count, const nn_loss_settings *loss, int64_t n,
                    int threads)
{
    nn_net *net = nn_alloc(sizeof *net);
    if (!net)
        return NULL;
    net->count = count, net->loss = *loss, net->threads = threads < 1 ? 1 : threads;
    net->layers = nn_alloc(count * (int64_t)sizeof *net->layers);
    if (!net->layers) {
        FN(net_free)(net);
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        layer *l = &net->layers[i];
        l->spec = specs[i], l->kind = kind_of(specs[i].kind), l->index = i;
        l->inputs = values(specs[i].in), l->outputs = values(specs[i].out);
    }
    lay_out_parameters(net);
    net->scaled = scaled_layer(net);
    if (FN(net_reserve)(net, max_i64(n, 1))) {
        FN(net_free)(net);
        return NULL;
    }
    return net;
}

void FN(net_free)(nn_net *net)
{
    if (!net)
        return;
    if (net->layers)
        release_buffers(net);
    for (int v = NN_MOMENT1; v <= NN_KEPT; v++)
        nn_free(net->vectors[v]);
    nn_free(net->gradients), nn_free(net->layers), nn_free(net);
}

real *FN(net_vector)(const nn_net *net)
{
    real *vector = nn_alloc((net->engine_size + 1) * (int64_t)sizeof(real));
    if (vector && net->vectors[NN_PARAMETERS])
        memcpy(vector, net->vectors[NN_PARAMETERS], (size_t)net->engine_size * sizeof(real));
    return vector;
}

void FN(net_use)(nn_net *net, real *parameters)
{
    net->vectors[NN_PARAMETERS] = parameters;
    point_layers(net);
}

int64_t FN(net_bytes)(const nn_net *net) { return net->bytes; }

void FN(net_profile)(nn_net *net, nn_profile *profile) { net->profile = profile; }
void FN(net_ranks)(nn_net *net, const nn_ranks *ranks) { net->ranks = ranks; }

/* Scales and their moments: into the core's rows, or out of them. */
static void copy_scales(const nn_net *net, real *to, const real *from, int out)
{
    if (net->scaled < 0)
        return;
    int64_t inputs = net->layers[net->scaled].inputs, stride = row_stride(inputs);
    take_rows(to, out ? inputs : stride, from, out ? stride : inputs, SCALE_ROWS - 1, inputs);
}

/* Between the caller's layout of a vector and the core's: into the core's, or out of it. */
static void copy_vector(const nn_net *net, real *to, const real *from, int out)
{
    for (int i = 0; i < net->count; i++) {
        const layer *l = &net->layers[i];
        if (!has_parameters(l))
            continue;
        int64_t bias_to = out ? l->spec.bias : l->bias_at,
                bias_from = out ? l->bias_at : l->spec.bias;
        if (out)
            l->kind->parameters.export(l, to + l->spec.weight, from + l->weight_at);
        else
            l->kind->parameters.import(l, to + l->weight_at, from + l->spec.weight);
        memcpy(to + bias_to, from + bias_from, (size_t)biases_of(l) * sizeof(real));
    }
}

int FN(net_set)(nn_net *net, nn_vector what, const real *from)
{
    real *to = need_vector(net, what);
    if (to && what == NN_SCALES)
        copy_scales(net, to, from, 0);
    else if (to)
        copy_vector(net, to, from, 0);
    return to ? 0 : -1;
}

int FN(net_get)(nn_net *net, nn_vector what, real *to)
{
    const real *from = need_vector(net, what);
    if (from && what == NN_SCALES)
        copy_scales(net, to, from, 1);
    else if (from)
        copy_vector(net, to, from, 1);
    return from ? 0 : -1;
}

int FN(net_keep)(nn_net *net)
{
    real *kept = need_vector(net, NN_KEPT);
    if (kept)
        memcpy(kept, net->vectors[NN_PARAMETERS], (size_t)net->engine_size * sizeof(real));
    return kept ? 0 : -1;
}
