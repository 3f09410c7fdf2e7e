/* conv_direct.c - the direct convolution: kernels that slide over images. Images are
 * channels-last: pixel (y,x) of an image is a run of c values.
 *
 * The part of a window in one image row is then one run of memory, and a convolution is a matrix
 * product whose left side is read from the image in place: nothing is unrolled. One micro-kernel
 * does all three passes. Its sums stay in registers, windows (or taps) down, channels across:
 *     out (windows, f)     = image  windows x taps, the loop over taps
 *     dx  (pixels, c)      = dz     the same with the kernel rotated by 180 degrees, once per
 *         phase of the stride
 *     dw  (taps, f)        = image' taps x windows, the loop over windows
 *
 * Every sum has one order, given by the sizes.
 * uses: matrix.c (tile_height)
 */
#include "../core.h"
#include "vector.h"

#if VECTOR_BYTES == 64
/* rows of a tile one and two vectors wide: 32 registers */
enum { TALLEST_1 = 16, TALLEST_2 = 14 };
#else
enum { TALLEST_1 = 12, TALLEST_2 = 6 };         /* 16 registers */
#endif
/* channels of a full strip of packed weights: the widest tile */
enum { STRIP = 2 * VECTOR };

/* ---- the micro-kernel ---- */

/* sums (rows, columns) = first (NULL: 0) + the sum over segments and steps of a (rows) b
 * (columns) */
typedef struct {
    int64_t steps, segments;
    int64_t a_row, a_step, a_segment;           /* values from one to the next */
    int64_t b_step, b_segment;
    int64_t b_lanes;                            /* of b that count, where not all do */
    /* first_row 0: all rows begin with the same values */
    int64_t first_row, c_row;
    int relu;                                   /* negative results become 0 */
} sums;

INLINE void window_tile(const int rows, const int columns, const sums *s, real *c,
                        const real *first, const real *a, const real *b, const real *mask)
{
    vec sum[TALLEST_1][2];
    const int64_t steps = s->steps, a_row = s->a_row, a_step = s->a_step, b_step = s->b_step,
                  c_row = s->c_row;
    #pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
        #pragma GCC unroll 2
        for (int j = 0; j < columns; j++)
            sum[r][j] = first ? load(first + r * s->first_row + j * VECTOR) : (vec){};
    for (int64_t segment = 0; segment < s->segments;
         segment++, a += s->a_segment, b += s->b_segment) {
        /* one address for three rows: registers are few */
        const real *base[(TALLEST_1 + 2) / 3], *right_at = b;
        #pragma GCC unroll 6
        for (int r = 0; r < rows; r += 3)
            base[r / 3] = a + r * a_row;
        for (int64_t i = 0; i < steps; i++, right_at += b_step) {
            vec right[2];
            #pragma GCC unroll 2
            for (int j = 0; j < columns; j++)
                right[j] = load_lanes(right_at + j * VECTOR,
                                      s->b_lanes ? s->b_lanes - j * VECTOR : VECTOR);
            #pragma GCC unroll 16
            for (int r = 0; r < rows; r++) {
                real left = base[r / 3][r % 3 * a_row + i * a_step];
                #pragma GCC unroll 2
                for (int j = 0; j < columns; j++)
                    sum[r][j] += left * right[j];
            }
        }
    }
    #pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
        #pragma GCC unroll 2
        for (int j = 0; j < columns; j++) {
            vec value = sum[r][j];
            if (s->relu)
                value = pick(value <= 0, (vec){}, value);       /* a NaN stays one */
            if (mask)
                value = (vec)((load(mask + r * c_row + j * VECTOR) > 0) & (ivec)value);
            store(c + r * c_row + j * VECTOR, value);
        }
}

typedef void window_function(const sums *, real *, const real *, const real *, const real *,
                             const real *);
#define WINDOW_TILE(rows, columns) \
    static void window_tile_##rows##_##columns(const sums *s, real *c, const real *first, \
                                               const real *a, const real *b, const real *mask) \
    { \
        window_tile(rows, columns, s, c, first, a, b, mask); \
    }
