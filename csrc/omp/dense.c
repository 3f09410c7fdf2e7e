/* dense.c - the fully connected layer, fast. The weight is kept (i, row_stride(o)), inputs
 * first, so that all three products run along outputs: forward and update read it in place; only
 * the input's gradient needs it transposed, which the packing of the product does. Narrow
 * layers, whose few outputs would leave most of a vector empty, keep it (o, row_stride(i)) and
 * run along inputs (dense_narrow.c).
 * uses: matrix.c (multiply, product_route), dense_narrow.c, dense_scaled.c
 */
#include "../core.h"
#include "nn_aux.h"
#include "transpose.h"

enum { BIAS_WIDE = 4 };                 /* vectors of a row that are added up together */

static int64_t dense_weights(const nn_layer *spec)
{
    int64_t i = values(spec->in), o = values(spec->out);
    return is_narrow(spec) ? o * row_stride(i) : i * row_stride(o);
}

static void dense_import(const layer *l, real *to, const real *weight)
{
    if (is_narrow(&l->spec))
        take_rows(to, row_stride(l->inputs), weight, l->inputs, l->outputs, l->inputs);
    else
        transpose(to, row_stride(l->outputs), weight, l->inputs, l->outputs, l->inputs);
}

static void dense_export(const layer *l, real *weight, const real *from)
{
    if (is_narrow(&l->spec))
        take_rows(weight, l->inputs, from, row_stride(l->inputs), l->outputs, l->inputs);
    else
        transpose(weight, l->inputs, from, row_stride(l->outputs), l->inputs, l->outputs);
}

/* out (n,o) = f(x (n,i) w + b) */
static product forward_product(const nn_layer *spec, int64_t n)
{
    int64_t i = values(spec->in), o = row_stride(values(spec->out));
    return (product){
        .m = n, .n = o, .k = i, .a_row = row_stride(i), .a_col = 1, .b_row = o, .b_col = 1,
        .c_row = o,
        .end = {.kind = ACTIVATE, .activation = spec->activation},
    };
}

/* dx (n,i) = dz (n,o) w' f'(x) */
static product input_product(const nn_layer *spec, int64_t n)
{
    int64_t i = values(spec->in), o = values(spec->out);
    return (product){
        .m = n, .n = row_stride(i), .k = o, .a_row = row_stride(o), .a_col = 1,
        .b_row = 1, .b_col = row_stride(o), .b_width = i, .c_row = row_stride(i),
    };
}

/* The product for the vectors of inputs that the batch asks for; from: the first of these
 * inputs. The whole product where the blocks of a smaller one would need more memory than is
 * reserved. */
INLINE product asked_input_product(const nn_layer *spec, const batch *b, int64_t *from)
{
    product all = input_product(spec, b->n);
    *from = 0;
    if (!b->dx_to)
        return all;
    product p = all;
    int64_t first = b->dx_from / VECTOR * VECTOR;
    p.n = row_stride(b->dx_to) - first, p.b_width = min_i64(p.n, all.b_width - first);
    if (multiply_scratch(&p) > multiply_scratch(&all))
        return all;
    *from = first;
    return p;
}

/* dw (i,o) = x' (i,n) dz (n,o); with `steps`, the step that it makes, unless the sums are too
 * long for that */
static product weight_product(const nn_layer *spec, int64_t n, int steps)
{
    int64_t i = values(spec->in), o = row_stride(values(spec->out));
    return (product){
        .m = i, .n = o, .k = n, .a_row = 1, .a_col = row_stride(i), .b_row = o, .b_col = 1,
        .c_row = o,
        .end = {.kind = steps && n <= MOST_FUSED_ROWS ? STEP : KEEP},
    };
}

static int64_t dense_scratch(const nn_layer *spec, int64_t n)
{
    if (is_narrow(spec))
        return narrow_scratch(spec);
    product forward = forward_product(spec, n), input = input_product(spec, n);
    int64_t most = max_i64(multiply_scratch(&forward), multiply_scratch(&input));
    for (int steps = 0; steps < 2; steps++) {
        product weight = weight_product(spec, n, steps);
        most = max_i64(most, multiply_scratch(&weight));
    }
    return most;
}

static void dense_forward(layer *l, real *out, const real *x, const batch *b)
{
    if (is_narrow(&l->spec)) {
        narrow_forward(l, out, x, b);
        return;
    }
    product p = forward_product(&l->spec, b->n);
    p.a = x, p.b = l->w, p.c = out, p.end.bias = l->b;
    if (b->x_row)
        p.a_row = b->x_row;
    if (is_of_row(p.end.activation))
        p.end.activation = NN_LINEAR;   /* needs the whole row */
    multiply(&p, b->team, b->scratch);
    if (is_of_row(l->spec.activation)) {
        int64_t first, last;
        barrier_wait(b->team);
        thread_share(b->team, b->n, 1, &first, &last);
        activation_forward(out, l->spec.activation, first, last, l->outputs);
    }
}

