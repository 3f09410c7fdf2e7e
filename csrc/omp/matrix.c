/* matrix.c - the matrix product, fast: brings operands to the micro-kernel (matrix_kernel.c).
 * Each sum runs over k in index order, in blocks of at most DEPTH that k alone decides on, so no
 * number of threads changes a bit.
 *
 * Small operands are read in place. Large ones are packed block by block into the order in which
 * the kernel reads them (Goto and van de Geijn 2008; BLIS): DEPTH x WIDTH of b for the L3 cache,
 * HEIGHT x DEPTH of a for the L2 cache. uses: matrix_kernel.c (tiles)
 */
#include "../core.h"
#include "transpose.h"

/* Constants: name, value, what it trades, how it was found (the case of `nn --bench` that it was
 * timed by; the commit that brought it has the figures).
 *
 * DEPTH 512 (384), HEIGHT, WIDTH: of a packed block; HEIGHT x DEPTH values of a take a part of
 * the L2 cache,
 *     DEPTH x WIDTH of b a part of the L3 cache. Larger blocks are packed less often and evict
 *     more. product-2048.
 * NARROW 3 (4) panels: columns of b used at a time while a stays in the L2 cache. product-512,
 * solar-deep. */
#if VECTOR_BYTES == 64
enum { DEPTH = 512, HEIGHT = 96 / (int)sizeof(real) * ROWS, WIDTH = 768, NARROW = 3 * PANEL };
#else
enum { DEPTH = 384, HEIGHT = 20 * ROWS, WIDTH = 64 * COLUMNS * VECTOR, NARROW = 4 * PANEL };
#endif
/* FEW_ROWS 40: rows of a up to which packing b costs more than it saves. product-thin.
 * THIN 16 vectors: columns of c up to which packing a costs more than it saves. 132 x 128 x 512,
 * a 16th of product-512. SMALL_BYTES 96 KiB, CLOSE_BYTES 1 KiB: an operand of that size, or
 * whose rows are that close, is read in place: it
 *     needs few pages and overuses no set of the L1 cache.
 * ALIASES 4 KiB: rows that far apart fall into one set of the L1 cache, by its size and ways.
 * NEAR_BYTES 4 MiB: rows of an a of that size stay in the L2 or L3 cache and may be read
 * repeatedly. product-512. */
enum { FEW_ROWS = 40, THIN = 16 * VECTOR };
enum { SMALL_BYTES = 96 * 1024, CLOSE_BYTES = 1024, ALIASES = 4096, NEAR_BYTES = 4 * 1024 * 1024 };
/* COPYING 64: multiplications in the time of packing one value; weighs the grids of
 * threads_down. product-long. FEW_PRODUCTS 64, WIDE_BYTES 512: threads_down says what they
 * trade. cc-b32-adam, solar-50.
 */
enum { COPYING = 64, FEW_PRODUCTS = 64, WIDE_BYTES = 512 };

/* Rows are divided into the fewest tiles of at most `most` rows, of equal heights: the height of
 * the tile at row i. */
INLINE int64_t tile_height(int64_t m, int64_t i, int64_t most)
{
    int64_t count = (m + most - 1) / most, base = m / count, higher = m % count;
    return i < higher * (base + 1) ? base + 1 : base;
}

/* Columns are divided into panels in the same way: the width of the panel at column j. */
INLINE int64_t panel_width(int64_t width, int64_t j)
{
    return tile_height((width + VECTOR - 1) / VECTOR, j / VECTOR, COLUMNS) * VECTOR;
}

/* to (depth, lanes): from[r * lane_step + q * step] at [q][r], 0 in lanes past `there`, which
 * only b's last panel has. One of lane_step and step is 1; `end` is where the operand ends.
 * Vectors are stored whole: the next row overwrites the values past a row's end. */
