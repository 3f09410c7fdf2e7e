/* conv_winograd.c - convolution with 3 x 3 kernels at stride 1 in a quarter of the
 * multiplications (Winograd 1980; Lavin and Gray 2016, F(4x4, 3x3)). A tile of 4 x 4 outputs
 * reads 6 x 6 pixels d of the image through a kernel g:
 *     out = A' [(G g G') * (B' d B)] A,   * element by element,   36 multiplications in place of
 *                                         144.
 * This is a product of polynomials, done at points: both factors are evaluated there,
 * multiplied, and the product is interpolated. The points are 0, +-p, +-q and infinity with p =
 * 1/sqrt(2), q = sqrt(2), which keep all numbers of one size: the error in float32 is some two
 * and a half times that of the direct sum (measured: 5e-7 of the result), where the usual points
 * 1 and 2 double it again. As the whole is linear in g, dg = G' [(A dz A') * (B' d B)] G.
 * For each of the 36 places the products, summed over channels (for dg: over tiles), are a
 * matrix product.
 */
#include "../core.h"
#include "vector.h"

enum { TILE_SIDE = 4, SEEN = 6, PLACES = SEEN * SEEN };
/* BLOCK_BYTES 512 KiB: of the tiles of a block, which stay in the L2 cache; at least half of the
 * packed kernels, which are read once a block. */
enum { BLOCK_BYTES = 512 * 1024 };
/* beyond, packed kernels and their gradients take too much memory */
enum { MOST_KERNELS = 256 * 256 };

static int64_t tiles_along(int64_t pixels) { return (pixels + TILE_SIDE - 1) / TILE_SIDE; }

/* Enough channels to fill the matrix products, and few enough pixels past the image's end. */
static int winograd_pays(const conv_geometry *s)
{
    int64_t tiles = tiles_along(s->height) * tiles_along(s->width);
    return s->kh == 3 && s->kw == 3 && s->stride == 1 && s->in >= 16 && s->out >= 16
        && s->in * s->out <= MOST_KERNELS && PLACES * tiles < 6 * s->height * s->width;
}

/* Transformed tiles: (places, tiles, width). A block holds rows of tiles of one image or of
 * several, so that small images too make tall matrices; places are a line more than a power of 2
 * apart, as the 36 values of a tile are written together and must not meet in one set of the
 * cache. */
typedef struct {
    int64_t rows, tiles;                        /* rows of tiles in a block, tiles in all of them */
    int64_t in, out;                            /* width on either side */
    int64_t in_place, out_place;                /* values from one place to the next */
} tile_block;

static int64_t winograd_packed_size(const conv_geometry *s)
{ return PLACES * s->in * row_stride(s->out); }

static tile_block block_of(const conv_geometry *s, int64_t images)
{
    tile_block b = {.in = row_stride(s->in), .out = row_stride(s->out)};
    int64_t across = tiles_along(s->width);
    int64_t row_bytes = PLACES * across * (b.in + b.out) * (int64_t)sizeof(real);
    int64_t bytes = max_i64(BLOCK_BYTES, winograd_packed_size(s) / 2 * (int64_t)sizeof(real));
    b.rows = max_i64(1, min_i64(images * tiles_along(s->height), bytes / row_bytes));
    b.tiles = b.rows * across;
    b.in_place = b.tiles * b.in + VECTOR;
    b.out_place = b.tiles * b.out + VECTOR;
    return b;
}

/* Input channels whose gradients are summed at once: their sums take no more of the L2 cache
 * than a block does. */
static int64_t channels_together(const conv_geometry *s)
{
    return min_i64(s->in, max_i64(VECTOR, BLOCK_BYTES / (PLACES * row_stride(s->out) *
                                                         (int64_t)sizeof(real))));
}

static int64_t winograd_scratch(const conv_geometry *s, int64_t images)
{
    tile_block b = block_of(s, images);
    int64_t sums = PLACES * channels_together(s) * row_stride(s->out);
    return (PLACES * (b.in_place + b.out_place) + sums) * (int64_t)sizeof(real);
}

/* ---- transforms: of one line of values, then of a tile ---- */

#define P ((real)0.70710678118654752440)
#define Q ((real)1.41421356237309504880)