static void dense_backward_input(layer *l, real *dx, const real *dz, const real *x,
                                 nn_activation below, const batch *b)
{
    if (is_narrow(&l->spec)) {
        narrow_backward_input(l, dx, dz, x, below, b);
        return;
    }
    int64_t from;
    product p = asked_input_product(&l->spec, b, &from);
    p.a = dz, p.b = l->w + from * row_stride(l->outputs), p.c = dx + from;
    if (below != NN_LINEAR)
        p.end = (epilogue){
            .kind = DERIVATIVE, .activation = below, .x = x + from, .x_row = row_stride(l->inputs)};
    multiply(&p, b->team, b->scratch);
}

/* db of `wide` vectors of columns: sums of dz (n, stride), or the step they make. */
INLINE void bias_columns(const int wide, layer *l, const real *dz, int64_t stride, int64_t k,
                         int64_t n, const step_constants *step)
{
    vec sum[BIAS_WIDE] = {{0}};
    for (int64_t r = 0; r < n; r++)
        for (int s = 0; s < wide; s++)
            sum[s] += load(dz + r * stride + k + s * VECTOR);
    for (int s = 0; s < wide; s++, k += VECTOR)
        if (step)
            step_v(l->b + k, sum[s], l->bm ? l->bm + k : NULL, l->bv ? l->bv + k : NULL, step);
        else
            store(l->db + k, sum[s]);
}

static void bias_gradient(layer *l, const real *dz, int steps, const batch *b)
{
    int64_t stride = row_stride(l->outputs), first, last;
    step_constants constants, *step = NULL;
    if (steps)
        constants = step_of(b->update, 0), step = &constants;
    thread_share(b->team, stride, VECTOR, &first, &last);
    int64_t k = first;
    for (; k + BIAS_WIDE * VECTOR <= last; k += BIAS_WIDE * VECTOR)
        bias_columns(BIAS_WIDE, l, dz, stride, k, b->n, step);
    for (; k < last; k += VECTOR)
        bias_columns(1, l, dz, stride, k, b->n, step);
}

/* Lets the product that gives the weight's gradient take the step at once, if it may. Returns
 * whether it does. */
static int take_step(product *p, layer *l, step_constants *step, const batch *b)
{
    int steps = p->end.kind == STEP;
    p->c = steps ? l->w : l->dw;
    if (steps) {
        *step = step_of(b->update, 1);
        p->end.step = step;
        p->end.m = b->update->moments > 0 ? l->m : NULL;
        p->end.v = b->update->moments > 1 ? l->v : NULL;
    }
    return steps;
}

static int dense_gradient(layer *l, const real *dz, const real *x, const batch *b)
{
    if (is_narrow(&l->spec)) {
        narrow_backward_weight(l, dz, x, b);
        bias_gradient(l, dz, b->update != NULL, b);
        return b->update != NULL;
    }
    product p = weight_product(&l->spec, b->n, b->update != NULL);
    step_constants step;
    int steps = take_step(&p, l, &step, b);
    p.a = x, p.b = dz;
    multiply(&p, b->team, b->scratch);
    bias_gradient(l, dz, steps, b);
    return steps;
}

static const char *dense_route(const nn_layer *spec, pass_kind pass, const batch *b)
{
    product p;
    int64_t from;
    if (is_narrow(spec))
        return "narrow";
    switch (pass) {
    case FORWARD: p = forward_product(spec, b->n); break;
    case INPUT_GRADIENT: p = asked_input_product(spec, b, &from); break;
    case WEIGHT_GRADIENT: p = weight_product(spec, b->n, b->update != NULL); break;
    }
    return product_route(&p, b->team);
}

static int dense_reads_any_row(const nn_layer *spec) { return !is_narrow(spec); }
static int64_t dense_most_stepped_rows(const nn_layer *spec)
{ return is_narrow(spec) ? INT64_MAX : MOST_FUSED_ROWS; }

/* In every batch threads read what another has made of a weight: each line goes from core to
 * core and back, which takes as long as the products of some dozen rows; more threads wait for
 * fewer lines each. It is less where they step columns of their own (multiply), and large
 * weights come from a shared cache or from memory anyway. */
static int dense_gains_by_sharing(const nn_layer *spec, int64_t n, int threads)
{
    const int64_t many_rows = 128, near_bytes = 512 * 1024;
    int64_t bytes = dense_weights(spec) * (int64_t)sizeof(real);
    int64_t columns = row_stride(values(is_narrow(spec) ? spec->in : spec->out)) / threads;
    return n * threads >= many_rows || columns * (int64_t)sizeof(real) >= WIDE_BYTES ||
           bytes > near_bytes;
}

static const layer_kind dense_kind = {
    .forward = dense_forward, .backward_input = dense_backward_input, .flops = dense_flops,
    .parameters = {
        .size = dense_weights, .import = dense_import, .export = dense_export,
        .gradient = dense_gradient,
        .most_stepped_rows = dense_most_stepped_rows, .scaled_step = dense_scaled_step,
    },
    .memory = {.scratch = dense_scratch},
    .fast = {
        .gains_by_sharing = dense_gains_by_sharing,
        .reads_any_row = dense_reads_any_row, .route = dense_route,
    },
};
