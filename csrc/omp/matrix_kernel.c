/* matrix_kernel.c - the matrix product's description, and the micro-kernel: a tile of rows x
 * vectors of sums, MOST_SUMS vectors in all, stays in registers while the loop runs over k; then
 * its epilogue. matrix.c brings the operands.
 */
#include "../core.h"
#include "nn_aux.h"

#if VECTOR_BYTES == 64
/* 24 sums of 32 registers, from as few loads as can be; TALL: rows where no panel is wider than
 * two vectors */
enum { ROWS = 8, COLUMNS = 3, TALL = 12 };
#else
enum { ROWS = 6, COLUMNS = 2, TALL = 6 };       /* 12 sums of 16 registers */
#endif
enum { MOST_SUMS = ROWS * COLUMNS, PANEL = COLUMNS * VECTOR };
/* steps of the sums that a is fetched ahead: where it lies in long columns, no processor
 * foresees the next line */
enum { AHEAD = 32 };

enum { MOST_FUSED_ROWS = 1024 };        /* longest sums that a STEP may have: blocks get as deep */

/* The epilogue: how a finished tile of sums is stored. */
typedef enum { KEEP, ACTIVATE, DERIVATIVE, STEP } end_kind;
typedef struct {
    end_kind kind;
    /* ACTIVATE: c = f(sums + bias); DERIVATIVE: c = sums * f'(x) */
    nn_activation activation;
    const real *bias;
    const real *x;                      /* (m, x_row) */
    int64_t x_row;
    /* STEP: c takes a step, the sums are its gradient; m, v lie as c does */
    const step_constants *step;
    real *m, *v;
} epilogue;

/* One product c (m,n) = a (m,k) b (k,n). a is read at a[i * a_row + p * a_col], b at b[p * b_row
 * + j * b_col];
 * one of b_row and b_col is 1. Rows of c are dense. */
typedef struct {
    int64_t m, n, k;
    const real *a;
    int64_t a_row, a_col;
    const real *b;
    /* b_width: columns of b; the rest up to n count as 0; 0: all */
    int64_t b_row, b_col, b_width;
    real *c;
    int64_t c_row;
    epilogue end;
} product;

/* ---- rarer ends, out of line ---- */

INLINE void activate_sums(const nn_activation activation, const real *sums, int rows, int width,
                          real *c, int64_t c_row, const real *bias)
{
    for (int r = 0; r < rows; r++)
        for (int s = 0; s < width; s += VECTOR)
            store(c + r * c_row + s,
                  activation_v(activation, load(sums + r * width + s) + load(bias + s)));
}

INLINE void derivative_of_sums(const nn_activation activation, const real *sums, int rows,
                               int width, real *c, int64_t c_row, const real *x, int64_t x_row)
{
    for (int r = 0; r < rows; r++)
        for (int s = 0; s < width; s += VECTOR)
            store(c + r * c_row + s,
                  derivative_v(activation, load(x + r * x_row + s), load(sums + r * width + s)));
}

INLINE void step_of_sums(const real *sums, int rows, int width, real *c, int64_t i, int64_t j,
                         const product *p)
{
    const epilogue *end = &p->end;
    for (int r = 0; r < rows; r++)
        for (int s = 0; s < width; s += VECTOR) {
            int64_t at = (i + r) * p->c_row + j + s;
            step_v(c + r * p->c_row + s, load(sums + r * width + s), end->m ? end->m + at : NULL,
                   end->v ? end->v + at : NULL, end->step);
        }
}

/* The rarer ends of a tile, out of line: sums (rows, width) lie on the stack. */
static void finish_out_of_line(const real *sums, int rows, int width, real *c, int64_t i, int64_t j,
                               const product *p)
{
    const epilogue *end = &p->end;
    const real *x = end->x ? end->x + i * end->x_row + j : NULL;
    switch (end->kind) {
    case ACTIVATE:
        FOR_ACTIVATION(end->activation, activate_sums, sums, rows, width, c, p->c_row,
                       end->bias + j)
        return;
    case DERIVATIVE:
        FOR_ACTIVATION(end->activation, derivative_of_sums, sums, rows, width, c, p->c_row, x,
                       end->x_row)
        return;
    case STEP:
        step_of_sums(sums, rows, width, c, i, j, p);
        return;
    case KEEP: break;                   /* the callers store these themselves */
    }
    NOT_REACHED;
}

