/* dense_pair.c - a wide dense layer below a single output: both layers' gradients in one pass over the wide layer's
 * output. */
#include "../core.h"
#include "nn_aux.h"

/* Under a single output the gradient of a wide layer's output, dz w f'(a), is a few operations away from a: it is not
 * kept, but formed block by block where the product that gives the wide layer's weight's gradient asks for it. All else
 * that a's columns are needed for is done on the way: one pass over a instead of five. */
enum { FORMED = 2 * COLUMNS, FORMED_INPUTS = 1024 };    /* vectors at a time; fewer inputs stay in a cache */

typedef struct {
    layer *l, *below;
    int64_t n;
    const step_constants *weight_step, *bias_step;      /* NULL: gradients are kept */
} formed_gradient;

static int forms_gradient(const nn_layer *spec) { return values(spec->out) == 1 && values(spec->in) >= FORMED_INPUTS; }

/* Of the columns from k on: dz of rows [first, first+depth) to panels at `to`, as many vectors wide as `columns` says,
 * l's dw, and below's db */
INLINE void form_columns(const nn_activation activation, const int panels, const int columns, const formed_gradient *g,
                         real *to, int64_t first, int64_t depth, int64_t k)
{
    const int wide = panels * columns;
    layer *l = g->l, *below = g->below;
    int64_t stride = row_stride(l->inputs);
    vec w[FORMED], dw[FORMED], db[FORMED];
    for (int s = 0; s < wide; s++) {
        w[s] = load(l->w + k + s * VECTOR);
        dw[s] = first ? load(l->dw + k + s * VECTOR) : (vec){};
        db[s] = first ? load(below->db + k + s * VECTOR) : (vec){};
    }
    for (int64_t r = 0; r < depth; r++) {
        real dz = l->dz[(first + r) * row_stride(1)];
        for (int s = 0; s < wide; s++) {
            vec a = load(below->out + (first + r) * stride + k + s * VECTOR);
            vec d = derivative_v(activation, a, dz * w[s]);
            store(to + (s / columns * depth * columns + r * columns + s % columns) * VECTOR, d);
            dw[s] += dz * a;
            db[s] += d;
        }
    }
    for (int s = 0; s < wide; s++, k += VECTOR) {
        for (int64_t past = max_i64(k, l->inputs); past < k + VECTOR; past++)
            dw[s][past - k] = 0;        /* there a may be f(0) */
        if (g->weight_step) {
            step_v(l->w + k, dw[s], l->m ? l->m + k : NULL, l->v ? l->v + k : NULL, g->weight_step);
            step_v(below->b + k, db[s], below->bm ? below->bm + k : NULL, below->bv ? below->bv + k : NULL,
                   g->bias_step);
        } else {
            store(l->dw + k, dw[s]);
            store(below->db + k, db[s]);
        }
    }
}

#define FORM_COLUMNS(panels, columns) \
    FOR_ACTIVATION(g->below->spec.activation, form_columns, panels, columns, g, to + at * depth, first, depth, k + at)

/* For product.make_b */
static void form_gradient(void *source, real *to, int64_t first, int64_t depth, int64_t k, int64_t width)
{
    const formed_gradient *g = source;
    for (int64_t at = 0, lanes; at < width; at += lanes) {
        lanes = panel_width(width, at);
        if (at + 2 * PANEL <= width && panel_width(width, at + PANEL) == PANEL) {
            FORM_COLUMNS(2, COLUMNS)
            lanes = 2 * PANEL;
        } else if (lanes == 3 * VECTOR) {
            FORM_COLUMNS(1, 3)
        } else if (lanes == 2 * VECTOR) {
            FORM_COLUMNS(1, 2)
        } else {
            FORM_COLUMNS(1, 1)
        }
    }
}
