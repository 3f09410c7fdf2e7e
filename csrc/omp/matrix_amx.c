/* matrix_amx.c - large products of float32 on Intel's AMX, which multiplies matrices of bfloat16. A float32 is the sum
 * of three bfloat16, without loss: 24 bits are 8 + 8 + 8. Of the nine products of two numbers' parts the six that are
 * not below float32's own rounding are added up, in float32: as exact as multiply-adds of float32, and up to twice as
 * fast (Henry, Tang and Heinecke 2019, «Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
 * Computations»). At the ends of the range it differs: infinity, and what is above 3.39e38 and so has no bfloat16 near
 * it, makes NaN of its sums; numbers below 2e-31 lose their last digits, as parts below 1e-38 count as 0.
 *
 * b is split once, by all threads, into what they share; each splits a few rows of a at a time, and takes the next ones
 * when it is done with them: where another program is on its core, it takes fewer.
 */
#include "../core.h"
#include "transpose.h"
#ifdef NN_AMX

enum { SIDE = 32, HALF_SIDE = SIDE / 2 };       /* sums of a tile: SIDE x SIDE, four registers of the unit */
enum { SPLITS = 3, SPLIT_SIZE = SIDE * SIDE, BLOCK_SIZE = SPLITS * SPLIT_SIZE };    /* a block: SIDE x SIDE numbers */
enum { AMX_DEPTH = MOST_FUSED_ROWS, AMX_A_BYTES = 960 * 1024, AMX_B_BYTES = 12 * 1024 * 1024 };
enum { CHUNKS = 4, LEAST_PANELS = 4 };           /* see amx_blocks */
enum { LINE = 64, PACE = 8 };

typedef uint16_t bfloat16;
enum { NUMBER_BYTES = SPLITS * sizeof(bfloat16) };        /* of a number, in all its parts */

/* ---- splitting ---- */

/* Pairs of a number of `first` and one of `second`, in three parts, SPLIT_SIZE apart. The rest after two roundings fits
 * into the third part exactly. */
INLINE void split_pairs(bfloat16 *to, vec first, vec second)
{
    typedef uint32_t words __attribute__((vector_size(VECTOR_BYTES)));
    const uint32_t upper = 0xffff0000, half = 0x8000;
    #pragma GCC unroll 3
    for (int split = 0; split < SPLITS; split++, to += SPLIT_SIZE) {
        words round = (words){} + (split < SPLITS - 1 ? half : 0);
        words a = (words)first + round, b = ((words)second + round) & upper;
        *(words *)to = a >> 16 | b;
        first -= (vec)(a & upper), second -= (vec)b;
    }
}

/* The first `count` values at `from`, none if count < 1; the others are 0. */
INLINE vec load_some(const real *from, int64_t count)
{
    if (count >= VECTOR)
        return load(from);
    vec some = {};
    for (int i = 0; i < count; i++)
        some[i] = from[i];
    return some;
}

/* A block: `rows` x `columns` numbers of a, the others 0; `step` from row to row. Its rows are rows of a:
 * a tile has rows of pairs. Along the sums, number q stands beside number q + HALF_SIDE. */
static void split_rows(bfloat16 *to, const real *from, int64_t step, int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < SIDE; r++, from += step, to += SIDE) {
        int64_t there = r < rows ? columns : 0;
        __builtin_prefetch(from + SIDE);
        __builtin_prefetch(from + SIDE + VECTOR);
        split_pairs(to, load_some(from, there), load_some(from + VECTOR, there - VECTOR));
    }
}

/* Its rows are rows of b: a tile has pairs of rows. */
static void split_columns(bfloat16 *to, const real *from, int64_t step, int64_t rows, int64_t columns)
{
    for (int64_t half = 0; half < 2; half++, from += VECTOR, columns -= VECTOR)
        for (int64_t r = 0; r < HALF_SIDE; r++, to += SIDE) {
            const real *first = from + r * step, *second = first + HALF_SIDE * step;
            __builtin_prefetch(first + SIDE * step);
            __builtin_prefetch(second + SIDE * step);
            split_pairs(to, load_some(first, r < rows ? columns : 0),
                        load_some(second, r + HALF_SIDE < rows ? columns : 0));
        }
}

