/* matrix.c - the matrix product, fast. All of it rests on one micro-kernel: a tile of up to ROWS x (COLUMNS * VECTOR)
 * sums kept in registers while the common dimension runs by. Each sum runs over k in index order, whatever the
 * block sizes, so neither blocks nor threads change a bit.
 *
 * Small operands are read where they lie. Large ones are copied block by block into the order in which the kernel
 * reads them (Goto and van de Geijn 2008; BLIS): DEPTH x WIDTH of b for the outer cache, HEIGHT x DEPTH of a for
 * the second-level one.
 */
#include "../core.h"
#include "vector.h"

#if VECTOR_BYTES == 64
enum { ROWS = 12, COLUMNS = 2 };        /* 24 sums of 32 registers */
#else
enum { ROWS = 6, COLUMNS = 2 };         /* 12 sums of 16 registers */
#endif
enum { DEPTH = 384, HEIGHT = 20 * ROWS, WIDTH = 64 * COLUMNS * VECTOR > 1024 ? 1024 : 64 * COLUMNS * VECTOR };
enum { PANEL = COLUMNS * VECTOR, FEW_ROWS = 40, NARROW = 4 * PANEL };
enum { ROWS_COPIED = (ROWS + VECTOR - 1) / VECTOR * VECTOR };
enum { SMALL_BYTES = 96 * 1024, CLOSE_BYTES = 1024 };   /* operands up to this size, or whose rows lie no further
                                         * apart, are read where they lie: few pages, no set of the cache overused */
enum { MOST_FUSED_ROWS = 1024 };        /* longest sums that a STEP may have: blocks get as deep */

/* What becomes of a finished tile of sums. */
enum { KEEP, ACTIVATE, SLOPE, STEP };
typedef struct {
    int kind;
    int activation;                     /* ACTIVATE: c = f(sums + bias); SLOPE: c = sums * f'(x) */
    const real *bias;
    const real *x;                      /* (m, x_row) */
    int64_t x_row;
    const step_constants *step;         /* STEP: c takes a step, the sums are its gradient; m, v lie as c does */
    real *m, *v;
} epilogue;

/* One product c (m,n) = a (m,k) b (k,n). a is read at a[i * a_row + p * a_col], b at b[p * b_row + j * b_col];
 * one of b_row and b_col is 1. Rows of c are dense. */
typedef struct {
    int64_t m, n, k;
    const real *a;
    int64_t a_row, a_col;
    const real *b;
    int64_t b_row, b_col, b_width;      /* b_width: columns of b there are, the rest up to n count as 0; 0: all */
    real *c;
    int64_t c_row;
    epilogue end;
} product;

/* ---- the micro-kernel ---- */

INLINE void activate_sums(const int activation, const real *sums, int rows, int width, real *c, int64_t c_row,
                          const real *bias)
{
    for (int r = 0; r < rows; r++)
        for (int s = 0; s < width; s += VECTOR)
            store(c + r * c_row + s, activation_v(activation, load(sums + r * width + s) + load(bias + s)));
}

INLINE void slope_sums(const int activation, const real *sums, int rows, int width, real *c, int64_t c_row,
                       const real *x, int64_t x_row)
{
    for (int r = 0; r < rows; r++)
        for (int s = 0; s < width; s += VECTOR)
            store(c + r * c_row + s, slope_v(activation, load(x + r * x_row + s), load(sums + r * width + s)));
}

/* The rarer ends of a tile, out of line: sums (rows, width) lie on the stack. */
static void finish_slowly(const real *sums, int rows, int width, real *c, int64_t i, int64_t j, const product *p)
{
    const epilogue *end = &p->end;
    const real *x = end->x ? end->x + i * end->x_row + j : NULL;
    if (end->kind == ACTIVATE)
        FOR_ACTIVATION(end->activation, activate_sums, sums, rows, width, c, p->c_row, end->bias + j)
    else if (end->kind == SLOPE)
        FOR_ACTIVATION(end->activation, slope_sums, sums, rows, width, c, p->c_row, x, end->x_row)
    else
        for (int r = 0; r < rows; r++)
            for (int s = 0; s < width; s += VECTOR) {
                int64_t at = (i + r) * p->c_row + j + s;
                step_v(c + r * p->c_row + s, load(sums + r * width + s), end->m ? end->m + at : NULL,
                       end->v ? end->v + at : NULL, end->step);
            }
}

