/* matrix.c - the matrix product, fast: brings operands to the micro-kernel (matrix_kernel.c). Each sum runs over k in
 * index order, in blocks of at most DEPTH that k alone decides on, so no number of threads changes a bit.
 *
 * Small operands are read in place. Large ones are packed block by block into the order in which the kernel reads them
 * (Goto and van de Geijn 2008; BLIS): DEPTH x WIDTH of b for the L3 cache, HEIGHT x DEPTH of a for the L2 cache.
 * uses: matrix_kernel.c (tiles)
 */
#include "../core.h"
#include "transpose.h"

/* Constants: name, value, what it trades, how it was found (the case of `nn --bench` that it was timed by; the commit
 * that brought it has the figures).
 *
 * DEPTH 512 (384), HEIGHT, WIDTH: of a packed block; HEIGHT x DEPTH values of a take a part of the L2 cache,
 *     DEPTH x WIDTH of b a part of the L3 cache. Larger blocks are packed less often and evict more. product-2048.
 * NARROW 3 (4) panels: columns of b used at a time while a stays in the L2 cache. product-512, solar-deep. */
#if VECTOR_BYTES == 64
enum { DEPTH = 512, HEIGHT = 96 / (int)sizeof(real) * ROWS, WIDTH = 768, NARROW = 3 * PANEL };
#else
enum { DEPTH = 384, HEIGHT = 20 * ROWS, WIDTH = 64 * COLUMNS * VECTOR, NARROW = 4 * PANEL };
#endif
/* FEW_ROWS 40: rows of a up to which packing b costs more than it saves. product-thin.
 * THIN 16 vectors: columns of c up to which packing a costs more than it saves. 132 x 128 x 512, a 16th of product-512.
 * SMALL_BYTES 96 KiB, CLOSE_BYTES 1 KiB: an operand of that size, or whose rows are that close, is read in place: it
 *     needs few pages and overuses no set of the L1 cache.
 * ALIASES 4 KiB: rows that far apart fall into one set of the L1 cache, by its size and ways.
 * NEAR_BYTES 4 MiB: rows of an a of that size stay in the L2 or L3 cache and may be read repeatedly. product-512. */
enum { FEW_ROWS = 40, THIN = 16 * VECTOR };
enum { SMALL_BYTES = 96 * 1024, CLOSE_BYTES = 1024, ALIASES = 4096, NEAR_BYTES = 4 * 1024 * 1024 };
/* TOGETHER 4: tiles that pack_tiles packs at a time, so that each cache line is fetched once. product-512.
 * SOON 8: steps that pack_tiles prefetches ahead; more arrive too early, fewer too late. product-512. */
enum { TOGETHER = 4, SOON = 8, LINE_VALUES = 64 / (int)sizeof(real) };
/* COPYING 64: multiplications in the time of packing one value; weighs the grids of threads_down. product-long.
 * FEW_PRODUCTS 64, WIDE_BYTES 512: threads_down says what they trade. cc-b32-adam, solar-50.
 * MOST_SPLITS 16: partial sums of a long product, which threads share; more take more memory and additions.
 *     product-long. */
enum { COPYING = 64, FEW_PRODUCTS = 64, WIDE_BYTES = 512, MOST_SPLITS = 16 };

/* Rows are divided into the fewest tiles of at most `most` rows, of equal heights: the height of the tile at row i. */
INLINE int64_t tile_height(int64_t m, int64_t i, int64_t most)
{
    int64_t count = (m + most - 1) / most, base = m / count, higher = m % count;
    return i < higher * (base + 1) ? base + 1 : base;
}

/* The first row of a tile. */
INLINE int64_t tile_start(int64_t m, int64_t tile, int64_t most)
{
    int64_t count = (m + most - 1) / most;
    return tile * (m / count) + min_i64(tile, m % count);
}

INLINE int64_t whole_vectors(int64_t n) { return (n + VECTOR - 1) / VECTOR * VECTOR; }

/* Columns are divided into panels in the same way: the width of the panel at column j. */
INLINE int64_t panel_width(int64_t width, int64_t j)
{
    return tile_height((width + VECTOR - 1) / VECTOR, j / VECTOR, COLUMNS) * VECTOR;
}