#define BOTH(rows) WINDOW_TILE(rows, 1) WINDOW_TILE(rows, 2)
#define BOTH_OF(rows) {window_tile_##rows##_1, window_tile_##rows##_2}
#define ONE(rows) WINDOW_TILE(rows, 1)
#define ONE_OF(rows) {window_tile_##rows##_1, NULL}
BOTH(1)
BOTH(2) BOTH(3) BOTH(4) BOTH(5) BOTH(6)
#if VECTOR_BYTES == 64
    BOTH(7) BOTH(8) BOTH(9) BOTH(10) BOTH(11) BOTH(12) BOTH(13) BOTH(14) ONE(15) ONE(16)
#else
ONE(7) ONE(8) ONE(9) ONE(10) ONE(11) ONE(12)
#endif
        static window_function *const window_tiles[TALLEST_1][2] = {
            BOTH_OF(1),  BOTH_OF(2),  BOTH_OF(3), BOTH_OF(4),  BOTH_OF(5),  BOTH_OF(6),
#if VECTOR_BYTES == 64
            BOTH_OF(7),  BOTH_OF(8),  BOTH_OF(9), BOTH_OF(10), BOTH_OF(11), BOTH_OF(12),
            BOTH_OF(13), BOTH_OF(14), ONE_OF(15), ONE_OF(16),
#else
    ONE_OF(7), ONE_OF(8), ONE_OF(9), ONE_OF(10), ONE_OF(11), ONE_OF(12),
#endif
};

INLINE int64_t tallest(int columns) { return columns == 1 ? TALLEST_1 : TALLEST_2; }

/* One tile of which only the first `lanes` columns are wanted. */
static void put_tile(int64_t rows, int columns, int64_t lanes, const sums *s, real *c,
                     const real *first, const real *a, const real *b, const real *mask)
{
    window_function *run = window_tiles[rows - 1][columns - 1];
    if (lanes == columns * VECTOR) {
        run(s, c, first, a, b, mask);
        return;
    }
    real whole[TALLEST_1 * STRIP];
    sums aside = *s;
    aside.c_row = columns * VECTOR;
    run(&aside, whole, first, a, b, NULL);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < lanes; i++)
            c[r * s->c_row + i] =
                !mask || mask[r * s->c_row + i] > 0 ? whole[r * columns * VECTOR + i] : 0;
}

/* ---- padded images: an image with the zeros that windows read around it ---- */

typedef struct {
    int64_t rows, columns;                      /* of the padded image */
    int64_t top, left;                          /* the image's corner in it; may be outside */
    int64_t height, width, channels;            /* of the image */
} padded_image;

/* Whether windows read no zeros, so that the image is read in place. */
static int needs_no_padding(const padded_image *f)
{
    return f->top == 0 && f->left == 0 && f->rows <= f->height && f->columns <= f->width;
}

static int64_t padded_row(const padded_image *f)
{
    return (needs_no_padding(f) ? f->width : f->columns) * f->channels;
}

static int64_t padded_size(const padded_image *f)
{
    return needs_no_padding(f) ? 0 : row_stride(f->rows * f->columns * f->channels + STRIP);
}

/* Copies the image into its padded image. `room` holds zeros wherever earlier images were not
 * written. */
static void pad_image(const padded_image *f, real *room, const real *image)
{
    int64_t first = max_i64(0, -f->left), last = min_i64(f->width, f->columns - f->left);
    for (int64_t y = max_i64(0, -f->top); y < min_i64(f->height, f->rows - f->top) && first < last;
         y++)
        memcpy(room + ((y + f->top) * f->columns + first + f->left) * f->channels,
               image + (y * f->width + first) * f->channels,
               (size_t)((last - first) * f->channels) * sizeof(real));
}

/* The images of a batch, padded one at a time. */
typedef struct {
    padded_image padded;
    const real *images;
    int64_t image_stride;                       /* values from one image to the next */
    real *room;                                 /* this thread's, see pad_image */
    int64_t cached_image;                      /* the image in `room`, -1: none */
} source;

