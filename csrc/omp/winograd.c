/* winograd.c - convolution with 3 x 3 kernels at stride 1 in fewer multiplications (Winograd 1980; Lavin and Gray 2016,
 * F(2x2, 3x3)). A tile of 2 x 2 outputs sees 4 x 4 pixels d of the image through a kernel g:
 *     out = A' [(G g G') * (B' d B)] A,   * element by element,   16 multiplications in place of 36,
 *     B' = 1  0 -1  0     G = 1   0   0      A' = 1 1  1 0
 *          0  1  1  0        1/2  1/2 1/2         0 1 -1 1
 *          0 -1  1  0        1/2 -1/2 1/2
 *          0 -1  0  1         0   0   1
 * and, as this is linear in g, dg = G' [(A dz A') * (B' d B)] G. For each of the 16 places the products, summed over
 * channels (for dg: over tiles), are a matrix product. All entries are 0, 1 or 1/2: the error is that of the
 * direct sum.
 */
#include "../core.h"
#include "vector.h"

enum { PLACES = 16 };
enum { BLOCK_BYTES = 256 * 1024 };              /* of tiles that are under way at once: they stay in the second cache */

static int64_t tiles_along(int64_t pixels) { return (pixels + 1) / 2; }

/* Enough channels to fill the matrix products, and few enough pixels past the image's end. */
static int winograd_pays(const slide *s)
{
    int64_t tiles = tiles_along(s->height) * tiles_along(s->width);
    return s->kh == 3 && s->kw == 3 && s->stride == 1 && s->in >= 16 && s->out >= 16 && s->group == 1
        && PLACES * tiles < 6 * s->height * s->width;
}

/* The frame, made larger where the last tiles are not whole. */
static frame frame_of_tiles(frame f)
{
    f.rows += f.rows % 2;
    f.columns += f.columns % 2;
    return f;
}

/* Transformed tiles: (places, tiles, width); places are a line more than a power of 2 apart, as the 16 values of a
 * tile are written together and must not meet in one set of the cache. */
typedef struct {
    int64_t rows, tiles;                        /* rows of tiles in a block, tiles in all of them */
    int64_t in, out;                            /* width on either side */
    int64_t in_place, out_place;                /* values from one place to the next */
} tile_block;

static tile_block block_of(const slide *s)
{
    tile_block b = {.in = row_stride(s->in), .out = row_stride(s->out)};
    int64_t across = tiles_along(s->width);
    int64_t row_bytes = PLACES * across * (b.in + b.out) * (int64_t)sizeof(real);
    b.rows = max_i64(1, min_i64(tiles_along(s->height), BLOCK_BYTES / row_bytes));
    b.tiles = b.rows * across;
    b.in_place = b.tiles * b.in + VECTOR;
    b.out_place = b.tiles * b.out + VECTOR;
    return b;
}

static int64_t winograd_scratch(const slide *s)
{
    tile_block b = block_of(s);
    return PLACES * (b.in_place + b.out_place) * (int64_t)sizeof(real);
}

static int64_t winograd_packed_size(const slide *s) { return PLACES * s->in * row_stride(s->out); }

/* ---- transforms: of one line of values, then of a tile ---- */

INLINE void image_line(vec to[4], const vec d[4])
{
    to[0] = d[0] - d[2], to[1] = d[1] + d[2], to[2] = d[2] - d[1], to[3] = d[3] - d[1];
}

INLINE void kernel_line(real to[4], const real g[3])
{
    real ends = (g[0] + g[2]) / 2;
    to[0] = g[0], to[1] = ends + g[1] / 2, to[2] = ends - g[1] / 2, to[3] = g[2];
}

INLINE void output_line(vec to[2], const vec m[4])
{
    to[0] = m[0] + m[1] + m[2], to[1] = m[1] - m[2] + m[3];
}

INLINE void gradient_line(vec to[4], const vec z[2])
{
    to[0] = z[0], to[1] = z[0] + z[1], to[2] = z[0] - z[1], to[3] = z[1];
}

INLINE void weight_line(vec to[3], const vec s[4])
{
    vec sum = (s[1] + s[2]) / 2, difference = (s[1] - s[2]) / 2;
    to[0] = s[0] + sum, to[1] = difference, to[2] = sum + s[3];
}

/* Rows [first, first + rows) of tiles: B' d B. A column of pixels is transformed once for the two tiles it is in. */
static void transform_image(real *to, const real *image, int64_t image_row, int64_t first, int64_t rows, const slide *s,
                            const tile_block *b)
{
    int64_t across = tiles_along(s->width);
    for (int64_t y = 0; y < rows; y++)
        for (int64_t j = 0; j < s->in; j += VECTOR) {
            const real *from = image + 2 * (first + y) * image_row + j;
            real *place = to + y * across * b->in + j;
            vec column[4][4];
            for (int64_t x = -1; x < across; x++) {
                #pragma GCC unroll 2
                for (int i = 2; i < 4; i++) {
                    const real *pixel = from + (2 * x + i) * s->in;
                    vec d[4] = {load(pixel), load(pixel + image_row), load(pixel + 2 * image_row), load(pixel + 3 * image_row)};
                    image_line(column[i], d);
                }
                if (x >= 0)
                    #pragma GCC unroll 4
                    for (int i = 0; i < 4; i++) {
                        vec d[4] = {column[0][i], column[1][i], column[2][i], column[3][i]}, line[4];
                        image_line(line, d);
                        #pragma GCC unroll 4
                        for (int k = 0; k < 4; k++)
                            store(place + (4 * i + k) * b->in_place + x * b->in, line[k]);
                    }
                #pragma GCC unroll 4
                for (int i = 0; i < 4; i++)
                    column[0][i] = column[2][i], column[1][i] = column[3][i];
            }
        }
}

