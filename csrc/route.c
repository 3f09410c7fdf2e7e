/* route.c - the names of the kernels that a network takes, for people; the functions that choose
 * the kernels answer. uses: threads.c (micro_batches_of), buffers.c (fused_layers_of), ranks.c
 * (largest_share), pass.c (fused_forward, backward_batch, first_trainable)
 */
#include "core.h"
#include <stdarg.h>
#include <stdio.h>

#ifdef NN_FAST
#define LOOPS "vector loops"
#else
#define LOOPS "plain loops"
#endif

static const char *route_of(const layer *l, pass_kind pass, const batch *b)
{
    return l->kind->fast.route ? l->kind->fast.route(&l->spec, pass, b) : LOOPS;
}

/* Appends to out[size]; the text is cut at the end of out. */
__attribute__((format(printf, 3, 4)))
static void append(char *out, int size, const char *format, ...)
{
    int used = (int)strlen(out);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out + used, (size_t)(size - used), format, arguments);
    va_end(arguments);
}

/* The kernels of layer i in the passes that it has. */
static void name_kernels(const nn_net *net, int i, const batch *b, char *out, int size)
{
    const layer *l = &net->layers[i];
    int lowest = first_trainable(net);
    const char *forward = route_of(l, FORWARD, b);
    batch own;
    const char *input = NULL;
    if (i > lowest)
        input = route_of(l, INPUT_GRADIENT, backward_batch(net, i, lowest, NULL, b, &own));
    const char *weight = has_parameters(l) ? route_of(l, WEIGHT_GRADIENT, b) : NULL;
    const char *backward = input ? input : weight ? weight : forward;
    if (input && weight && strcmp(input, weight))
        append(out, size, "%s, input gradient: %s, weight gradient: %s", forward, input, weight);
    else if (strcmp(forward, backward))
        append(out, size, "%s, backward: %s", forward, backward);
    else
        append(out, size, "%s", forward);
}

int FN(net_route)(const nn_net *net, int64_t rows, int layer, char *out, int size)
{
    update step = {0};
    int64_t n = largest_share(net, rows), micro_batches = micro_batches_of(net, n);
    int threads = micro_batches > 1 ? 1 : FN(net_threads)(net, n);
    nn_net reserved = *net;             /* as net_reserve would make it */
    batch b = {
        .team = {0, threads, NULL}, .n = n / micro_batches, .training = 1,
        .update = net->ranks || micro_batches > 1 ? NULL : &step,
    };
    if (n > net->batch)
        reserved.buffers.fused_layers = fused_layers_of(net, n);
    if (layer < 0 || layer >= net->count || size < 1)
        return -1;
    *out = 0;
    name_kernels(&reserved, layer, &b, out, size);
    if (layer < fused_forward(&reserved, &b))
        append(out, size, "; fused");
    else if (layer < reserved.buffers.fused_layers)
        append(out, size, "; fused backward");
    if (micro_batches > 1)
        append(out, size, "; %d micro-batches", (int)micro_batches);
    return 0;
}