static const real *image_of(source *from, int64_t r)
{
    const real *image = from->images + r * from->image_stride;
    if (needs_no_padding(&from->padded))
        return image;
    if (from->cached_image != r)
        pad_image(&from->padded, from->room, image);
    from->cached_image = r;
    return from->room;
}

/* Where a batch's sums go: out = first (NULL: 0) + sums, then relu, or 0 unless mask > 0. */
typedef struct {
    real *out;
    const real *first, *mask;
    int relu;
    /* values from one image of out and mask to the next */
    int64_t image_stride;
} target;

/* The first of rows [row, end) of a batch, of `height` rows an image, as far as they are in one
 * image. */
typedef struct {
    int64_t image, row, rows;
} image_rows;

static image_rows image_rows_at(int64_t row, int64_t end, int64_t height)
{
    return (image_rows){row / height, row % height, min_i64(height - row % height, end - row)};
}

/* ---- the geometry of a pass: a kernel that slides over a padded image ---- */

typedef struct {
    int64_t in, out;                            /* channels */
    /* taps of the kernel down and across, pixels between windows */
    int64_t kh, kw, stride;
    int64_t height, width;                      /* windows */
    int64_t at_y, at_x;                         /* the first window's corner in the padded image */
    /* weight of tap (0,0), and values from one to the next */
    int64_t w, w_out, w_in, w_down, w_right;
    int64_t c, c_down, c_right;                 /* the same for the pixels that come out */
} conv_geometry;

/* of a window's row */
static int64_t run_length(const conv_geometry *s) { return s->kw * s->in; }
static int64_t packed_size(const conv_geometry *s)
{ return s->kh * run_length(s) * row_stride(s->out); }

static conv_geometry forward_geometry(const nn_layer *l)
{
    int64_t k = l->kernel, in = l->in[0], out = l->out[0];
    return (conv_geometry){
        .in = in, .out = out, .kh = k, .kw = k, .stride = l->stride, .height = l->out[1],
        .width = l->out[2],
        .w_out = in * k * k, .w_in = k * k, .w_down = k, .w_right = 1,
        .c_down = l->out[2] * out, .c_right = out,
    };
}

static padded_image forward_padding(const nn_layer *l)
{
    return (padded_image){
        .rows = ((int64_t)l->out[1] - 1) * l->stride + l->kernel,
        .columns = ((int64_t)l->out[2] - 1) * l->stride + l->kernel,
        .top = l->pad_top, .left = l->pad_left, .height = l->in[1], .width = l->in[2],
        .channels = l->in[0],
    };
}

/* One side of the backward pass: input pixels first, first + stride, ... are read by taps phase,
 * phase + stride, ... of the kernel, the last tap for the output `at`, the others for the
 * outputs after it. */
typedef struct {
    int64_t first, count, taps, at;
} phase;

static phase phase_of(int64_t number, int64_t in, int64_t kernel, int64_t stride, int64_t pad)
{
    int64_t first = ((number - pad) % stride + stride) % stride;
    int64_t taps = number < kernel ? (kernel - 1 - number) / stride + 1 : 0;
    return (phase){first, first < in ? (in - 1 - first) / stride + 1 : 0, taps,
                   (first + pad) / stride - taps + 1};
}

/* The first output that reads any input pixel; it may be outside the image. */
static int64_t lowest_output(int64_t kernel, int64_t stride, int64_t pad)
{
    return pad / stride - (kernel - 1) / stride;
}

static padded_image backward_padding(const nn_layer *l)
{
    int64_t top = lowest_output(l->kernel, l->stride, l->pad_top);
    int64_t left = lowest_output(l->kernel, l->stride, l->pad_left);
    return (padded_image){
        .rows = ((int64_t)l->in[1] - 1 + l->pad_top) / l->stride - top + 1,
        .columns = ((int64_t)l->in[2] - 1 + l->pad_left) / l->stride - left + 1,
        .top = -top, .left = -left, .height = l->out[1], .width = l->out[2], .channels = l->out[0],
    };
}