/* to[j][i] = from[i][j] for `rows` x `columns` numbers, the others 0 */
static void transpose_side(real to[SIDE][SIDE], const real *from, int64_t step, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < SIDE; i += VECTOR)
        for (int64_t j = 0; j < SIDE; j += VECTOR) {
            vec row[VECTOR];
            const real *corner = from + i * step + j;
            if (i + VECTOR <= rows && j + VECTOR <= columns)
                #pragma GCC unroll 16
                for (int r = 0; r < VECTOR; r++) {
                    row[r] = load(corner + r * step);
                    __builtin_prefetch(corner + (r + SIDE) * step);
                }
            else
                #pragma GCC unroll 16
                for (int r = 0; r < VECTOR; r++)
                    row[r] = load_some(corner + r * step, i + r < rows ? columns - j : 0);
            transpose_in_registers(row);
            #pragma GCC unroll 16
            for (int r = 0; r < VECTOR; r++)
                store(&to[j + r][i], row[r]);
        }
}

/* to: a[i .. i+rows, q .. q+depth), up to SIDE rows, block by block */
static void split_a(bfloat16 *to, const product *p, int64_t i, int64_t rows, int64_t q, int64_t depth)
{
    const real *from = p->a + i * p->a_row + q * p->a_col;
    real transposed[SIDE][SIDE];
    for (int64_t d = 0; d < depth; d += SIDE, to += BLOCK_SIZE)
        if (p->a_col == 1) {
            split_rows(to, from + d, p->a_row, rows, depth - d);
        } else {
            transpose_side(transposed, from + d * p->a_col, p->a_col, depth - d, rows);
            split_rows(to, transposed[0], SIDE, SIDE, SIDE);
        }
}

/* to: b[q .. q+depth, j .. j+columns), up to SIDE columns, block by block */
static void split_b(bfloat16 *to, const product *p, int64_t q, int64_t depth, int64_t j, int64_t columns)
{
    const real *from = p->b + q * p->b_row + j * p->b_col;
    int64_t there = min_i64(columns, (p->b_width ? p->b_width : p->n) - j);
    real transposed[SIDE][SIDE];
    for (int64_t d = 0; d < depth; d += SIDE, to += BLOCK_SIZE)
        if (p->b_col == 1) {
            split_columns(to, from + d * p->b_row, p->b_row, depth - d, there);
        } else {
            transpose_side(transposed, from + d, p->b_col, there, depth - d);
            split_columns(to, transposed[0], SIDE, SIDE, SIDE);
        }
}

/* ---- the micro-kernel ---- */

