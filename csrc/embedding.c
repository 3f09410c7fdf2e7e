/* embedding.c - the first layer of a network on a mixed table: numbers, gaps, pieces of a
 * number's axis, its waves, one-hot codes and rows of tables; tables and frequencies are
 * trained. Both builds share it. A code outside its column's values reads and trains nothing.
 *
 * The weight is the tables, one after another, the bias the frequencies of all waves. Each
 * thread forms the gradient of a range of each from all rows in order: the sums do not depend on
 * the number of threads.
 * uses: waves.c (encode_waves, add_turns)
 */
#include "core.h"
#include <math.h>
#include <string.h>

static int64_t column_outputs(const nn_column *c)
{
    switch (c->kind) {
    case NN_COLUMN_NUMBER: return 1 + c->pieces + 2 * c->waves;
    case NN_COLUMN_GAP: return 2 + c->pieces + 2 * c->waves;
    case NN_COLUMN_ONEHOT: return c->values;
    case NN_COLUMN_EMBEDDING: return c->width;
    }
    NOT_REACHED;
}

static int64_t table_values(const nn_column *c)
{
    return c->kind == NN_COLUMN_EMBEDDING ? (int64_t)c->values * c->width : 0;
}

static int64_t all_table_values(const nn_layer *spec)
{
    int64_t sum = 0;
    for (int32_t k = 0; k < spec->in[0]; k++)
        sum += table_values(&spec->columns[k]);
    return sum;
}

static int64_t all_waves(const nn_layer *spec)
{
    int64_t sum = 0;
    for (int32_t k = 0; k < spec->in[0]; k++)
        sum += spec->columns[k].waves;
    return sum;
}

/* The number that x stands for, of a column of numbers. */
static inline real number_of(real x, const nn_column *c)
{
    return c->kind == NN_COLUMN_GAP && x != x ? (real)c->fill : x;
}

/* The code that x stands for, or -1 where the column has none such. */
static inline int64_t code_of(real x, const nn_column *c)
{ return x >= 0 && x < (real)c->values ? (int64_t)x : -1; }

/* ---- forward ---- */

/* share[i] = how much of piece i lies below v. A loop without branches: compilers make vectors
 * of it. */
static inline void encode_pieces(real *restrict share, real v, const nn_column *c)
{
    const real *restrict edges = c->edges;
    for (int32_t i = 0; i < c->pieces; i++) {
        real low = edges[i], high = edges[i + 1], inside = (v - low) / (high - low);
        share[i] = v >= high ? 1 : v <= low ? 0 : inside;
    }
}

/* out = pieces and waves of a number */
static inline void encode_number(real *out, real v, const nn_column *c, const real *frequencies)
{
    encode_pieces(out, v, c);
    out += c->pieces;
    if (c->waves)
        encode_waves(out, out + c->waves, v, frequencies, c->waves);
}

/* out = what one value of a row becomes; it was 0 before. learned: of the column, its table or
 * its frequencies */
static inline void encode_value(real *out, real x, const nn_column *c, const real *learned)
{
    int64_t code;
    switch (c->kind) {
    case NN_COLUMN_NUMBER:
        out[0] = x;
        encode_number(out + 1, x, c, learned);
        return;
    case NN_COLUMN_GAP:
        out[0] = number_of(x, c);
        out[1] = x != x;
        encode_number(out + 2, out[0], c, learned);
        return;
    case NN_COLUMN_ONEHOT:
        if ((code = code_of(x, c)) >= 0)
            out[code] = 1;
        return;
    case NN_COLUMN_EMBEDDING:
        if ((code = code_of(x, c)) >= 0)
            for (int32_t j = 0; j < c->width; j++)
                out[j] = learned[code * c->width + j];
        return;
    }
    NOT_REACHED;
}