/* The pixels of dx at (down, across) within the stride. */
static conv_geometry backward_geometry(const nn_layer *l, int64_t down, int64_t across)
{
    int64_t k = l->kernel, s = l->stride, in = l->out[0], out = l->in[0], width = l->in[2];
    phase y = phase_of(down, l->in[1], k, s, l->pad_top),
          x = phase_of(across, width, k, s, l->pad_left);
    return (conv_geometry){
        .in = in, .out = out, .kh = y.taps, .kw = x.taps, .stride = 1, .height = y.count,
        .width = x.count,
        .at_y = y.at - lowest_output(k, s, l->pad_top), .at_x = x.at - lowest_output(k, s,
        l->pad_left),
        .w = (down + (y.taps - 1) * s) * k + across + (x.taps - 1) * s,
        .w_out = k * k, .w_in = out * k * k, .w_down = -s * k, .w_right = -s,
        .c = (y.first * width + x.first) * out, .c_down = s * width * out, .c_right = s * out,
    };
}

/* Packs the weights for the micro-kernel: strips of channels, each (kh, run, channels of the
 * strip). This thread's share of the taps. */
static void pack_weights(real *to, const real *w, const conv_geometry *s, thread_team t)
{
    int64_t run = run_length(s), first, last;
    thread_share(t, s->kh * s->kw, 1, &first, &last);
    for (int64_t strip = 0; strip < s->out; strip += STRIP) {
        int64_t width = min_i64(STRIP, row_stride(s->out - strip)),
                there = min_i64(width, s->out - strip);
        for (int64_t tap = first; tap < last; tap++) {
            int64_t ky = tap / s->kw, kx = tap % s->kw;
            real *row = to + strip * s->kh * run + (ky * run + kx * s->in) * width;
            memset(row, 0, (size_t)(s->in * width) * sizeof(real));
            for (int64_t lane = 0; lane < there; lane++) {
                const real *from =
                    w + s->w + (strip + lane) * s->w_out + ky * s->w_down + kx * s->w_right;
                for (int64_t c = 0; c < s->in; c++)
                    row[c * width + lane] = from[c * s->w_in];
            }
        }
    }
}

/* Rows [y0, y1) of windows of one image. */
static void direct_image(const target *to, int64_t image_at, const real *image, int64_t image_row,
                         const real *packed, const conv_geometry *s, int64_t y0, int64_t y1)
{
    int64_t run = run_length(s), step = s->stride * s->in;
    sums tile = {
        .steps = run, .segments = s->kh, .a_row = step, .a_step = 1, .a_segment = image_row,
        .c_row = s->c_right, .relu = to->relu,
    };
    for (int64_t strip = 0; strip < s->out; strip += STRIP) {
        int columns = s->out - strip > VECTOR ? 2 : 1;
        int64_t there = min_i64(s->out - strip, STRIP);
        tile.b_step = columns * VECTOR, tile.b_segment = run * tile.b_step;
        for (int64_t y = y0; y < y1; y++) {
            const real *row = image + (s->at_y + y * s->stride) * image_row + s->at_x * s->in;
            for (int64_t i = 0, height; i < s->width; i += height) {
                int64_t at = image_at + s->c + y * s->c_down + i * tile.c_row + strip;
                height = tile_height(s->width, i, tallest(columns));
                put_tile(height, columns, there, &tile, to->out + at,
                         to->first ? to->first + strip : NULL, row + i * step,
                         packed + strip * s->kh * run, to->mask ? to->mask + at : NULL);
            }
        }
    }
}

/* Rows [row, end) of windows, counted through the batch. */
static void direct_rows(const target *to, source *from, const real *packed, const conv_geometry *s,
                        int64_t row, int64_t end)
{
    for (image_rows p; row < end; row += p.rows) {
        p = image_rows_at(row, end, s->height);
        direct_image(to, p.image * to->image_stride, image_of(from, p.image),
                     padded_row(&from->padded), packed, s, p.row, p.row + p.rows);
    }
}

