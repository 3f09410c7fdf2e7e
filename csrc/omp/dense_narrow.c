/* dense_narrow.c - dense layers of a few outputs, such as the last one of a regression: vectors
 * run along the inputs, the weight is (o, row_stride(i)), and each output is one dot product.
 * Reading x once a pass is the bound.
 */
#include "../core.h"
#include "nn_aux.h"
#include "transpose.h"

static int is_narrow(const nn_layer *spec)
{
    int64_t i = values(spec->in), o = values(spec->out);
    return o == 1 || (o * 4 <= VECTOR && i >= 4 * VECTOR);
}

/* The products of x and w (stride), summed but for a vector; four sums side by side hide the
 * latency of additions */
INLINE vec dot_product(const real *x, const real *w, int64_t stride)
{
    vec sum[4] = {{0}};
    int64_t k = 0;
    for (; k + 4 * VECTOR <= stride; k += 4 * VECTOR)
        for (int s = 0; s < 4; s++)
            sum[s] += load(x + k + s * VECTOR) * load(w + k + s * VECTOR);
    for (; k < stride; k += VECTOR)
        sum[0] += load(x + k) * load(w + k);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* out (n,o) = f(x (n,i) w' + b). VECTOR rows together: their sums' vectors, transposed, are
 * added up side by side. */
static void narrow_forward(layer *l, real *out, const real *x, const batch *b)
{
    int64_t stride = row_stride(l->inputs), to = row_stride(l->outputs), first, last;
    int whole_row = is_of_row(l->spec.activation);
    thread_share(b->team, b->n, 1, &first, &last);
    for (int64_t r = first; r < last; r += VECTOR) {
        int64_t rows = min_i64(VECTOR, last - r);
        for (int64_t j = 0; j < l->outputs; j++) {
            real sums[VECTOR * VECTOR], transposed[VECTOR * VECTOR];
            vec z = splat(l->b[j]);
            for (int64_t i = 0; i < rows; i++)
                store(sums + i * VECTOR,
                      dot_product(x + (r + i) * stride, l->w + j * stride, stride));
            for (int64_t i = rows; i < VECTOR; i++)
                store(sums + i * VECTOR, (vec){});
            transpose_block(transposed, VECTOR, sums, VECTOR);
            for (int i = 0; i < VECTOR; i++)
                z += load(transposed + i * VECTOR);
            if (!whole_row)
                z = activation_v(l->spec.activation, z);
            for (int64_t i = 0; i < rows; i++)
                out[(r + i) * to + j] = z[i];
        }
    }
    if (whole_row)
        activation_forward(out, l->spec.activation, first, last, l->outputs);
}

/* dx (n,i) = dz (n,o) w f'(x) */
static void narrow_backward_input(layer *l, real *dx, const real *dz, const real *x,
                                  nn_activation below, const batch *b)
{
    int64_t stride = row_stride(l->inputs), first, last;
    thread_share(b->team, b->n, 1, &first, &last);
    for (int64_t r = first; r < last; r++)
        for (int64_t k = 0; k < stride; k += VECTOR) {
            vec sum = {};
            for (int64_t j = 0; j < l->outputs; j++)
                sum += dz[r * row_stride(l->outputs) + j] * load(l->w + j * stride + k);
            store(dx + r * stride + k, derivative_v(below, load(x + r * stride + k), sum));
        }
}

/* A thread's sums over the batch. */
static int64_t narrow_scratch(const nn_layer *spec)
{ return row_stride(values(spec->in)) * (int64_t)sizeof(real); }

/* sum (n) = the sum over rows of dz times x, row after row as they lie in memory; four at a
 * time, as the sums are then read and written a quarter as often. */
static void sum_rows(real *sum, int64_t n, const real *dz, int64_t dz_row, const real *x,
                     int64_t x_row, int64_t rows)
{
    int64_t r = 0;
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (; r + 4 <= rows; r += 4) {
        const real *from = x + r * x_row, *e = dz + r * dz_row;
        for (int64_t k = 0; k < n; k += VECTOR) {
            vec total = load(sum + k);
            for (int i = 0; i < 4; i++)
                total += e[i * dz_row] * load(from + i * x_row + k);
            store(sum + k, total);
        }
    }
    for (; r < rows; r++)
        for (int64_t k = 0; k < n; k += VECTOR)
            store(sum + k, load(sum + k) + dz[r * dz_row] * load(x + r * x_row + k));
}

/* dw (o,i) = dz' x, or the step it makes */
static void narrow_backward_weight(layer *l, const real *dz, const real *x, const batch *b)
{
    int64_t stride = row_stride(l->inputs), first, last;
    real *sum = b->scratch;
    step_constants step;
    if (b->update)
        step = step_of(b->update, 1);
    thread_share(b->team, stride, VECTOR, &first, &last);
    for (int64_t j = 0; j < l->outputs && first < last; j++) {
        sum_rows(sum, last - first, dz + j, row_stride(l->outputs), x + first, stride, b->n);
        for (int64_t k = max_i64(first, l->inputs); k < last; k++)
            sum[k - first] = 0;         /* past the row x may hold f(0); the weight stays 0 there */
        for (int64_t k = first, at = j * stride + first; k < last; k += VECTOR, at += VECTOR)
            if (b->update)
                step_v(l->w + at, load(sum + k - first), l->m ? l->m + at : NULL,
                       l->v ? l->v + at : NULL, &step);
            else
                store(l->dw + at, load(sum + k - first));
    }
}