static void embedding_forward(layer *l, real *out, const real *x, const batch *b)
{
    int64_t first, last, stride = row_stride(l->outputs);
    const nn_column *columns = l->spec.columns;
    thread_share(b->team, b->n, 1, &first, &last);
    memset(out + first * stride, 0, (size_t)((last - first) * stride) * sizeof *out);
    for (int64_t r = first; r < last; r++) {
        const real *row = x + r * row_stride(l->inputs), *table = l->w, *frequencies = l->b;
        real *to = out + r * stride;
        for (int64_t k = 0; k < l->inputs; k++) {
            encode_value(to, row[k], &columns[k],
                         columns[k].kind == NN_COLUMN_EMBEDDING ? table : frequencies);
            to += column_outputs(&columns[k]);
            table += table_values(&columns[k]), frequencies += columns[k].waves;
        }
    }
}

/* ---- backward ---- */

/* The gradient of the turns of wave i of a number, from its outputs and theirs: both begin at
 * the sine of wave 0. */
static inline real turns_gradient(const real *dz, const real *out, int32_t i, int32_t waves)
{
    return (real)(2 * M_PI) * (dz[i] * out[waves + i] - dz[waves + i] * out[i]);
}

/* The gradient of a value of a row from its outputs and theirs. Only numbers have one; an edge
 * is in no piece. */
static inline real value_gradient(const real *dz, const real *out, real x, const nn_column *c,
                                  const real *frequencies)
{
    const real *edges = c->edges;
    int32_t at = c->kind == NN_COLUMN_GAP ? 2 : 1;
    real sum = dz[0];
    if (c->kind != NN_COLUMN_NUMBER && (c->kind != NN_COLUMN_GAP || x != x))
        return 0;
    for (int32_t i = 0; i < c->pieces; i++)
        if (edges[i] < x && x < edges[i + 1])
            sum += dz[at + i] / (edges[i + 1] - edges[i]);
    at += c->pieces;
    for (int32_t i = 0; i < c->waves; i++)
        sum += frequencies[i] * turns_gradient(dz + at, out + at, i, c->waves);
    return sum;
}

/* The layer is the first: there is no activation below. */
static void embedding_backward_input(layer *l, real *dx, const real *dz, const real *x,
                                     nn_activation below, const batch *b)
{
    int64_t first, last, stride = row_stride(l->inputs);
    const nn_column *columns = l->spec.columns;
    (void)below;
    thread_share(b->team, b->n, 1, &first, &last);
    memset(dx + first * stride, 0, (size_t)((last - first) * stride) * sizeof *dx);
    for (int64_t r = first; r < last; r++) {
        const real *from = dz + r * row_stride(l->outputs),
                   *out = l->out + r * row_stride(l->outputs);
        const real *row = x + r * stride, *frequencies = l->b;
        for (int64_t k = 0; k < l->inputs; k++) {
            dx[r * stride + k] = value_gradient(from, out, row[k], &columns[k], frequencies);
            from += column_outputs(&columns[k]), out += column_outputs(&columns[k]),
                frequencies += columns[k].waves;
        }
    }
}

/* Gradients while they are added up: the fast build's own, in the plain build doubles, of the
 * tables first. */
#ifdef NN_FAST
static gradient_sum *table_sums(const layer *l) { return l->dw; }
static gradient_sum *wave_sums(const layer *l) { return l->db; }
#else
static gradient_sum *table_sums(const layer *l) { return l->work; }
static gradient_sum *wave_sums(const layer *l)
{ return table_sums(l) + all_table_values(&l->spec); }
static int64_t embedding_workspace(const nn_layer *spec, int64_t n, int threads)
{
    (void)n, (void)threads;
    return (all_table_values(spec) + all_waves(spec)) * (int64_t)sizeof(gradient_sum);
}
#endif

/* Adds a row's part to the sums [first, last) of the tables. */
static inline void add_row(gradient_sum *sums, const layer *l, const real *dz, const real *out,
                           const real *x, int64_t first, int64_t last)
{
    int64_t table = 0;
    (void)out;
    for (int64_t k = 0; k < l->inputs; k++) {
        const nn_column *c = &l->spec.columns[k];
        int64_t code = c->kind == NN_COLUMN_EMBEDDING ? code_of(x[k], c) : -1,
                at = table + code * c->width;
        if (code >= 0)
            for (int64_t j = max_i64(0, first - at); j < min_i64(c->width, last - at); j++)
                sums[at + j] += dz[j];
        dz += column_outputs(c), table += table_values(c);
    }
}