/* B' d: the rows of B' are the polynomials that vanish at all points but one */
INLINE void image_line(vec to[SEEN], const vec d[SEEN])
{
    vec even_p = d[4] - 2 * d[2], odd_p = P * (d[3] - 2 * d[1]);
    vec even_q = d[4] - (real)0.5 * d[2], odd_q = Q * (d[3] - (real)0.5 * d[1]);
    to[0] = d[0] + d[4] - (real)2.5 * d[2];
    to[1] = even_p + odd_p, to[2] = even_p - odd_p;
    to[3] = even_q + odd_q, to[4] = even_q - odd_q;
    to[5] = d[1] + d[5] - (real)2.5 * d[3];
}

/* G g: the value of g at each point, over that of the point's polynomial */
INLINE void kernel_line(vec to[SEEN], const vec g[3])
{
    const real over_p = (real)(-2 / 3.0), over_q = (real)(1 / 6.0);
    vec even_p = over_p * (g[0] + (real)0.5 * g[2]), odd_p = over_p * P * g[1];
    vec even_q = over_q * (g[0] + 2 * g[2]), odd_q = over_q * Q * g[1];
    to[0] = g[0];
    to[1] = even_p + odd_p, to[2] = even_p - odd_p;
    to[3] = even_q + odd_q, to[4] = even_q - odd_q;
    to[5] = g[2];
}

/* A' m: powers of the points */
INLINE void output_line(vec to[TILE_SIDE], const vec m[SEEN])
{
    vec even_p = m[1] + m[2], odd_p = P * (m[1] - m[2]), even_q = m[3] + m[4],
        odd_q = Q * (m[3] - m[4]);
    to[0] = m[0] + even_p + even_q;
    to[1] = odd_p + odd_q;
    to[2] = (real)0.5 * even_p + 2 * even_q;
    to[3] = (real)0.5 * odd_p + 2 * odd_q + m[5];
}

/* A z */
INLINE void gradient_line(vec to[SEEN], const vec z[TILE_SIDE])
{
    vec even_p = z[0] + (real)0.5 * z[2], odd_p = P * (z[1] + (real)0.5 * z[3]);
    vec even_q = z[0] + 2 * z[2], odd_q = Q * (z[1] + 2 * z[3]);
    to[0] = z[0];
    to[1] = even_p + odd_p, to[2] = even_p - odd_p;
    to[3] = even_q + odd_q, to[4] = even_q - odd_q;
    to[5] = z[3];
}

/* G' s */
INLINE void weight_line(vec to[3], const vec s[SEEN])
{
    const real over_p = (real)(-2 / 3.0), over_q = (real)(1 / 6.0);
    vec even_p = over_p * (s[1] + s[2]), odd_p = over_p * P * (s[1] - s[2]);
    vec even_q = over_q * (s[3] + s[4]), odd_q = over_q * Q * (s[3] - s[4]);
    to[0] = s[0] + even_p + even_q;
    to[1] = odd_p + odd_q;
    to[2] = (real)0.5 * even_p + 2 * even_q + s[5];
}

/* A column of pixels that a tile sees, `lanes` channels of it: rows [first, last) lie in the
 * image. */
INLINE void load_column(vec d[SEEN], const real *top, int64_t image_row, int64_t first,
                        int64_t last, int64_t lanes)
{
    const int whole = first == 0 && last == SEEN;
    #pragma GCC unroll 6
    for (int k = 0; k < SEEN; k++)
        d[k] = whole || (k >= first && k < last) ? load_lanes(top + k * image_row, lanes) : (vec){};
}

/* Rows [first, first + rows) of tiles, the first in the padded image's corner: B' d B, of
 * channels [begin, end). What lies outside the image counts as 0. A column of pixels is
 * transformed once for all tiles it is in. */