/* rows x columns vectors of c, from row i and column j of the product on; `more`: c holds the sums so far,
 * `last`: these are the last products of the sums. */
INLINE void tile(const int rows, const int columns, int64_t k, const real *a, int64_t a_row, int64_t a_col,
                 const real *b, int64_t b_row, real *c, int64_t i, int64_t j, int more, int last, const product *p)
{
    vec sum[ROWS][COLUMNS];
    const int64_t c_row = p->c_row;
    const epilogue *end = &p->end;
    #pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        #pragma GCC unroll 2
        for (int s = 0; s < columns; s++)
            sum[r][s] = more ? load(c + r * c_row + s * VECTOR) : (vec){};
    for (int64_t q = 0; q < k; q++) {
        vec right[COLUMNS];
        #pragma GCC unroll 2
        for (int s = 0; s < columns; s++)
            right[s] = load(b + q * b_row + s * VECTOR);
        #pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            vec left = splat(a[r * a_row + q * a_col]);
            #pragma GCC unroll 2
            for (int s = 0; s < columns; s++)
                sum[r][s] += left * right[s];
        }
    }
    int kind = last ? end->kind : KEEP;
    if (kind == KEEP) {
        #pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
            #pragma GCC unroll 2
            for (int s = 0; s < columns; s++)
                store(c + r * c_row + s * VECTOR, sum[r][s]);
    } else if (kind == ACTIVATE && (end->activation == NN_LINEAR || end->activation == NN_RELU)) {
        real floor = end->activation == NN_RELU ? 0 : -(real)INFINITY;
        #pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
            #pragma GCC unroll 2
            for (int s = 0; s < columns; s++) {
                vec z = sum[r][s] + load(end->bias + j + s * VECTOR);
                store(c + r * c_row + s * VECTOR, pick(z <= floor, splat(floor), z));
            }
    } else if (kind == SLOPE && end->activation == NN_RELU) {
        #pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
            #pragma GCC unroll 2
            for (int s = 0; s < columns; s++) {
                vec x = load(end->x + (i + r) * end->x_row + j + s * VECTOR);
                store(c + r * c_row + s * VECTOR, (vec)((x > 0) & (ivec)sum[r][s]));
            }
    } else if (kind == STEP && !end->m) {
        #pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
            #pragma GCC unroll 2
            for (int s = 0; s < columns; s++) {
                real *w = c + r * c_row + s * VECTOR;
                store(w, load(w) - (end->step->decay * load(w) + end->step->rate * sum[r][s]));
            }
    } else {
        real sums[ROWS * PANEL];
        #pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
            #pragma GCC unroll 2
            for (int s = 0; s < columns; s++)
                store(sums + (r * columns + s) * VECTOR, sum[r][s]);
        finish_slowly(sums, rows, columns * VECTOR, c, i, j, p);
    }
}

#define TILE(rows, columns) \
    static void tile_##rows##_##columns(int64_t k, const real *a, int64_t a_row, int64_t a_col, const real *b, \
                                        int64_t b_row, real *c, int64_t i, int64_t j, int more, int last, \
                                        const product *p) \
    { \
        tile(rows, columns, k, a, a_row, a_col, b, b_row, c, i, j, more, last, p); \
    }
typedef void tile_function(int64_t, const real *, int64_t, int64_t, const real *, int64_t, real *, int64_t, int64_t,
                           int, int, const product *);