/* G g G', packed: (places, strips of channels, in, lanes of the strip). This thread's share of the input's channels. */
static void winograd_pack(real *to, const real *w, const slide *s, team t)
{
    int64_t size = s->in * row_stride(s->out), first, last;
    team_share(t, s->in, 1, &first, &last);
    for (int64_t c = first; c < last; c++)
        for (int64_t lane = 0; lane < row_stride(s->out); lane++) {
            int64_t strip = lane / STRIP * STRIP, width = min_i64(STRIP, row_stride(s->out) - strip);
            const real *g = w + s->w + lane * s->w_out + c * s->w_in;
            real half[3][4], turned[4][3], whole[4][4] = {{0}};
            for (int x = 0; x < 3 && lane < s->out; x++) {
                real column[3] = {g[x * s->w_right], g[s->w_down + x * s->w_right], g[2 * s->w_down + x * s->w_right]};
                kernel_line(half[x], column);
                for (int y = 0; y < 4; y++)
                    turned[y][x] = half[x][y];
            }
            for (int y = 0; y < 4 && lane < s->out; y++)
                kernel_line(whole[y], turned[y]);
            for (int place = 0; place < PLACES; place++)
                to[place * size + strip * s->in + c * width + lane - strip] = whole[place / 4][place % 4];
        }
}

/* From a tile's first output to the next tile's. */
INLINE void next_tile(int64_t *oy, int64_t *ox, const slide *s)
{
    *ox += 2;
    if (*ox >= s->width)
        *oy += 2, *ox = 0;
}

/* A' m A of rows of tiles, + first (NULL: 0), then relu or masked by x > 0, into the image. */
static void transform_output(real *out, const real *m, const real *first, const real *x, int relu, int64_t first_row,
                             int64_t rows, const slide *s, const tile_block *b)
{
    for (int64_t tile = 0, oy = 2 * first_row, ox = 0; tile < rows * tiles_along(s->width); tile++) {
        for (int64_t j = 0; j < s->out; j += VECTOR) {
            const real *place = m + tile * b->out + j;
            int64_t lanes = min_i64(VECTOR, s->out - j);
            vec half[2][4];
            #pragma GCC unroll 4
            for (int k = 0; k < 4; k++) {
                vec column[4], two[2];
                #pragma GCC unroll 4
                for (int i = 0; i < 4; i++)
                    column[i] = load(place + (4 * i + k) * b->out_place);
                output_line(two, column);
                half[0][k] = two[0], half[1][k] = two[1];
            }
            #pragma GCC unroll 2
            for (int y = 0; y < 2; y++) {
                vec two[2];
                output_line(two, half[y]);
                #pragma GCC unroll 2
                for (int k = 0; k < 2; k++) {
                    if (oy + y >= s->height || ox + k >= s->width)
                        continue;
                    int64_t at = s->c + (oy + y) * s->c_down + (ox + k) * s->c_right + j;
                    vec value = first ? two[k] + load(first + j) : two[k];
                    if (relu)
                        value = pick(value <= 0, (vec){}, value);
                    if (x)
                        value = (vec)((load(x + at) > 0) & (ivec)value);
                    if (lanes == VECTOR)
                        store(out + at, value);
                    else
                        for (int64_t i = 0; i < lanes; i++)
                            out[at + i] = value[i];
                }
            }
        }
        next_tile(&oy, &ox, s);
    }
}

/* Rows [first_tile, last_tile) of tiles of an image: out = first + image through the packed kernels. */
static void winograd_rows(real *out, const real *image, int64_t image_row, const real *packed, const real *first,
                          const real *x, int relu, const slide *s, int64_t first_tile, int64_t last_tile, real *scratch)
{
    tile_block b = block_of(s);
    real *seen = scratch, *products = seen + PLACES * b.in_place;
    sums tile = {.steps = s->in, .segments = 1, .a_row = b.in, .a_step = 1, .c_row = b.out};
    image += s->at_y * image_row + s->at_x * s->in;
    for (int64_t y = first_tile; y < last_tile; y += b.rows) {
        int64_t rows = min_i64(b.rows, last_tile - y), tiles = rows * tiles_along(s->width);
        transform_image(seen, image, image_row, y, rows, s, &b);
        for (int64_t place = 0; place < PLACES; place++)
            for (int64_t strip = 0; strip < b.out; strip += STRIP) {
                int columns = b.out - strip > VECTOR ? 2 : 1;
                tile.b_step = columns * VECTOR;
                for (int64_t i = 0, height; i < tiles; i += height) {
                    height = tile_height(tiles, i, tallest(columns));
                    window_tiles[columns - 1][height - 1](
                        &tile, products + place * b.out_place + i * b.out + strip, NULL,
                        seen + place * b.in_place + i * b.in, packed + (place * b.out + strip) * s->in, NULL);
                }
            }
        transform_output(out, products, first, x, relu, y, rows, s, &b);
    }
}