static void transform_image(real *to, const real *image, const padded_image *f, int64_t first,
                            int64_t rows, int64_t begin, int64_t end, const conv_geometry *s,
                            const tile_block *b)
{
    int64_t across = tiles_along(s->width), image_row = f->width * f->channels;
    for (int64_t y = 0; y < rows; y++) {
        int64_t top = TILE_SIDE * (first + y) - f->top, inside = max_i64(0, -top),
                last = min_i64(SEEN, f->height - top);
        for (int64_t j = begin; j < end; j += VECTOR) {
            real *place = to + y * across * b->in + j - begin;
            vec column[SEEN][SEEN];
            for (int64_t x = 0; x < across; x++) {
                for (int i = x > 0 ? SEEN - TILE_SIDE : 0; i < SEEN; i++) {
                    int64_t at = TILE_SIDE * x + i - f->left;
                    vec d[SEEN] = {{0}};
                    if (at >= 0 && at < f->width)
                        load_column(d, image + top * image_row + at * f->channels + j, image_row,
                                    inside, last, f->channels - j);
                    image_line(column[i], d);
                }
                for (int i = 0; i < SEEN; i++) {
                    vec d[SEEN], line[SEEN];
                    #pragma GCC unroll 6
                    for (int k = 0; k < SEEN; k++)
                        d[k] = column[k][i];
                    image_line(line, d);
                    #pragma GCC unroll 6
                    for (int k = 0; k < SEEN; k++)
                        store(place + (SEEN * i + k) * b->in_place + x * b->in, line[k]);
                }
                memcpy(column, column[TILE_SIDE], (SEEN - TILE_SIDE) * sizeof column[0]);
            }
        }
    }
}

/* G g G', packed: (places, strips of channels, in, lanes of the strip). This thread's share of
 * the input's channels. */
static void winograd_pack(real *to, const real *w, const conv_geometry *s, thread_team t)
{
    int64_t out = row_stride(s->out), first, last;
    thread_share(t, s->in, 1, &first, &last);
    for (int64_t c = first; c < last; c++)
        for (int64_t j = 0; j < out; j += VECTOR) {
            int64_t strip = j / STRIP * STRIP, width = min_i64(STRIP, out - strip);
            const real *kernel = w + s->w + j * s->w_out + c * s->w_in;
            vec g[3][3] = {{{0}}}, half[SEEN][3], line[SEEN];
            for (int64_t lane = 0; lane < min_i64(VECTOR, s->out - j); lane++)
                for (int y = 0; y < 3; y++)
                    for (int x = 0; x < 3; x++)
                        ((real *)&g[x][y])[lane] =
                            kernel[lane * s->w_out + y * s->w_down + x * s->w_right];
            for (int x = 0; x < 3; x++) {
                kernel_line(line, g[x]);
                for (int y = 0; y < SEEN; y++)
                    half[y][x] = line[y];
            }
            for (int y = 0; y < SEEN; y++) {
                kernel_line(line, half[y]);
                for (int x = 0; x < SEEN; x++)
                    store(to + ((SEEN * y + x) * out + strip) * s->in + c * width + j - strip,
                          line[x]);
            }
        }
}

/* From a tile's first output to the next tile's. */
INLINE void next_tile(int64_t *oy, int64_t *ox, const conv_geometry *s)
{
    *ox += TILE_SIDE;
    if (*ox >= s->width)
        *oy += TILE_SIDE, *ox = 0;
}

/* A' m A of rows of tiles of the image at image_at, to its target. */
static void transform_output(const target *to, int64_t image_at, const real *m, int64_t first_row,
                             int64_t rows, const conv_geometry *s, const tile_block *b)
{
    for (int64_t tile = 0, oy = TILE_SIDE * first_row, ox = 0; tile < rows * tiles_along(s->width);
         tile++) {
        int64_t down = min_i64(TILE_SIDE, s->height - oy),
                right = min_i64(TILE_SIDE, s->width - ox);
        for (int64_t j = 0; j < s->out; j += VECTOR) {
            const real *place = m + tile * b->out + j;
            int64_t lanes = min_i64(VECTOR, s->out - j);
            vec half[TILE_SIDE][SEEN], begin = to->first ? load(to->first + j) : (vec){};
            for (int k = 0; k < SEEN; k++) {
                vec column[SEEN], four[TILE_SIDE];
                #pragma GCC unroll 6
                for (int i = 0; i < SEEN; i++)
                    column[i] = load(place + (SEEN * i + k) * b->out_place);
                output_line(four, column);
                #pragma GCC unroll 4
                for (int i = 0; i < TILE_SIDE; i++)
                    half[i][k] = four[i];
            }
            for (int64_t y = 0; y < down; y++) {
                vec four[TILE_SIDE];
                output_line(four, half[y]);
                #pragma GCC unroll 4
                for (int64_t k = 0; k < TILE_SIDE; k++) {
                    int64_t at = image_at + s->c + (oy + y) * s->c_down + (ox + k) * s->c_right + j;
                    vec value = four[k] + begin;
                    if (k >= right)
                        break;
                    if (to->relu)
                        value = pick(value <= 0, (vec){}, value);
                    if (to->mask)
                        value = (vec)((load_lanes(to->mask + at, lanes) > 0) & (ivec)value);
                    store_some(to->out + at, value, lanes);
                }
            }
        }
        next_tile(&oy, &ox, s);
    }
}