/* to (depth, HALF): as pack_panel, for half a vector of lanes. */
enum { HALF = VECTOR / 2 };
INLINE void pack_half(real *to, const real *from, int64_t lane_step, int64_t depth)
{
    for (int64_t q = 0; q < depth; q += VECTOR) {
        int64_t at = min_i64(q, depth - VECTOR);
        vec row[MOST_WOVEN];
        #pragma GCC unroll 12
        for (int i = 0; i < HALF; i++)
            row[i] = load(from + i * lane_step + at);
        weave(HALF, row);
        #pragma GCC unroll 12
        for (int i = 0; i < HALF; i++)
            store(to + at * HALF + i * VECTOR, row[i]);
    }
}

/* to (depth, lanes): from[r * lane_step + q * step] at [q][r], 0 in lanes past `there`, which only b's last panel has.
 * One of lane_step and step is 1; `end` is where the operand ends. Vectors are stored whole: the next row
 * overwrites the values past a row's end. */
static void pack_panel(real *to, int64_t lanes, const real *from, int64_t lane_step, int64_t step, int64_t there,
                       int64_t depth, const real *end)
{
    int64_t q = 0, copied = whole_vectors(lanes);
    if (lanes == HALF && step == 1 && depth >= VECTOR) {
        pack_half(to, from, lane_step, depth);
        return;
    }
    if (lane_step == 1)
        for (; q < depth && from + q * step + copied <= end; q++)
            for (int64_t s = 0; s < copied; s += VECTOR)
                store(to + q * lanes + s, load(from + q * step + s));
    else
        for (; q < depth && depth >= VECTOR; q += VECTOR) {
            int64_t at = min_i64(q, depth - VECTOR);
            for (int64_t s = copied - VECTOR; s >= 0; s -= VECTOR) {        /* backwards: see above */
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

/* to: b[p0 .. p0+depth, j0 .. j0+width) panel by panel, each (depth, its width), columns past the end of b as 0. */
static void pack_b(real *to, const product *p, int64_t p0, int64_t depth, int64_t j0, int64_t width)
{
    int64_t j = 0, n = p->b_width ? p->b_width : p->n;
    const real *end = p->b + (p->k - 1) * p->b_row + (n - 1) * p->b_col + 1;
    if (p->b_col == 1)                      /* row by row, as they lie; a panel after whole ones is whole or the first
                                             * of those that are not */
        for (; j + NARROW <= width && j0 + j + NARROW <= n && panel_width(width, j + NARROW - PANEL) == PANEL;
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

/* TOGETHER tiles of `rows` rows, side by side in memory, `step` from one index of the sums to the next: each line is
 * fetched once, since no hardware prefetcher foresees the next one. */
INLINE void pack_tiles(const int rows, real *to, const real *from, int64_t step, int64_t depth)
{
    for (int64_t q = 0; q < depth; q++, from += step, to += rows) {
        for (int line = 0; line < TOGETHER * rows; line += LINE_VALUES)
            __builtin_prefetch(from + SOON * step + line);
        for (int64_t i = 0; i < TOGETHER; i++)
            memcpy(to + i * rows * depth, from + i * rows, (size_t)rows * sizeof(real));
    }
}

/* to: a[i0 .. i0+height, p0 .. p0+depth) tile by tile, each (depth, rows of the tile); `most`: of a tile's rows. */
static void pack_a(real *to, const product *p, int64_t i0, int64_t height, int64_t most, int64_t p0, int64_t depth)
{
    const real *from = p->a + i0 * p->a_row + p0 * p->a_col;
    const real *end = p->a + (p->m - 1) * p->a_row + (p->k - 1) * p->a_col + 1;
    int64_t i = 0;
    if (p->a_row == 1 && height % most == 0)
        for (; i + TOGETHER * most <= height; to += TOGETHER * most * depth, i += TOGETHER * most) {
            if (most == ROWS)
                pack_tiles(ROWS, to, from + i, p->a_col, depth);
            else
                pack_tiles(TALL, to, from + i, p->a_col, depth);
        }
    for (int64_t rows; i < height; to += rows * depth, i += rows) {
        rows = tile_height(height, i, most);
        pack_panel(to, rows, from + i * p->a_row, p->a_row, p->a_col, rows, depth, end);
    }
}

/* A tile that reaches past c's last column goes through memory of its own. */
static void edge_tile(int64_t rows, int columns, int64_t k, const real *a, int64_t a_row, int64_t a_col, const real *b,
                      int64_t b_row, real *c, int64_t j, int more, const product *p)
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
    int64_t depth, height, width;       /* of a block of a (height, depth), and of b (depth, width) */
    int64_t rows;                       /* of a tile, at most */
    int packs_a, packs_b;                 /* or read in place */
} blocking;

/* Whether an operand of `count` values, rows `stride` apart, is small or dense enough to be read without packing. */
static int read_in_place(int64_t count, int64_t stride)
{
    return count * (int64_t)sizeof(real) <= SMALL_BYTES || stride * (int64_t)sizeof(real) <= CLOSE_BYTES;
}

/* For a part of c with `columns` columns. Few rows of a use b too seldom for packing to pay off, and few columns use a
 * too seldom; rows of a that fall into one set of the L1 cache are packed all the same. */
static blocking blocks_of(const product *p, int64_t columns)
{
    blocking is;
    int few = p->m <= FEW_ROWS, spread = p->a_col == 1 && p->a_row * (int64_t)sizeof(real) % ALIASES;
    int near = p->m * p->k * (int64_t)sizeof(real) <= NEAR_BYTES;
    is.packs_b = p->b_col > 1 || p->n % VECTOR
             || (!few && !read_in_place(p->k * p->n, p->b_row)) || (p->m > 2 * ROWS && p->b_misaligned);
    is.packs_a = p->m > 1 && !read_in_place(p->m * p->k, p->a_row * p->a_col)
             && !(spread && (near || columns <= THIN));
    is.depth = max_i64(1, p->end.kind == STEP ? p->k : even_size(p->k, DEPTH));         /* a step needs whole sums */
    is.height = min_i64(max_i64(1, DEPTH * HEIGHT / is.depth / ROWS) * ROWS, p->m);
    int a_once = !is.packs_a || (p->m <= is.height && p->k <= is.depth);     /* then b needs no wide blocks */
    is.width = a_once ? NARROW : max_i64(1, DEPTH * WIDTH / is.depth / PANEL) * PANEL;
    is.width = min_i64(is.width, (p->n + PANEL - 1) / PANEL * PANEL);
    is.rows = panel_width(min_i64(is.width, columns), 0) <= 2 * VECTOR ? TALL : ROWS;
    return is;
}

/* Values of scratch that a copy of a block of b takes. */
static int64_t values_of_b(const blocking *is) { return is->packs_b ? is->depth * is->width + VECTOR : 0; }

/* Bytes of scratch that each thread needs for a product, and no fewer than any with fewer rows or shorter sums does, as
 * of a last, shorter batch: blocks of shorter sums are higher and wider, and may take more. Where a is packed once, it
 * is packed once of fewer rows too. */
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

/* Those of a block's columns that fill whole stripes; how many they are. */
static int64_t multiply_stripes(const product *p, const real *a, const real *b, int64_t i0, int64_t height, int64_t j0,
                                int64_t width, int64_t depth, int more, int last)
{
    int64_t j = 0, stripe = MOST_SUMS / height * VECTOR, there = min_i64(width, p->n - j0);
    for (; j + stripe <= there; j += stripe)
        stripes[height - 1](depth, a, p->a_row, p->a_col, b + j, p->b_row, p->c + i0 * p->c_row + j0 + j, i0, j0 + j,
                            more, last, p);
    return j;
}

/* c's rows [i0, i0+height) and columns [j0, j0+width) from depth products: a block of a, which fits into the second
 * cache, runs by for every panel of b. */
static void multiply_block(const product *p, const blocking *is, const real *a, const real *b, int64_t i0,
                           int64_t height, int64_t j0, int64_t width, int64_t depth, int more, int last)
{
    int64_t striped = 0;
    if (height <= MOST_STRIPED && !is->packs_a && !is->packs_b)
        striped = multiply_stripes(p, a, b, i0, height, j0, width, depth, more, last);
    for (int64_t j = striped, lanes; j < width; j += lanes) {
        lanes = panel_width(width - striped, j - striped);
        int columns = (int)(lanes / VECTOR);
        const real *right = is->packs_b ? b + j * depth : b + j, *left = a;
        int64_t b_row = is->packs_b ? lanes : p->b_row;
        int edge = j0 + j + columns * VECTOR > p->n;
        for (int64_t i = 0, rows; i < height; i += rows) {
            rows = tile_height(height, i, is->rows);
            int64_t a_row = is->packs_a ? 1 : p->a_row, a_col = is->packs_a ? rows : p->a_col;
            real *c = p->c + (i0 + i) * p->c_row + j0 + j;
            if (edge)
                edge_tile(rows, columns, depth, left, a_row, a_col, right, b_row, c, j0 + j, more, p);
            else
                tiles[rows - 1][columns - 1](depth, left, a_row, a_col, right, b_row, c, i0 + i, j0 + j, more, last, p);
            left += is->packs_a ? rows * depth : rows * p->a_row;
        }
    }
}

/* The part of c in rows [i0, i1) and columns [j0, j1). */
static void multiply_range(const product *p, int64_t i0, int64_t i1, int64_t j0, int64_t j1, void *scratch)
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

/* The whole of c for few rows of operands read in place: each thread takes the same number of tiles, panel by panel. */
static void multiply_few(const product *p, thread_team t, void *scratch)
{
    int64_t vectors = (p->n + VECTOR - 1) / VECTOR;
    int64_t tall = (p->m + ROWS - 1) / ROWS, wide = (vectors + COLUMNS - 1) / COLUMNS, at, last;
    thread_share(t, tall * wide, 1, &at, &last);
    while (at < last) {
        int64_t panel = at / tall, from = at % tall, to = min_i64(tall, from + last - at);
        int64_t panels = to - from == tall ? (last - at) / tall : 1;
        multiply_range(p, tile_start(p->m, from, ROWS), tile_start(p->m, to, ROWS),
                       tile_start(vectors, panel, COLUMNS) * VECTOR,
                       min_i64(p->n, tile_start(vectors, panel + panels, COLUMNS) * VECTOR), scratch);
        at += panels * (to - from);
    }
}

/* Whether threads share a product's tiles evenly; else they stand in a grid. */
static int shares_tiles(const product *p)
{
    blocking is = blocks_of(p, p->n);
    return p->m <= FEW_ROWS && !is.packs_a && !is.packs_b;
}

/* How many threads of a grid stand one below the other; the others stand side by side. The grid has equal parts of c and
 * packs as few values twice as possible. Weights that take a step after FEW_PRODUCTS are divided by columns, as in the
 * forward pass: a thread then finds its own columns in its cache, where lines from another core would take longer than
 * these products. (Parts of less than WIDE_BYTES of a row would move between cores all the same, as processors fetch
 * neighbouring lines too.) */
static int threads_down(const product *p, int threads)
{
    int wide = p->n / threads * (int64_t)sizeof(real) >= WIDE_BYTES;
    int by_columns = p->end.kind == STEP && p->k <= FEW_PRODUCTS && wide;
    int64_t best = INT64_MAX;
    int down = 1;
    for (int d = 1; d <= threads && threads > 1 && !by_columns; d++) {
        int64_t tall = ((p->m + ROWS - 1) / ROWS + d - 1) / d * ROWS;
        int64_t across = ((p->n + PANEL - 1) / PANEL + threads / d - 1) / (threads / d) * PANEL;
        int64_t cost = tall * across + COPYING * (tall + across);
        if (threads % d == 0 && cost < best)
            best = cost, down = d;
    }
    return down;
}

/* The columns [*first, *last) of c in this thread's part of the grid. */
static void grid_columns(const product *p, thread_team t, int down, int64_t *first, int64_t *last)
{
    thread_team columns = {t.id / down, t.count / down, NULL};
    *first = 0, *last = p->n;
    if (columns.count > 1)
        thread_share(columns, p->n, PANEL, first, last);
}

static void multiply_grid(const product *p, thread_team t, void *scratch)
{
    int down = threads_down(p, t.count);
    thread_team rows = {t.id % down, down, NULL};
    int64_t i0 = 0, i1 = p->m, j0, j1;
    if (down > 1)
        thread_share(rows, p->m, ROWS, &i0, &i1);
    grid_columns(p, t, down, &j0, &j1);
    if (i0 < i1 && j0 < j1)
        multiply_range(p, i0, i1, j0, j1, scratch);
}

/* The whole of c, by all threads. */
static void multiply(const product *p, thread_team t, void *scratch)
{
    (shares_tiles(p) ? multiply_few : multiply_grid)(p, t, scratch);
}

/* The name of the kernel that `multiply` takes, for `route` of a layer kind. */
static const char *product_route(const product *p, thread_team t)
{
    int64_t first, last;
    if (shares_tiles(p))
        return "product, shared tiles";
    grid_columns(p, t, threads_down(p, t.count), &first, &last);
    blocking is = blocks_of(p, last - first);
    return is.packs_a || is.packs_b ? "product, packed blocks" : "product, in place";
}

/* Split-k: long sums are divided as k alone decides; the product of split number s. */
static product split_k(const product *p, int64_t parts, int64_t s)
{
    product part = *p;
    int64_t depth = (p->k + parts - 1) / parts;
    part.k = min_i64(depth, p->k - s * depth);
    part.a += s * depth * p->a_col;
    part.b += s * depth * p->b_row;
    return part;
}

/* The whole of a small c with long sums: threads share the splits. `sums` holds all partial sums but the first. */
static void multiply_long(const product *p, int64_t parts, thread_team t, real *sums, void *scratch)
{
    int64_t size = p->m * p->n, first, last;
    thread_share(t, parts, 1, &first, &last);
    for (int64_t s = first; s < last; s++) {
        product part = split_k(p, parts, s);
        part.c = s ? sums + (s - 1) * size : p->c;
        multiply_range(&part, 0, p->m, 0, p->n, scratch);
    }
    barrier_wait(t);
    thread_share(t, size, VECTOR, &first, &last);
    for (int64_t s = 1; s < parts; s++, sums += size)
        for (int64_t i = first; i < last; i++)
            p->c[i] += sums[i];
}

int FN(matmul)(real *c, const real *a, const real *b, int64_t m, int64_t n, int64_t k,
               int a_transposed, int b_transposed, int threads)
{
    product p = {
        .m = m, .n = n, .k = k, .c = c, .c_row = n,
        .a = a, .a_row = a_transposed ? 1 : k, .a_col = a_transposed ? m : 1,
        .b = b, .b_row = b_transposed ? 1 : n, .b_col = b_transposed ? k : 1,
        /* (vectors across two cache lines do not show where a tile has many rows to use them for) */
        .b_misaligned = VECTOR_BYTES < 64 && (uintptr_t)b % VECTOR_BYTES != 0,
    };
    int64_t parts = m * n <= k ? max_i64(1, min_i64(MOST_SPLITS, k / DEPTH)) : 1;
    int64_t worth = (int64_t)(2.0 * (double)m * (double)n * (double)k / 4e5);
    product head = split_k(&p, parts, 0), tail = split_k(&p, parts, parts - 1);
    int64_t stride = max_i64(multiply_scratch(&head), multiply_scratch(&tail));
    stride = (stride + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    threads = nn_begin((int)max_i64(1, min_i64(threads, worth)), 1);
    char *scratch = nn_borrow(stride * threads + (parts - 1) * m * n * (int64_t)sizeof(real));
    if (!scratch) {
        nn_end(threads);
        return -1;
    }
    thread_barrier barrier = {0};
    #pragma omp parallel num_threads(threads)
    {
        thread_team here = nn_this_team(&barrier);
        if (parts == 1)
            multiply(&p, here, scratch + here.id * stride);
        else
            multiply_long(&p, parts, here, (real *)(scratch + stride * threads), scratch + here.id * stride);
        barrier_wait(here);             /* spins: a thread that waits at the region's end sleeps, and wakes too late */
    }
    nn_end(threads);
    nn_give_back(scratch);
    return 0;
}