/* ---- the weight's gradient ---- */

/* The tiles of a weight's gradient whose number modulo `shares` is in [first, last). */
typedef struct {
    int64_t first, last, shares;
} share;

static int is_in_share(const share *d, int64_t number)
{
    return number % d->shares >= d->first && number % d->shares < d->last;
}

/* partial (+)= the share's tiles of one image's gradient */
static void gradient_tiles(real *partial, const real *dz, const real *image, int64_t image_row,
                           const conv_geometry *s, share d, int fresh)
{
    int64_t run = run_length(s);
    for (int64_t strip = 0, number = 0; strip < s->out; strip += STRIP) {
        int columns = s->out - strip > VECTOR ? 2 : 1;
        int64_t row = columns * VECTOR;
        sums tile = {
            .steps = s->width, .segments = s->height, .a_row = 1, .a_step = s->stride * s->in,
            .a_segment = s->stride * image_row, .b_step = s->out, .b_segment = s->width * s->out,
            .b_lanes = s->out - strip, .first_row = row, .c_row = row,
        };
        for (int64_t ky = 0; ky < s->kh; ky++)
            for (int64_t i = 0, height; i < run; i += height, number++) {
                real *c = partial + strip * s->kh * run + (ky * run + i) * row;
                height = tile_height(run, i, tallest(columns));
                if (is_in_share(&d, number))
                    window_tiles[height - 1][columns - 1](
                        &tile, c, fresh ? NULL : c, image + ky * image_row + i, dz + strip, NULL);
            }
    }
}

/* db (lanes) += the sum of dz (rows, lanes) over its rows */
static void bias_sums(real *db, const real *dz, int64_t rows, int64_t lanes, int fresh)
{
    for (int64_t j = 0; j < lanes; j += VECTOR) {
        vec sum[4] = {fresh ? (vec){} : load(db + j)};
        int64_t r = 0;
        for (; r + 4 <= rows; r += 4)
            for (int i = 0; i < 4; i++)
                sum[i] += load_lanes(dz + (r + i) * lanes + j, lanes - j);
        for (; r < rows; r++)
            sum[0] += load_lanes(dz + r * lanes + j, lanes - j);
        store(db + j, (sum[0] + sum[1]) + (sum[2] + sum[3]));
    }
}

/* partial = a share of the weight's gradient over n images; db, unless NULL, = the sums of dz */
static void direct_gradient(real *partial, real *db, const real *dz, int64_t dz_stride,
                            source *from, const conv_geometry *s, int64_t n, share d)
{
    for (int64_t r = 0; r < n; r++) {
        gradient_tiles(partial, dz + r * dz_stride, image_of(from, r), padded_row(&from->padded), s,
                       d, r == 0);
        if (db)
            bias_sums(db, dz + r * dz_stride, s->height * s->width, s->out, r == 0);
    }
}

/* dw = the sum of the partial sums, in the order of the weights: this thread's share of the
 * taps. */
static void reduce_gradient(real *dw, const real *partials, int64_t count, int64_t partial,
                            const conv_geometry *s, thread_team t)
{
    int64_t run = run_length(s), first, last;
    thread_share(t, s->kh * s->kw * s->in, 1, &first, &last);
    for (int64_t tap = first; tap < last; tap++) {
        int64_t ky = tap / run, kx = tap / s->in % s->kw, c = tap % s->in;
        for (int64_t strip = 0; strip < s->out; strip += STRIP) {
            int64_t width = min_i64(STRIP, row_stride(s->out - strip)),
                    there = min_i64(width, s->out - strip);
            real sum[STRIP] = {0};
            for (int64_t p = 0; p < count; p++) {
                const real *from = partials + p * partial + strip * s->kh * run + tap * width;
                for (int64_t i = 0; i < there; i++)
                    sum[i] += from[i];
            }
            for (int64_t i = 0; i < there; i++)
                dw[s->w + (strip + i) * s->w_out + c * s->w_in + ky * s->w_down + kx * s->w_right] =
                    sum[i];
        }
    }
}