INLINE void fetch(const int rows, const int columns, const real *from, int64_t row,
                  const int to_write)
{
    #pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        #pragma GCC unroll 3
        for (int s = 0; s < columns; s++)
            if (to_write)
                __builtin_prefetch(from + r * row + s * VECTOR, 1);
            else
                __builtin_prefetch(from + r * row + s * VECTOR);
}

/* Prefetches the values that a tile's sums meet at the end. Not a c that is only written:
 * another thread may have read it last, and the write takes the line from that core, prefetched
 * or not. */
INLINE void fetch_end(const int rows, const int columns, const real *c, int64_t i, int64_t j,
                      int more, int last, const product *p)
{
    const epilogue *end = &p->end;
    int64_t at = i * p->c_row + j;
    if (more || (last && end->kind == STEP))
        fetch(rows, columns, c, p->c_row, 1);
    if (last && end->kind == DERIVATIVE)
        fetch(rows, columns, end->x + i * end->x_row + j, end->x_row, 0);
    if (last && end->kind == STEP && end->m)
        fetch(rows, columns, end->m + at, p->c_row, 1);
    if (last && end->kind == STEP && end->v)
        fetch(rows, columns, end->v + at, p->c_row, 1);
}

/* sum[r * columns + s] += a[r, :k] b[:k, s]. Unrolled: counting steps would take places of FMAs
 * in the pipeline. */
INLINE void add_products(const int rows, const int columns, vec sum[MOST_SUMS], int64_t k,
                         const real *a, const int64_t a_row, const int64_t a_col, const real *b,
                         int64_t b_row)
{
    const real *base[(TALL + 2) / 3];       /* one address for three rows: registers are few */
    #pragma GCC unroll 4
    for (int r = 0; r < rows; r += 3)
        base[r / 3] = a + r * a_row;
    #pragma GCC unroll 4
    for (int64_t q = 0; q < k; q++, b += b_row) {
        vec right[COLUMNS];
        if (a_row == 1 && a_col != rows)
            __builtin_prefetch(a + (q + AHEAD) * a_col);
        #pragma GCC unroll 3
        for (int s = 0; s < columns; s++)
            right[s] = load(b + s * VECTOR);
        #pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            vec left = splat(base[r / 3][r % 3 * a_row + q * a_col]);
            #pragma GCC unroll 3
            for (int s = 0; s < columns; s++)
                sum[r * columns + s] += left * right[s];
        }
    }
}

/* ---- the ends of a tile: what becomes of its sums while they are still in registers ---- */

/* c = the ends of sums that need no others: the sums; ACTIVATE: with the bias, but at least 0
 * for relu; DERIVATIVE: of relu, the sums where x > 0, else 0; STEP: of sgd without momentum,
 * the one optimiser without moments. */
INLINE void end_tile(const int rows, const int columns, const end_kind kind,
                     const vec sum[MOST_SUMS], real *c, int64_t c_row, int64_t i, int64_t j,
                     const epilogue *end)
{
    const real *x = kind == DERIVATIVE ? end->x + i * end->x_row + j : NULL;
    const real floor = end->activation == NN_RELU ? 0 : -(real)INFINITY;
    #pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        #pragma GCC unroll 3
        for (int s = 0; s < columns; s++) {
            real *to = c + r * c_row + s * VECTOR;
            vec value = sum[r * columns + s];
            if (kind == ACTIVATE) {
                vec z = value + load(end->bias + j + s * VECTOR);
                value = pick(z <= floor, splat(floor), z);
            } else if (kind == DERIVATIVE) {
                value = (vec)((load(x + r * end->x_row + s * VECTOR) > 0) & (ivec)value);
            } else if (kind == STEP) {
                value = load(to) - (end->step->decay * load(to) + end->step->rate * value);
            }
            store(to, value);
        }
}