#define TILES(rows) TILE(rows, 1) TILE(rows, 2)
#define ROW_OF(rows) {tile_##rows##_1, tile_##rows##_2}
TILES(1) TILES(2) TILES(3) TILES(4) TILES(5) TILES(6)
#if VECTOR_BYTES == 64
TILES(7) TILES(8) TILES(9) TILES(10) TILES(11) TILES(12)
#endif
static tile_function *const tiles[ROWS][COLUMNS] = {
    ROW_OF(1), ROW_OF(2), ROW_OF(3), ROW_OF(4), ROW_OF(5), ROW_OF(6),
#if VECTOR_BYTES == 64
    ROW_OF(7), ROW_OF(8), ROW_OF(9), ROW_OF(10), ROW_OF(11), ROW_OF(12),
#endif
};

/* ---- blocks ---- */

/* m rows fall into as few tiles as can be, of as equal heights: the height of the tile that begins at row i. */
INLINE int tile_rows(int64_t m, int64_t i)
{
    int64_t count = (m + ROWS - 1) / ROWS, base = m / count, higher = m % count;
    return (int)(i < higher * (base + 1) ? base + 1 : base);
}

INLINE int64_t whole_vectors(int64_t n) { return (n + VECTOR - 1) / VECTOR * VECTOR; }

/* to: b[p0 .. p0+depth, j0 .. j0+width) panel by panel, each (depth, PANEL), columns past the end of b as 0. */
static void pack_b(real *to, const product *p, int64_t p0, int64_t depth, int64_t j0, int64_t width)
{
    int64_t j = 0;
    if (p->b_col == 1 && !p->b_width)       /* row by row, as they lie */
        for (; j + NARROW <= width && j0 + j + NARROW <= p->n; j += NARROW, to += depth * NARROW)
            for (int64_t q = 0; q < depth; q++)
                for (int s = 0; s < NARROW; s += VECTOR)
                    store(to + s / PANEL * depth * PANEL + q * PANEL + s % PANEL,
                          load(p->b + (p0 + q) * p->b_row + j0 + j + s));
    for (; j < width; j += PANEL, to += depth * PANEL) {
        int64_t there = max_i64(0, min_i64(PANEL, (p->b_width ? p->b_width : p->n) - j0 - j));
        const real *from = p->b + p0 * p->b_row + (j0 + j) * p->b_col;
        if (there < PANEL)
            memset(to, 0, (size_t)(depth * PANEL) * sizeof(real));
        if (p->b_col == 1 && there == PANEL)
            for (int64_t q = 0; q < depth; q++)
                for (int s = 0; s < COLUMNS; s++)
                    store(to + q * PANEL + s * VECTOR, load(from + q * p->b_row + s * VECTOR));
        else if (p->b_col == 1)
            for (int64_t q = 0; q < depth; q++)
                memcpy(to + q * PANEL, from + q * p->b_row, (size_t)there * sizeof(real));
        else if (p0 + whole_vectors(depth) <= p->b_col)     /* rows go on, and the next panel overwrites what is */
            transpose(to, PANEL, from, p->b_col, there, whole_vectors(depth));              /* copied too much */
        else
            transpose(to, PANEL, from, p->b_col, there, depth);
    }
}

/* to: a[i0 .. i0+height, p0 .. p0+depth) tile by tile, each (depth, rows of the tile). */
static void pack_a(real *to, const product *p, int64_t i0, int64_t height, int64_t p0, int64_t depth)
{
    for (int64_t i = 0; i < height;) {
        int64_t rows = tile_rows(height, i);
        const real *from = p->a + (i0 + i) * p->a_row + p0 * p->a_col;
        if (p->a_row == 1 && i0 + i + ROWS_COPIED <= p->m)
            for (int64_t q = 0; q < depth; q++)     /* the next q, or tile, overwrites what is copied too much */
                for (int s = 0; s < ROWS_COPIED; s += VECTOR)
                    store(to + q * rows + s, load(from + q * p->a_col + s));
        else if (p->a_row == 1)
            for (int64_t q = 0; q < depth; q++)
                for (int64_t r = 0; r < rows; r++)
                    to[q * rows + r] = from[q * p->a_col + r];
        else
            transpose(to, rows, from, p->a_row, rows, depth);
        to += rows * depth;
        i += rows;
    }
}

