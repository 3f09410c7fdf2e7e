/* dense_scaled.c - the step of a dense layer whose inputs have trained scales: its weight is w = v
 * s, v takes a step, and so does the scale s of each input. Threads share the inputs.
 * uses: dense_narrow.c (is_narrow)
 */
#include "../core.h"
#include "nn_aux.h"

/* The scales that one thread steps: n of them in whole vectors, from input `first` on, of which
 * the first `inputs` belong to inputs and the others fill the last vector. */
typedef struct {
    real *excess, *m, *v, *g;
    int64_t first, n, inputs;
} scale_share;

static scale_share share_of_scales(const layer *l, const batch *b)
{
    int64_t stride = row_stride(l->inputs), first, last;
    thread_share(b->team, stride, ALIGNMENT / (int64_t)sizeof(real), &first, &last);
    real *row = l->scales + first;
    return (scale_share){
        row, row + stride, row + 2 * stride, row + 3 * stride, first, last - first,
        min_i64(last, l->inputs) - first,
    };
}

/* w and dw (n) of one input become v and its gradient; returns the scale's. */
INLINE real take_out_scale(real *w, real *dw, int64_t n, real scale)
{
    real inverse = 1 / scale;
    vec sum = {};
    for (int64_t j = 0; j < n; j += VECTOR) {
        vec v = load(w + j) * inverse, g = load(dw + j);
        sum += g * v;
        store(w + j, v);
        store(dw + j, g * scale);
    }
    return sum_of(sum);
}

/* The same for VECTOR inputs of a narrow weight (o, stride). */
INLINE vec take_out_scales(real *w, real *dw, int64_t outputs, int64_t stride, vec scale)
{
    vec inverse = 1 / scale, sum = {};
    for (int64_t at = 0; at < outputs * stride; at += stride) {
        vec v = load(w + at) * inverse, g = load(dw + at);
        sum += g * v;
        store(w + at, v);
        store(dw + at, g * scale);
    }
    return sum;
}

/* v and dv in the place of w and dw, and the gradients of the scales */
static void take_out(layer *l, const scale_share *s)
{
    int64_t stride = row_stride(l->inputs), width = row_stride(l->outputs);
    if (is_narrow(&l->spec)) {
        for (int64_t k = 0; k < s->n; k += VECTOR) {
            int64_t at = s->first + k;
            store(s->g + k, take_out_scales(l->w + at, l->dw + at, l->outputs, stride,
                                            1 + load(s->excess + k)));
        }
        return;
    }
    for (int64_t k = 0; k < s->inputs; k++) {
        int64_t at = (s->first + k) * width;
        s->g[k] = take_out_scale(l->w + at, l->dw + at, width, 1 + s->excess[k]);
    }
}

/* n values of v, from `at` on, take their step. */
static void step_run(layer *l, int64_t at, int64_t n, const update *u)
{
    optimizer_step(l->w + at, l->dw + at, l->m ? l->m + at : NULL, l->v ? l->v + at : NULL, n, 1,
                   u);
}

static void step_weight(layer *l, const scale_share *s, const update *u)
{
    int64_t stride = row_stride(l->inputs), width = row_stride(l->outputs);
    if (is_narrow(&l->spec)) {
        for (int64_t j = 0; j < l->outputs; j++)
            step_run(l, j * stride + s->first, s->n, u);
        return;
    }
    step_run(l, s->first * width, s->inputs * width, u);
}

/* w = v s */
static void put_in(layer *l, const scale_share *s)
{
    int64_t stride = row_stride(l->inputs), width = row_stride(l->outputs);
    if (is_narrow(&l->spec)) {
        for (int64_t j = 0; j < l->outputs; j++)
            for (int64_t k = 0; k < s->n; k += VECTOR) {
                real *w = l->w + j * stride + s->first + k;
                store(w, load(w) * (1 + load(s->excess + k)));
            }
        return;
    }
    for (int64_t k = 0; k < s->inputs; k++)
        for (int64_t j = 0; j < width; j += VECTOR) {
            real *w = l->w + (s->first + k) * width + j;
            store(w, load(w) * (1 + s->excess[k]));
        }
}

static void dense_scaled_step(layer *l, const batch *b)
{
    scale_share s = share_of_scales(l, b);
    update of_scales = *b->update;
    of_scales.rate *= of_scales.scale_rate;
    if (s.n <= 0)
        return;
    take_out(l, &s);
    optimizer_step(s.excess, s.g, s.m, s.v, s.n, 0, &of_scales);
    for (int64_t k = 0; k < s.n; k += VECTOR) {
        vec excess = load(s.excess + k), least = splat((real)LEAST_EXCESS);
        store(s.excess + k, pick(excess < least, least, excess));
    }
    step_weight(l, &s, b->update);
    put_in(l, &s);
}