/* The end for the sums of a tile at row i and column j of c. */
INLINE void finish_tile(const int rows, const int columns, const vec sum[MOST_SUMS], real *c,
                        int64_t i, int64_t j, int last, const product *p)
{
    const epilogue *end = &p->end;
    const end_kind kind = last ? end->kind : KEEP;
    if (kind == KEEP) {
        end_tile(rows, columns, KEEP, sum, c, p->c_row, i, j, end);
    } else if (kind == ACTIVATE && (end->activation == NN_LINEAR || end->activation == NN_RELU)) {
        end_tile(rows, columns, ACTIVATE, sum, c, p->c_row, i, j, end);
    } else if (kind == DERIVATIVE && end->activation == NN_RELU) {
        end_tile(rows, columns, DERIVATIVE, sum, c, p->c_row, i, j, end);
    } else if (kind == STEP && !end->m) {
        end_tile(rows, columns, STEP, sum, c, p->c_row, i, j, end);
    } else {
        real sums[MOST_SUMS * VECTOR];
        end_tile(rows, columns, KEEP, sum, sums, columns * VECTOR, i, j, end);
        finish_out_of_line(sums, rows, columns * VECTOR, c, i, j, p);
    }
}

/* ---- the micro-kernel ---- */

/* `rows` x `columns` vectors of c (m, n) at row i and column j. `more`: c holds the sums so far;
 * `last`: these are the last products of the sums. */
INLINE void tile(const int rows, const int columns, int64_t k, const real *a, int64_t a_row,
                 int64_t a_col, const real *b, int64_t b_row, real *c, int64_t i, int64_t j,
                 int more, int last, const product *p)
{
    vec sum[MOST_SUMS];
    const int64_t c_row = p->c_row;
    #pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        #pragma GCC unroll 3
        for (int s = 0; s < columns; s++)
            sum[r * columns + s] = (vec){};
    fetch_end(rows, columns, c, i, j, more, last, p);
    if (a_row == 1 && a_col == rows)        /* a packed: its distances fit into the instructions */
        add_products(rows, columns, sum, k, a, 1, rows, b, b_row);
    else if (a_col == 1)
        add_products(rows, columns, sum, k, a, a_row, 1, b, b_row);
    else
        add_products(rows, columns, sum, k, a, 1, a_col, b, b_row);
    if (more)
        #pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
            #pragma GCC unroll 3
            for (int s = 0; s < columns; s++)
                sum[r * columns + s] += load(c + r * c_row + s * VECTOR);
    finish_tile(rows, columns, sum, c, i, j, last, p);
}

#define TILE(rows, columns) \
    static void tile_##rows##_##columns(int64_t k, const real *a, int64_t a_row, int64_t a_col, \
                                        const real *b, int64_t b_row, real *c, int64_t i, \
                                        int64_t j, int more, int last, \
                                        const product *p) \
    { \
        tile(rows, columns, k, a, a_row, a_col, b, b_row, c, i, j, more, last, p); \
    }
typedef void tile_function(int64_t, const real *, int64_t, int64_t, const real *, int64_t, real *,
                           int64_t, int64_t, int, int, const product *);
#define TILES(rows) TILE(rows, 1) TILE(rows, 2)
#define ROW_OF(rows) {tile_##rows##_1, tile_##rows##_2}
#if VECTOR_BYTES == 64
#define WIDE_TILES(rows) TILES(rows) TILE(rows, 3)
#define WIDE_ROW_OF(rows) {tile_##rows##_1, tile_##rows##_2, tile_##rows##_3}
WIDE_TILES(7) WIDE_TILES(8) TILES(9) TILES(10) TILES(11) TILES(12)
#else
#define WIDE_TILES(rows) TILES(rows)
#define WIDE_ROW_OF(rows) ROW_OF(rows)
#endif
WIDE_TILES(1) WIDE_TILES(2) WIDE_TILES(3) WIDE_TILES(4) WIDE_TILES(5) WIDE_TILES(6)
static tile_function *const tiles[TALL][COLUMNS] = {
    WIDE_ROW_OF(1), WIDE_ROW_OF(2), WIDE_ROW_OF(3), WIDE_ROW_OF(4), WIDE_ROW_OF(5), WIDE_ROW_OF(6),
#if VECTOR_BYTES == 64
    WIDE_ROW_OF(7), WIDE_ROW_OF(8), ROW_OF(9), ROW_OF(10), ROW_OF(11), ROW_OF(12),
#endif
};