static void pack_panel(real *to, int64_t lanes, const real *from, int64_t lane_step, int64_t step,
                       int64_t there, int64_t depth, const real *end)
{
    int64_t q = 0, copied = row_stride(lanes);
    if (lane_step == 1)
        for (; q < depth && from + q * step + copied <= end; q++)
            for (int64_t s = 0; s < copied; s += VECTOR)
                store(to + q * lanes + s, load(from + q * step + s));
    else
        for (; q < depth && depth >= VECTOR; q += VECTOR) {
            int64_t at = min_i64(q, depth - VECTOR);
            /* backwards: see above */
            for (int64_t s = copied - VECTOR; s >= 0; s -= VECTOR) {
                vec row[VECTOR];
                #pragma GCC unroll 16
                for (int i = 0; i < VECTOR; i++)
                    row[i] = s + i < there ? load(from + (s + i) * lane_step + at) : (vec){};
                transpose_in_registers(row);
                #pragma GCC unroll 16
                for (int i = 0; i < VECTOR; i++)
                    store(to + (at + i) * lanes + s, row[i]);
            }
        }
    for (; q < depth; q++)
        for (int64_t r = 0; r < lanes; r++)
            to[q * lanes + r] = r < there ? from[r * lane_step + q * step] : 0;
}

/* to: b[p0 .. p0+depth, j0 .. j0+width) panel by panel, each (depth, its width), columns past
 * the end of b as 0. */
static void pack_b(real *to, const product *p, int64_t p0, int64_t depth, int64_t j0, int64_t width)
{
    int64_t j = 0, n = p->b_width ? p->b_width : p->n;
    const real *end = p->b + (p->k - 1) * p->b_row + (n - 1) * p->b_col + 1;
    /* row by row, as they lie; a panel after whole ones is whole or the first of those that are
     * not */
    if (p->b_col == 1)
        for (; j + NARROW <= width && j0 + j + NARROW <= n &&
               panel_width(width, j + NARROW - PANEL) == PANEL;
             j += NARROW, to += depth * NARROW)
            for (int64_t q = 0; q < depth; q++)
                for (int s = 0; s < NARROW; s += VECTOR)
                    store(to + s / PANEL * depth * PANEL + q * PANEL + s % PANEL,
                          load(p->b + (p0 + q) * p->b_row + j0 + j + s));
    for (int64_t lanes; j < width; j += lanes, to += depth * lanes) {
        lanes = panel_width(width, j);
        pack_panel(to, lanes, p->b + p0 * p->b_row + (j0 + j) * p->b_col, p->b_col, p->b_row,
                   max_i64(0, min_i64(lanes, n - j0 - j)), depth, end);
    }
}

/* to: a[i0 .. i0+height, p0 .. p0+depth) tile by tile, each (depth, rows of the tile); `most`:
 * of a tile's rows. */
static void pack_a(real *to, const product *p, int64_t i0, int64_t height, int64_t most, int64_t p0,
                   int64_t depth)
{
    const real *from = p->a + i0 * p->a_row + p0 * p->a_col;
    const real *end = p->a + (p->m - 1) * p->a_row + (p->k - 1) * p->a_col + 1;
    for (int64_t i = 0, rows; i < height; to += rows * depth, i += rows) {
        rows = tile_height(height, i, most);
        pack_panel(to, rows, from + i * p->a_row, p->a_row, p->a_col, rows, depth, end);
    }
}

/* A tile that reaches past c's last column goes through memory of its own. */
static void edge_tile(int64_t rows, int columns, int64_t k, const real *a, int64_t a_row,
                      int64_t a_col, const real *b, int64_t b_row, real *c, int64_t j, int more,
                      const product *p)
{
    real part[TALL * PANEL] = {0};
    product alone = {.n = p->n, .c_row = PANEL};
    for (int64_t r = 0; more && r < rows; r++)
        memcpy(part + r * PANEL, c + r * p->c_row, (size_t)(p->n - j) * sizeof(real));
    tiles[rows - 1][columns - 1](k, a, a_row, a_col, b, b_row, part, 0, 0, more, 1, &alone);
    for (int64_t r = 0; r < rows; r++)
        memcpy(c + r * p->c_row, part + r * PANEL, (size_t)(p->n - j) * sizeof(real));
}

typedef struct {
    /* of a block of a (height, depth), and of b (depth, width) */
    int64_t depth, height, width;
    int64_t rows;                       /* of a tile, at most */
    int packs_a, packs_b;                 /* or read in place */
} blocking;

/* Whether an operand of `count` values, rows `stride` apart, is small or dense enough to be read
 * without packing. */
static int read_in_place(int64_t count, int64_t stride)
{
    return count * (int64_t)sizeof(real) <= SMALL_BYTES ||
           stride * (int64_t)sizeof(real) <= CLOSE_BYTES;
}

