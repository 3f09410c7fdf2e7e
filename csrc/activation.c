/* activation.c - an activation as a layer of its own: out = f(x), dx = dz f'(x).
 *
 * Other layers take f' from their output and keep no second array. This layer is for activations that do not allow it:
 * silu and gelu fall before they rise, so an output belongs to two inputs.
 */
#include "core.h"

static void activation_layer_forward(layer *l, real *out, const real *x, const batch *b)
{
    int64_t first, last, stride = row_stride(l->inputs);
    thread_share(b->team, b->n, 1, &first, &last);
    for (int64_t r = first; r < last; r++) {            /* row by row: the row is in the L1 cache the second time */
        take_rows(out + r * stride, stride, x + r * stride, stride, 1, stride);
        activation_forward(out, l->spec.function, r, r + 1, l->outputs);
    }
}

static void activation_layer_backward(layer *l, real *dx, const real *dz, const real *x, nn_activation below, const batch *b)
{
    int64_t first, last, stride = row_stride(l->inputs);
    thread_share(b->team, b->n, 1, &first, &last);
    for (int64_t r = first; r < last; r++) {
        take_rows(dx + r * stride, stride, dz + r * stride, stride, 1, stride);
        activation_backward_from_input(dx, x, l->spec.function, r, r + 1, l->inputs);
        activation_backward(dx, x, below, r, r + 1, l->inputs);
    }
}

static const layer_kind activation_kind = {
    .forward = activation_layer_forward, .backward_input = activation_layer_backward, .flops = activation_flops,
    .fast = {.by_rows = 1, .reads_input = 1},
};