/* The images' tiles of rows [row, end), counted through the batch, transformed: channels [first,
 * last). */
static void transform_rows(real *seen, const source *from, int64_t row, int64_t end, int64_t first,
                           int64_t last, const conv_geometry *s, const tile_block *b)
{
    for (image_rows p; row < end; row += p.rows, seen += p.rows * tiles_along(s->width) * b->in) {
        p = image_rows_at(row, end, tiles_along(s->height));
        transform_image(seen, from->images + p.image * from->image_stride, &from->padded, p.row,
                        p.rows, first, last, s, b);
    }
}

/* For each place: products (tiles, out) = seen (tiles, in) packed (in, out) */
static void multiply_tiles(real *products, const real *seen, const real *packed, int64_t tiles,
                           const conv_geometry *s, const tile_block *b)
{
    sums tile = {.steps = s->in, .segments = 1, .a_row = b->in, .a_step = 1, .c_row = b->out};
    for (int64_t place = 0; place < PLACES; place++)
        for (int64_t strip = 0; strip < b->out; strip += STRIP) {
            int columns = b->out - strip > VECTOR ? 2 : 1;
            tile.b_step = columns * VECTOR;
            for (int64_t i = 0, height; i < tiles; i += height) {
                height = tile_height(tiles, i, tallest(columns));
                window_tiles[height - 1][columns - 1](
                    &tile, products + place * b->out_place + i * b->out + strip, NULL,
                    seen + place * b->in_place + i * b->in,
                    packed + (place * b->out + strip) * s->in, NULL);
            }
        }
}

/* Rows [row, end) of tiles, counted through the batch. */
static void winograd_rows(const target *to, source *from, const real *packed,
                          const conv_geometry *s, int64_t row, int64_t end, real *scratch)
{
    int64_t across = tiles_along(s->width), down = tiles_along(s->height);
    tile_block b = block_of(s, (end - row + down - 1) / down);
    real *seen = scratch, *products = seen + PLACES * b.in_place;
    for (int64_t next; row < end; row = next) {
        next = min_i64(end, row + b.rows);
        transform_rows(seen, from, row, next, 0, s->in, s, &b);
        multiply_tiles(products, seen, packed, (next - row) * across, s, &b);
        const real *done = products;
        for (image_rows p; row < next; row += p.rows, done += p.rows * across * b.out) {
            p = image_rows_at(row, next, down);
            transform_output(to, p.image * to->image_stride, done, p.row, p.rows, s, &b);
        }
    }
}

/* ---- the weight's gradient ---- */

/* A dz A' of rows of tiles; outputs past the image's end count as 0. The sums of dz are added to
 * db, unless NULL. */
static void transform_gradient(real *to, real *db, const real *dz, int64_t first_row, int64_t rows,
                               const conv_geometry *s, const tile_block *b)
{
    for (int64_t tile = 0, oy = TILE_SIDE * first_row, ox = 0; tile < rows * tiles_along(s->width);
         tile++) {
        int64_t down = min_i64(TILE_SIDE, s->height - oy),
                right = min_i64(TILE_SIDE, s->width - ox);
        for (int64_t j = 0; j < s->out; j += VECTOR) {
            const real *z = dz + oy * s->c_down + ox * s->c_right + j;
            vec column[TILE_SIDE][SEEN], sum = {};
            for (int64_t k = 0; k < TILE_SIDE; k++) {
                vec four[TILE_SIDE];
                #pragma GCC unroll 4
                for (int64_t i = 0; i < TILE_SIDE; i++)
                    four[i] = i < down && k < right
                                  ? load_lanes(z + i * s->c_down + k * s->c_right, s->out - j)
                                  : (vec){};
                gradient_line(column[k], four);
                sum += (four[0] + four[1]) + (four[2] + four[3]);
            }
            if (db)
                store(db + j, load(db + j) + sum);
            for (int i = 0; i < SEEN; i++) {
                vec four[TILE_SIDE] = {column[0][i], column[1][i], column[2][i], column[3][i]},
                    line[SEEN];
                gradient_line(line, four);
                #pragma GCC unroll 6
                for (int k = 0; k < SEEN; k++)
                    store(to + (SEEN * i + k) * b->out_place + tile * b->out + j, line[k]);
            }
        }
        next_tile(&oy, &ox, s);
    }
}