/* Columns of c past its end go through a tile of their own. */
static void edge_tile(int rows, int columns, int64_t k, const real *a, int64_t a_row, int64_t a_col, const real *b,
                      int64_t b_row, real *c, int64_t j, int more, const product *p)
{
    real part[ROWS * PANEL] = {0};
    product alone = {.n = p->n, .c_row = PANEL};
    for (int r = 0; more && r < rows; r++)
        memcpy(part + r * PANEL, c + r * p->c_row, (size_t)(p->n - j) * sizeof(real));
    tiles[rows - 1][columns - 1](k, a, a_row, a_col, b, b_row, part, 0, 0, more, 1, &alone);
    for (int r = 0; r < rows; r++)
        memcpy(c + r * p->c_row, part + r * PANEL, (size_t)(p->n - j) * sizeof(real));
}

/* Everything of c's rows [i0, i0+height) and columns [j0, j0+width) from depth products; b in panels if b_packed. */
static void multiply_block(const product *p, const real *a, int a_packed, const real *b, int b_packed,
                           int64_t i0, int64_t height, int64_t j0, int64_t width, int64_t depth, int more, int last)
{
    for (int64_t j = 0; j < width; j += PANEL) {
        int columns = width - j > VECTOR ? 2 : 1;
        const real *right = b_packed ? b + j * depth : b + j;
        int64_t b_row = b_packed ? PANEL : p->b_row;
        int edge = j0 + j + columns * VECTOR > p->n;
        const real *left = a;
        for (int64_t i = 0; i < height;) {
            int rows = tile_rows(height, i);
            int64_t a_row = a_packed ? 1 : p->a_row, a_col = a_packed ? rows : p->a_col;
            real *c = p->c + (i0 + i) * p->c_row + j0 + j;
            if (edge)
                edge_tile(rows, columns, depth, left, a_row, a_col, right, b_row, c, j0 + j, more, p);
            else
                tiles[rows - 1][columns - 1](depth, left, a_row, a_col, right, b_row, c, i0 + i, j0 + j, more, last, p);
            left += a_packed ? rows * depth : rows * p->a_row;
            i += rows;
        }
    }
}

typedef struct {
    int64_t depth, height, width;
    int read_a, read_b;                 /* the operand is read where it lies */
} blocking;

/* An operand of that many values, `stride` values from row to row: is it as well read where it lies? */
static int lies_well(int64_t count, int64_t stride)
{
    return count * (int64_t)sizeof(real) <= SMALL_BYTES || stride * (int64_t)sizeof(real) <= CLOSE_BYTES;
}

/* (a of one row is read once; b, for few rows of a, so few times that a copy would not pay.) */
static blocking blocks_of(const product *p)
{
    blocking is;
    is.depth = max_i64(1, p->end.kind == STEP ? p->k : min_i64(p->k, DEPTH));   /* a step needs whole sums */
    is.height = min_i64(max_i64(1, DEPTH * HEIGHT / is.depth / ROWS) * ROWS, p->m);
    is.read_a = lies_well(p->m * p->k, p->a_row * p->a_col) || p->m == 1;
    int a_once = is.read_a || (p->m <= is.height && p->k <= is.depth);      /* then b needs no wide blocks */
    is.width = a_once ? NARROW : max_i64(1, DEPTH * WIDTH / is.depth / PANEL) * PANEL;
    is.width = min_i64(is.width, (p->n + PANEL - 1) / PANEL * PANEL);
    is.read_b = p->b_col == 1 && p->n % VECTOR == 0 && (lies_well(p->k * p->n, p->b_row) || p->m <= FEW_ROWS);
    return is;
}