/* For a part of c with `columns` columns. Few rows of a use b too seldom for packing to pay off,
 * and few columns use a too seldom; rows of a that fall into one set of the L1 cache are packed
 * all the same. */
static blocking blocks_of(const product *p, int64_t columns)
{
    blocking is;
    int few = p->m <= FEW_ROWS,
        spread = p->a_col == 1 && p->a_row * (int64_t)sizeof(real) % ALIASES;
    int near = p->m * p->k * (int64_t)sizeof(real) <= NEAR_BYTES;
    is.packs_b = p->b_col > 1 || p->n % VECTOR
             || (!few && !read_in_place(p->k * p->n, p->b_row));
    is.packs_a = p->m > 1 && !read_in_place(p->m * p->k, p->a_row * p->a_col)
             && !(spread && (near || columns <= THIN));
    /* a step needs whole sums */
    is.depth = max_i64(1, p->end.kind == STEP ? p->k : even_size(p->k, DEPTH));
    is.height = min_i64(max_i64(1, DEPTH * HEIGHT / is.depth / ROWS) * ROWS, p->m);
    /* then b needs no wide blocks */
    int a_once = !is.packs_a || (p->m <= is.height && p->k <= is.depth);
    is.width = a_once ? NARROW : max_i64(1, DEPTH * WIDTH / is.depth / PANEL) * PANEL;
    is.width = min_i64(is.width, (p->n + PANEL - 1) / PANEL * PANEL);
    is.rows = panel_width(min_i64(is.width, columns), 0) <= 2 * VECTOR ? TALL : ROWS;
    return is;
}

/* Values of scratch that a copy of a block of b takes. */
static int64_t values_of_b(const blocking *is)
{ return is->packs_b ? is->depth * is->width + VECTOR : 0; }

/* Bytes of scratch that each thread needs for a product, and no fewer than any with fewer rows
 * or shorter sums does, as of a last, shorter batch: blocks of shorter sums are higher and
 * wider, and may take more. Where a is packed once, it is packed once of fewer rows too. */
static int64_t multiply_scratch(const product *p)
{
    blocking is = blocks_of(p, p->n);
    int64_t depth = max_i64(1, p->end.kind == STEP ? p->k : min_i64(p->k, DEPTH));
    int a_once = !is.packs_a || (p->m <= is.height && p->k <= is.depth);
    int64_t a = min_i64(p->m * depth, max_i64(DEPTH * HEIGHT, ROWS * depth));
    int64_t b = a_once ? NARROW * depth : max_i64(DEPTH * WIDTH, NARROW * depth);
    b = min_i64(b, (p->n + PANEL - 1) / PANEL * PANEL * depth);
    int64_t copies = (is.packs_a ? a + VECTOR : 0) + (is.packs_b ? b + VECTOR : 0);
    return copies * (int64_t)sizeof(real);
}

/* c's rows [i0, i0+height) and columns [j0, j0+width) from depth products: a block of a, which
 * fits into the second cache, runs by for every panel of b. */
static void multiply_block(const product *p, const blocking *is, const real *a, const real *b,
                           int64_t i0, int64_t height, int64_t j0, int64_t width, int64_t depth,
                           int more, int last)
{
    for (int64_t j = 0, lanes; j < width; j += lanes) {
        lanes = panel_width(width, j);
        int columns = (int)(lanes / VECTOR);
        const real *right = is->packs_b ? b + j * depth : b + j, *left = a;
        int64_t b_row = is->packs_b ? lanes : p->b_row;
        int edge = j0 + j + columns * VECTOR > p->n;
        for (int64_t i = 0, rows; i < height; i += rows) {
            rows = tile_height(height, i, is->rows);
            int64_t a_row = is->packs_a ? 1 : p->a_row, a_col = is->packs_a ? rows : p->a_col;
            real *c = p->c + (i0 + i) * p->c_row + j0 + j;
            if (edge)
                edge_tile(rows, columns, depth, left, a_row, a_col, right, b_row, c, j0 + j, more,
                          p);
            else
                tiles[rows - 1][columns - 1](depth, left, a_row, a_col, right, b_row, c, i0 + i,
                                             j0 + j, more, last, p);
            left += is->packs_a ? rows * depth : rows * p->a_row;
        }
    }
}

