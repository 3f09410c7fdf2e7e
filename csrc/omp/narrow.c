/* narrow.c - fully connected layers of a few outputs, such as the last one of a regression: vectors run along the
 * inputs, the weight is (o, row_stride(i)), and each output is one dot product. Bound by reading x once a pass.
 */
#include "../core.h"
#include "vector.h"

static int is_narrow(const nn_layer *spec)
{
    int64_t i = values(spec->in), o = values(spec->out);
    return o == 1 || (o * 4 <= VECTOR && i >= 4 * VECTOR);
}

/* out (n,o) = f(x (n,i) w' + b); four sums side by side hide the latency of the additions */
static void narrow_forward(layer *l, real *out, const real *x, const batch *b)
{
    int64_t stride = row_stride(l->inputs), first, last;
    team_share(b->team, b->n, 1, &first, &last);
    for (int64_t r = first; r < last; r++) {
        real *to = out + r * row_stride(l->outputs);
        for (int64_t j = 0; j < l->outputs; j++) {
            const real *w = l->w + j * stride, *from = x + r * stride;
            vec sum[4] = {{0}};
            int64_t k = 0;
            for (; k + 4 * VECTOR <= stride; k += 4 * VECTOR)
                for (int s = 0; s < 4; s++)
                    sum[s] += load(from + k + s * VECTOR) * load(w + k + s * VECTOR);
            for (; k < stride; k += VECTOR)
                sum[0] += load(from + k) * load(w + k);
            to[j] = sum_of((sum[0] + sum[1]) + (sum[2] + sum[3])) + l->b[j];
        }
    }
    activation_forward(out, l->spec.activation, first, last, l->outputs);
}

/* dx (n,i) = dz (n,o) w f'(x) */
static void narrow_backward_input(layer *l, real *dx, const real *dz, const real *x, int below, const batch *b)
{
    int64_t stride = row_stride(l->inputs), first, last;
    team_share(b->team, b->n, 1, &first, &last);
    for (int64_t r = first; r < last; r++)
        for (int64_t k = 0; k < stride; k += VECTOR) {
            vec sum = {};
            for (int64_t j = 0; j < l->outputs; j++)
                sum += dz[r * row_stride(l->outputs) + j] * load(l->w + j * stride + k);
            store(dx + r * stride + k, slope_v(below, load(x + r * stride + k), sum));
        }
}

/* dw (o,i) = dz' x, or the step it makes; eight vectors of one output's row at a time */
static void narrow_backward_weight(layer *l, const real *dz, const real *x, const batch *b)
{
    enum { WIDE = 8 };
    int64_t stride = row_stride(l->inputs), first, last;
    step_constants step;
    if (b->update)
        step = step_of(b->update, 1);
    team_share(b->team, stride, WIDE * VECTOR, &first, &last);
    for (int64_t j = 0; j < l->outputs; j++)
        for (int64_t k = first; k < last; k += WIDE * VECTOR) {
            int wide = (int)min_i64(WIDE, (last - k) / VECTOR);
            vec sum[WIDE] = {{0}};
            for (int64_t r = 0; r < b->n; r++) {
                real e = dz[r * row_stride(l->outputs) + j];
                if (wide == WIDE)
                    for (int s = 0; s < WIDE; s++)
                        sum[s] += e * load(x + r * stride + k + s * VECTOR);
                else
                    for (int s = 0; s < wide; s++)
                        sum[s] += e * load(x + r * stride + k + s * VECTOR);
            }
            for (int s = 0; s < wide; s++) {
                int64_t at = j * stride + k + s * VECTOR;
                if (b->update)
                    step_v(l->w + at, sum[s], l->m ? l->m + at : NULL, l->v ? l->v + at : NULL, &step);
                else
                    store(l->dw + at, sum[s]);
            }
        }
}