/* Bytes of scratch that each thread needs for a product. */
static int64_t multiply_scratch(const product *p)
{
    blocking is = blocks_of(p);
    int64_t a = is.read_a ? 0 : is.height * is.depth + ROWS_COPIED;
    int64_t b = is.read_b ? 0 : is.depth * is.width + VECTOR * PANEL;
    return (a + b) * (int64_t)sizeof(real);
}

/* The part of c in rows [i0, i1) and columns [j0, j1). */
static void multiply_part(const product *p, int64_t i0, int64_t i1, int64_t j0, int64_t j1, void *scratch)
{
    blocking is = blocks_of(p);
    real *b_block = scratch, *a_block = b_block + (is.read_b ? 0 : is.depth * is.width + VECTOR * PANEL);
    int a_stays = i1 - i0 <= is.height && p->k <= is.depth;
    if (is.read_b)
        is.width = max_i64(PANEL, (j1 - j0 + PANEL - 1) / PANEL * PANEL);
    for (int64_t j = j0; j < j1; j += is.width) {
        int64_t width = min_i64(is.width, j1 - j);
        for (int64_t q = 0; q < p->k || q == 0; q += is.depth) {
            int64_t depth = min_i64(is.depth, p->k - q);
            const real *b = p->b + q * p->b_row + j * p->b_col;
            if (!is.read_b) {
                pack_b(b_block, p, q, depth, j, width);
                b = b_block;
            }
            for (int64_t i = i0; i < i1; i += is.height) {
                int64_t height = min_i64(is.height, i1 - i);
                const real *a = p->a + i * p->a_row + q * p->a_col;
                if (!is.read_a) {
                    if (j == j0 || !a_stays)
                        pack_a(a_block, p, i, height, q, depth);
                    a = a_block;
                }
                multiply_block(p, a, !is.read_a, b, !is.read_b, i, height, j, width, depth, q > 0,
                               q + depth >= p->k);
            }
        }
    }
}

/* The whole of c, each thread its part of a grid that cuts the longer side first. */
static void multiply(const product *p, team t, void *scratch)
{
    int64_t i0 = 0, i1 = p->m, j0 = 0, j1 = p->n, best = INT64_MAX;
    int down = 1;
    for (int d = 1; d <= t.count && t.count > 1; d++) {
        int64_t tall = ((p->m + ROWS - 1) / ROWS + d - 1) / d;
        int64_t wide = ((p->n + PANEL - 1) / PANEL + t.count / d - 1) / (t.count / d);
        if (t.count % d == 0 && tall * wide < best)
            best = tall * wide, down = d;
    }
    team rows = {t.id % down, down, NULL}, columns = {t.id / down, t.count / down, NULL};
    if (down > 1)
        team_share(rows, p->m, ROWS, &i0, &i1);
    if (t.count / down > 1)
        team_share(columns, p->n, PANEL, &j0, &j1);
    if (i0 < i1 && j0 < j1)
        multiply_part(p, i0, i1, j0, j1, scratch);
}

int FN(matmul)(real *c, const real *a, const real *b, int64_t m, int64_t n, int64_t k,
               int a_transposed, int b_transposed, int threads)
{
    product p = {
        .m = m, .n = n, .k = k, .c = c, .c_row = n,
        .a = a, .a_row = a_transposed ? 1 : k, .a_col = a_transposed ? m : 1,
        .b = b, .b_row = b_transposed ? 1 : n, .b_col = b_transposed ? k : 1,
    };
    int64_t worth = (int64_t)(2.0 * (double)m * (double)n * (double)k / 4e5);
    int64_t stride = (multiply_scratch(&p) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    threads = (int)max_i64(1, min_i64(threads, worth));
    char *scratch = nn_alloc(stride * threads);
    if (!scratch)
        return -1;
    #pragma omp parallel num_threads(threads)
    {
        team here = nn_team_here(NULL);
        multiply(&p, here, scratch + here.id * stride);
    }
    nn_free(scratch);
    return 0;
}