/* The part of c in rows [i0, i1) and columns [j0, j1). */
static void multiply_range(const product *p, int64_t i0, int64_t i1, int64_t j0, int64_t j1,
                           void *scratch)
{
    blocking is = blocks_of(p, j1 - j0);
    real *b_block = scratch, *a_block = b_block + values_of_b(&is);
    int a_stays = i1 - i0 <= is.height && p->k <= is.depth;
    if (!is.packs_b)
        is.width = max_i64(PANEL, (j1 - j0 + PANEL - 1) / PANEL * PANEL);
    for (int64_t j = j0; j < j1; j += is.width)
        for (int64_t q = 0; q < p->k || q == 0; q += is.depth) {
            int64_t width = min_i64(is.width, j1 - j), depth = min_i64(is.depth, p->k - q);
            const real *b = is.packs_b ? b_block : p->b + q * p->b_row + j;
            if (is.packs_b)
                pack_b(b_block, p, q, depth, j, width);
            for (int64_t i = i0; i < i1; i += is.height) {
                int64_t height = min_i64(is.height, i1 - i);
                const real *a = is.packs_a ? a_block : p->a + i * p->a_row + q * p->a_col;
                if (is.packs_a && (j == j0 || !a_stays))
                    pack_a(a_block, p, i, height, is.rows, q, depth);
                multiply_block(p, &is, a, b, i, height, j, width, depth, q > 0, q + depth >= p->k);
            }
        }
}

/* How many threads of a grid stand one below the other; the others stand side by side. The grid
 * has equal parts of c and packs as few values twice as possible. Weights that take a step after
 * FEW_PRODUCTS are divided by columns, as in the forward pass: a thread then finds its own
 * columns in its cache, where lines from another core would take longer than these products.
 * (Parts of less than WIDE_BYTES of a row would move between cores all the same, as processors
 * fetch neighbouring lines too.) */
static int threads_down(const product *p, int threads)
{
    int wide = p->n / threads * (int64_t)sizeof(real) >= WIDE_BYTES;
    int by_columns = p->end.kind == STEP && p->k <= FEW_PRODUCTS && wide;
    int64_t best = INT64_MAX;
    int down = 1;
    for (int d = 1; d <= threads && !by_columns; d++) {
        int64_t tall = ((p->m + ROWS - 1) / ROWS + d - 1) / d * ROWS;
        int64_t across = ((p->n + PANEL - 1) / PANEL + threads / d - 1) / (threads / d) * PANEL;
        int64_t cost = tall * across + COPYING * (tall + across);
        if (threads % d == 0 && cost < best)
            best = cost, down = d;
    }
    return down;
}

/* The whole of c, by all threads. */
static void multiply(const product *p, thread_team t, void *scratch)
{
    int64_t i0 = 0, i1 = p->m, j0 = 0, j1 = p->n;
    if (t.count > 1) {
        int down = threads_down(p, t.count);
        thread_share((thread_team){t.id % down, down, NULL}, p->m, ROWS, &i0, &i1);
        thread_share((thread_team){t.id / down, t.count / down, NULL}, p->n, PANEL, &j0, &j1);
    }
    if (i0 < i1 && j0 < j1)
        multiply_range(p, i0, i1, j0, j1, scratch);
}

/* The name of the kernel that `multiply` takes, for `route` of a layer kind. */
static const char *product_route(const product *p, thread_team t)
{
    int across = t.count / threads_down(p, t.count);
    blocking is = blocks_of(p, p->n / across);
    return is.packs_a || is.packs_b ? "product, packed blocks" : "product, in place";
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
    int64_t stride = aligned(multiply_scratch(&p));
    threads = nn_begin((int)max_i64(1, min_i64(threads, worth)), 1);
    char *scratch = nn_alloc(stride * threads);
    if (scratch) {
        thread_barrier barrier = {0};
        #pragma omp parallel num_threads(threads)
        {
            thread_team here = nn_this_team(&barrier);
            multiply(&p, here, scratch + here.id * stride);
            /* spins: a thread that waits at the region's end sleeps, and wakes too late */
            barrier_wait(here);
        }
    }
    nn_end(threads);
    nn_free(scratch);
    return scratch ? 0 : -1;
}