/* ---- the weight's gradient ---- */

/* A dz A' of rows of tiles; outputs past the image's end count as 0. */
static void transform_gradient(real *to, const real *dz, int64_t first_row, int64_t rows, const slide *s,
                               const tile_block *b)
{
    for (int64_t tile = 0, oy = 2 * first_row, ox = 0; tile < rows * tiles_along(s->width); tile++) {
        for (int64_t j = 0; j < s->out; j += VECTOR) {
            int more_down = oy + 1 < s->height, more_right = ox + 1 < s->width;
            const real *z = dz + oy * s->c_down + ox * s->c_right + j;
            vec left[2] = {load(z), more_down ? load(z + s->c_down) : (vec){}};
            vec right[2] = {more_right ? load(z + s->c_right) : (vec){},
                            more_down && more_right ? load(z + s->c_down + s->c_right) : (vec){}};
            vec column[2][4];
            gradient_line(column[0], left);
            gradient_line(column[1], right);
            #pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                vec two[2] = {column[0][i], column[1][i]}, line[4];
                gradient_line(line, two);
                #pragma GCC unroll 4
                for (int k = 0; k < 4; k++)
                    store(to + (4 * i + k) * b->out_place + tile * b->out + j, line[k]);
            }
        }
        next_tile(&oy, &ox, s);
    }
}

/* Sums of products of one image, (places, strips, in, lanes), added to piece; only places of shares [first, last). */
static void winograd_gradient(real *piece, const real *dz, const real *image, int64_t image_row, const slide *s,
                              int64_t first, int64_t last, int64_t shares, int fresh, real *scratch)
{
    tile_block b = block_of(s);
    real *seen = scratch, *gradients = seen + PLACES * b.in_place;
    int64_t down = tiles_along(s->height);
    image += s->at_y * image_row + s->at_x * s->in;
    for (int64_t y = 0; y < down; y += b.rows) {
        int64_t rows = min_i64(b.rows, down - y);
        sums tile = {.steps = rows * tiles_along(s->width), .segments = 1, .a_row = 1, .a_step = b.in, .b_step = b.out};
        transform_image(seen, image, image_row, y, rows, s, &b);
        transform_gradient(gradients, dz, y, rows, s, &b);
        for (int64_t place = 0; place < PLACES; place++) {
            if (place % shares < first || place % shares >= last)
                continue;
            for (int64_t strip = 0; strip < b.out; strip += STRIP) {
                int columns = b.out - strip > VECTOR ? 2 : 1, begin = fresh && y == 0;
                tile.c_row = tile.first_row = columns * VECTOR;
                for (int64_t i = 0, height; i < s->in; i += height) {
                    real *c = piece + (place * b.out + strip) * s->in + i * tile.c_row;
                    height = tile_height(s->in, i, tallest(columns));
                    window_tiles[columns - 1][height - 1](&tile, c, begin ? NULL : c, seen + place * b.in_place + i,
                                                          gradients + place * b.out_place + strip, NULL);
                }
            }
        }
    }
}

/* G' s G of the pieces' sum s, into the weight's gradient: this thread's share of the input's channels. */
static void winograd_gather(real *dw, const real *pieces, int64_t count, int64_t piece, const slide *s, team t)
{
    int64_t out = row_stride(s->out), first, last;
    team_share(t, s->in, 1, &first, &last);
    for (int64_t c = first; c < last; c++)
        for (int64_t j = 0; j < out; j += VECTOR) {
            int64_t strip = j / STRIP * STRIP, width = min_i64(STRIP, out - strip);
            vec half[3][4];
            for (int k = 0; k < 4; k++) {
                vec column[4], three[3];
                for (int i = 0; i < 4; i++) {
                    const real *from = pieces + ((4 * i + k) * out + strip) * s->in + c * width + j - strip;
                    column[i] = load(from);
                    for (int64_t p = 1; p < count; p++)
                        column[i] += load(from + p * piece);
                }
                weight_line(three, column);
                half[0][k] = three[0], half[1][k] = three[1], half[2][k] = three[2];
            }
            for (int y = 0; y < 3; y++) {
                vec three[3];
                weight_line(three, half[y]);
                for (int x = 0; x < 3; x++)
                    for (int64_t lane = j; lane < min_i64(j + VECTOR, s->out); lane++)
                        dw[s->w + lane * s->w_out + c * s->w_in + y * s->w_down + x * s->w_right] = three[x][lane - j];
            }
        }
}