/* Asm, as the intrinsics of GCC 12 do not say that they read memory. Registers 0 to 3 hold sums, 4 and 5 a, 6, 7 b. */
#define TILE_ZERO(to) __asm__ volatile("tilezero %%tmm" #to : :);
#define TILE_LOAD(to, from, row) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #to : : "r"(from), "r"((int64_t)(row)) : "memory");
#define TILE_STORE(from, to, row) \
    __asm__ volatile("tilestored %%tmm" #from ", (%0,%1,1)" : : "r"(to), "r"((int64_t)(row)) : "memory");
#define TILE_PRODUCT(to, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #to : :);

/* Where another thread shares the core, the unit takes some 20 cycles for any instruction, and twice as many where they
 * stand one behind the other: so something else stands between them, and what the next block needs is fetched there. */
#define PAUSE(instructions) __asm__ volatile(".rept %c0\n\tnop\n\t.endr" : : "i"(instructions));
#define FETCH_LINE(from, line) __asm__ volatile("prefetcht0 %c1(%0)" : : "r"(from), "i"((line) * LINE));
#define FETCH_LINES(from, line) \
    FETCH_LINE(from, line) FETCH_LINE(from, (line) + 1) FETCH_LINE(from, (line) + 2) FETCH_LINE(from, (line) + 3)
enum { NEXT_BLOCK = BLOCK_SIZE * (int)sizeof(bfloat16) / LINE };

#define SPLIT_LOADS(to, and_to, operand, split) \
    TILE_LOAD(to, operand + (split) * SPLIT_SIZE, LINE) PAUSE(PACE) \
    TILE_LOAD(and_to, operand + (split) * SPLIT_SIZE + SPLIT_SIZE / 2, LINE) PAUSE(PACE)
#define LOAD_A(split) SPLIT_LOADS(4, 5, a, split)
#define LOAD_B(split) SPLIT_LOADS(6, 7, b, split)
#define ADD_PRODUCT(to, a_tile, b_tile, line) \
    TILE_PRODUCT(to, a_tile, b_tile) \
    FETCH_LINES(a, NEXT_BLOCK + (line)) FETCH_LINES(b, NEXT_BLOCK + (line)) PAUSE(PACE / 2)
#define ADD_TILE(number) /* of the six: a sixth of the lines is fetched */ \
    ADD_PRODUCT(0, 4, 6, 16 * (number)) ADD_PRODUCT(1, 4, 7, 16 * (number) + 4) \
    ADD_PRODUCT(2, 5, 6, 16 * (number) + 8) ADD_PRODUCT(3, 5, 7, 16 * (number) + 12)

/* sums (SIDE, SIDE) = or, with `more`, += products of `blocks` blocks; `row` values from one of its rows to the next */
static void amx_tile(real *sums, int64_t row, const bfloat16 *a, const bfloat16 *b, int64_t blocks, int more)
{
    real *lower = sums + HALF_SIDE * row;
    row *= (int64_t)sizeof(real);
    if (more) {
        TILE_LOAD(0, sums, row) TILE_LOAD(1, sums + HALF_SIDE, row)
        TILE_LOAD(2, lower, row) TILE_LOAD(3, lower + HALF_SIDE, row)
    } else {
        TILE_ZERO(0) TILE_ZERO(1) TILE_ZERO(2) TILE_ZERO(3)
    }
    for (int64_t k = 0; k < blocks; k++, a += BLOCK_SIZE, b += BLOCK_SIZE) {    /* in the order with the fewest loads */
        LOAD_A(1) LOAD_B(1) ADD_TILE(0)
        LOAD_B(0) ADD_TILE(1)
        LOAD_A(2) ADD_TILE(2)
        LOAD_A(0) ADD_TILE(3)
        LOAD_B(1) ADD_TILE(4)
        LOAD_B(2) ADD_TILE(5)
    }
    TILE_STORE(0, sums, row) TILE_STORE(1, sums + HALF_SIDE, row)
    TILE_STORE(2, lower, row) TILE_STORE(3, lower + HALF_SIDE, row)
}

/* ---- blocks ---- */

/* Whether a product of such sizes gains more than it takes to split its operands. */
static int amx_pays(const product *p)
{
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k;
    return !p->rows_alike && k >= 2 * SIDE && m * n >= 112 * (m + n) && m * n * k >= 3e7;
}

INLINE int64_t whole_sides(int64_t n) { return (n + SIDE - 1) / SIDE * SIDE; }

/* The blocks that are split at a time: b (depth, width), and a (height, depth) for each of `across` parts of the
 * width. Threads take these CHUNKS times or oftener, unless that leaves parts of less than LEAST_PANELS. */
typedef struct {
    int64_t depth, width, height, across;
} amx_blocking;

static amx_blocking amx_blocks(const product *p, int threads)
{
    amx_blocking is;
    is.depth = whole_sides(p->end.kind == STEP ? p->k : even_size(p->k, AMX_DEPTH));    /* a step needs whole sums */
    is.width = whole_sides(even_size(p->n, AMX_B_BYTES / NUMBER_BYTES / is.depth / SIDE * SIDE));
    is.height = whole_sides(even_size(p->m, max_i64(SIDE, AMX_A_BYTES / NUMBER_BYTES / is.depth / SIDE * SIDE)));
    is.height = max_i64(SIDE, min_i64(is.height, p->m / (CHUNKS * threads) / SIDE * SIDE));
    int64_t down = (p->m + is.height - 1) / is.height, panels = is.width / SIDE;
    is.across = max_i64(1, min_i64(panels / LEAST_PANELS, (CHUNKS * threads + down - 1) / down));
    return is;
}

/* Bytes that each thread needs, and those that they share: no fewer than any smaller product of the kind does. */
static int64_t amx_scratch(const product *p)
{
    int64_t depth = min_i64(AMX_DEPTH, whole_sides(p->k));
    return amx_pays(p) ? min_i64(AMX_A_BYTES, whole_sides(p->m) * depth * NUMBER_BYTES) : 0;
}

static int64_t amx_shared(const product *p)
{
    int64_t depth = min_i64(AMX_DEPTH, whole_sides(p->k));
    return amx_pays(p) ? ALIGNMENT + min_i64(AMX_B_BYTES, whole_sides(p->n) * depth * NUMBER_BYTES) : 0;
}

/* The unit as its instructions find it: eight registers of 16 rows of 64 bytes. */
static void amx_begin(void)
{
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shape = {.palette = 1};
    for (int tile = 0; tile < 8; tile++)
        shape.row_bytes[tile] = LINE, shape.rows[tile] = HALF_SIDE;
    __asm__ volatile("ldtilecfg %0" : : "m"(shape));
}

static void amx_end(void) { __asm__ volatile("tilerelease" : :); }

/* c's tile at row i and column j, `rows` x `columns` of it inside c. */
static void amx_sums(const product *p, const bfloat16 *a, const bfloat16 *b, int64_t i, int64_t j, int64_t rows,
                     int64_t columns, int64_t depth, int more, int last)
{
    const int64_t blocks = whole_sides(depth) / SIDE;
    const int ends = last && p->end.kind != KEEP, whole = rows == SIDE && columns == SIDE;
    real sums[SIDE * SIDE] __attribute__((aligned(ALIGNMENT))), *c = p->c + i * p->c_row + j;
    fetch_end(SIDE, SIDE / VECTOR, c, i, j, more, last, p);
    if (whole && !ends) {
        amx_tile(c, p->c_row, a, b, blocks, more);
        return;
    }
    for (int64_t r = 0; r < rows && more; r++)
        memcpy(sums + r * SIDE, c + r * p->c_row, (size_t)columns * sizeof(real));
    amx_tile(sums, SIDE, a, b, blocks, more);
    if (whole)
        finish_out_of_line(sums, SIDE, SIDE, c, i, j, p);
    else
        for (int64_t r = 0; r < rows; r++, c += p->c_row)
            if (ends)
                finish_out_of_line(sums + r * SIDE, 1, (int)columns, c, i + r, j, p);
            else
                memcpy(c, sums + r * SIDE, (size_t)columns * sizeof(real));
}

/* c's rows [i, i+height), columns [j, j+width), from a's rows and a part of b that is split */
static void amx_rows(const product *p, bfloat16 *a, const bfloat16 *b, int64_t i, int64_t height, int64_t j,
                     int64_t width, int64_t q, int64_t depth)
{
    const int64_t panel = whole_sides(depth) * SIDE * SPLITS;
    for (int64_t r = 0; r < height; r += SIDE)
        split_a(a + r / SIDE * panel, p, i + r, min_i64(SIDE, height - r), q, depth);
    for (int64_t s = 0; s < width; s += SIDE, b += panel)
        for (int64_t r = 0; r < height; r += SIDE)
            amx_sums(p, a + r / SIDE * panel, b, i + r, j + s, min_i64(SIDE, height - r), min_i64(SIDE, width - s),
                     depth, q > 0, q + depth >= p->k);
}

/* The whole of c, by all threads. */
static void amx_multiply(const product *p, thread_team t, void *scratch)
{
    const amx_blocking is = amx_blocks(p, t.count);
    const int64_t down = (p->m + is.height - 1) / is.height;
    int64_t *next = p->shared_scratch, first, last;
    bfloat16 *b = (bfloat16 *)((char *)p->shared_scratch + ALIGNMENT), *a = scratch;
    amx_begin();
    for (int64_t j = 0; j < p->n; j += is.width)
        for (int64_t q = 0; q < p->k; q += is.depth) {
            int64_t width = min_i64(is.width, p->n - j), depth = min_i64(is.depth, p->k - q);
            int64_t panels = whole_sides(width) / SIDE, panel = whole_sides(depth) * SIDE * SPLITS, task;
            thread_share(t, panels, 1, &first, &last);
            for (int64_t s = first; s < last; s++)
                split_b(b + s * panel, p, q, depth, j + s * SIDE, min_i64(SIDE, width - s * SIDE));
            if (t.id == 0)
                __atomic_store_n(next, 0, __ATOMIC_RELAXED);
            barrier_wait(t);
            while ((task = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < down * is.across) {
                int64_t i = task / is.across * is.height;
                thread_team share = {(int)(task % is.across), (int)is.across, NULL};
                thread_share(share, panels, 1, &first, &last);
                amx_rows(p, a, b + first * panel, i, min_i64(is.height, p->m - i), j + first * SIDE,
                         min_i64(width, last * SIDE) - first * SIDE, q, depth);
            }
            barrier_wait(t);               /* before b and `next` change */
        }
    amx_end();
}

#else                                   /* a core without the unit, or for float64 */
static int amx_pays(const product *p) { return (void)p, 0; }
static int64_t amx_scratch(const product *p) { return (void)p, 0; }
static int64_t amx_shared(const product *p) { return (void)p, 0; }
static void amx_multiply(const product *p, thread_team t, void *scratch) { (void)p, (void)t, (void)scratch; }
#endif