/* Adds a row's part to the sums [first, last) of the frequencies. */
static inline void add_waves(gradient_sum *sums, const layer *l, const real *dz, const real *out,
                             const real *x, int64_t first, int64_t last)
{
    for (int64_t k = 0, at = 0; k < l->inputs && at < last; k++) {
        const nn_column *c = &l->spec.columns[k];
        int64_t outputs = column_outputs(c), sines = outputs - 2 * c->waves;
        int32_t from = (int32_t)max_i64(0, first - at), to = (int32_t)min_i64(c->waves, last - at);
        if (from < to)
            add_turns(sums + at, number_of(x[k], c), dz + sines, out + sines, from, to, c->waves);
        dz += outputs, out += outputs, at += c->waves;
    }
}

/* to[n] = a thread's share of the gradients that `add` adds up in `sums`. */
static inline void sum_of_rows(real *to, gradient_sum *sums, int64_t n,
                               void (*add)(gradient_sum *, const layer *, const real *,
                                           const real *, const real *, int64_t, int64_t),
                               const layer *l, const real *dz, const real *x, const batch *b)
{
    int64_t first, last, stride = row_stride(l->outputs);
    thread_share(b->team, n, ALIGNMENT / (int64_t)sizeof(real), &first, &last);
    if (first == last)
        return;
    memset(sums + first, 0, (size_t)(last - first) * sizeof *sums);
    for (int64_t r = 0; r < b->n; r++)
        add(sums, l, dz + r * stride, l->out + r * stride, x + r * row_stride(l->inputs), first,
            last);
#ifdef NN_FAST
    (void)to;                           /* sums */
#else
    for (int64_t i = first; i < last; i++)
        to[i] = (real)sums[i];
#endif
}

static int embedding_gradient(layer *l, const real *dz, const real *x, const batch *b)
{
    sum_of_rows(l->dw, table_sums(l), all_table_values(&l->spec), add_row, l, dz, x, b);
    sum_of_rows(l->db, wave_sums(l), all_waves(&l->spec), add_waves, l, dz, x, b);
    return 0;
}

/* ---- the tables ---- */

static int64_t embedding_weights(const nn_layer *spec)
{ return row_stride(all_table_values(spec)); }

/* In and out: the core keeps them as the caller does. */
static void embedding_copy(const layer *l, real *to, const real *from)
{
    memcpy(to, from, (size_t)all_table_values(&l->spec) * sizeof(real));
}

/* Those from the first table or wave to the last. */
static void embedding_gradients_read(const nn_layer *spec, int64_t *from, int64_t *to)
{
    int64_t at = 0;
    *from = *to = 0;
    for (int32_t k = 0; k < spec->in[0]; k++) {
        const nn_column *c = &spec->columns[k];
        int64_t end = at + column_outputs(c),
                learned = c->kind == NN_COLUMN_EMBEDDING ? c->width : 2 * c->waves;
        if (learned) {
            *from = *to ? *from : end - learned;
            *to = end;
        }
        at = end;
    }
}

static const char *embedding_route(const nn_layer *spec, pass_kind pass, const batch *b)
{
    (void)pass, (void)b;
    if (all_waves(spec))
        return all_table_values(spec) ? "columns, waves and tables" : "columns and waves";
    return all_table_values(spec) ? "columns and tables" : "columns";
}

static const layer_kind embedding_kind = {
    .forward = embedding_forward, .backward_input = embedding_backward_input,
    .flops = embedding_flops,
    .parameters = {
        .size = embedding_weights, .import = embedding_copy, .export = embedding_copy,
        .gradient = embedding_gradient,
        .biases = all_waves,            /* their frequencies */
    },
#ifndef NN_FAST
    .memory = {.workspace = embedding_workspace},
#endif
    .fast = {.gradients_read = embedding_gradients_read, .route = embedding_route},
};