/* For each place: sums (channels, out) (+)= seen' (channels, tiles) gradients (tiles, out) */
static void multiply_gradients(real *sums_at, const real *seen, const real *gradients,
                               int64_t tiles, int64_t channels, const tile_block *b, int fresh)
{
    sums tile = {.steps = tiles, .segments = 1, .a_row = 1, .a_step = b->in, .b_step = b->out};
    tile.c_row = tile.first_row = b->out;
    for (int64_t place = 0; place < PLACES; place++)
        for (int64_t strip = 0; strip < b->out; strip += STRIP) {
            int columns = b->out - strip > VECTOR ? 2 : 1;
            for (int64_t i = 0, height; i < channels; i += height) {
                real *c = sums_at + (place * channels + i) * b->out + strip;
                height = tile_height(channels, i, tallest(columns));
                window_tiles[height - 1][columns - 1](
                    &tile, c, fresh ? NULL : c, seen + place * b->in_place + i,
                    gradients + place * b->out_place + strip, NULL);
            }
        }
}

/* G' s G of the sums of channels from `first` on, as a partial of a gradient holds them: see
 * reduce_gradient. */
static void transform_sums(real *partial, const real *sums_at, int64_t first, int64_t channels,
                           const conv_geometry *s)
{
    int64_t out = row_stride(s->out), run = run_length(s);
    for (int64_t c = 0; c < channels; c++)
        for (int64_t j = 0; j < out; j += VECTOR) {
            int64_t strip = j / STRIP * STRIP, width = min_i64(STRIP, out - strip);
            vec half[3][SEEN];
            for (int k = 0; k < SEEN; k++) {
                vec column[SEEN], three[3];
                for (int i = 0; i < SEEN; i++)
                    column[i] = load(sums_at + ((SEEN * i + k) * channels + c) * out + j);
                weight_line(three, column);
                half[0][k] = three[0], half[1][k] = three[1], half[2][k] = three[2];
            }
            real *to = partial + strip * s->kh * run + (first + c) * width + j - strip;
            for (int64_t y = 0; y < 3; y++) {
                vec three[3];
                weight_line(three, half[y]);
                for (int64_t x = 0; x < 3; x++)
                    store(to + (y * run + x * s->in) * width, three[x]);
            }
        }
}

/* partial = the share of n images in the weight's gradient: shares are of the input's channels;
 * db = the sums of dz */
static void winograd_gradient(real *partial, real *db, const real *dz, int64_t dz_stride,
                              source *from, const conv_geometry *s, int64_t n, share d,
                              real *scratch)
{
    int64_t across = tiles_along(s->width), down = tiles_along(s->height),
            end = s->in * d.last / d.shares;
    tile_block b = block_of(s, n);
    real *seen = scratch, *gradients = seen + PLACES * b.in_place,
         *sums_at = gradients + PLACES * b.out_place;
    if (db)
        memset(db, 0, (size_t)row_stride(s->out) * sizeof(real));
    for (int64_t c = s->in * d.first / d.shares, channels; c < end; c += channels, db = NULL) {
        channels = min_i64(end - c, channels_together(s));
        for (int64_t row = 0, next; row < n * down; row = next) {
            next = min_i64(n * down, row + b.rows);
            transform_rows(seen, from, row, next, c, c + channels, s, &b);
            real *to = gradients;
            for (image_rows p; row < next; row += p.rows, to += p.rows * across * b.out) {
                p = image_rows_at(row, next, down);
                transform_gradient(to, db, dz + p.image * dz_stride, p.row, p.rows, s, &b);
            }
            multiply_gradients(sums_at, seen, gradients, (to - gradients) / b.out, channels, &b,
                               next <= b.rows);
        }
        transform_sums(partial, sums_at, c, channels, s);
    }
}
#undef P
#undef Q
