/* conv_planes.c - convolution at stride 1 to fewer channels than a vector has places: vectors
 * hold pixels.
 *
 * A padded image keeps each channel as a plane of its own here, one run of pixels from its first
 * row to its last. A tap of the kernel is then the whole plane shifted by some pixels, and its
 * weight is one number for all of them:
 *     out plane = the sum over channels and taps of w (shifted plane)
 *     dw        = the sum over pixels of (dz plane) (shifted plane)
 * The only useless products are those of windows that reach over the end of a row. Outside of
 * this file images stay channels-last.
 *
 * Every sum has one order, given by the sizes.
 * uses: conv_direct.c (conv_geometry, padded_image, source, target, share)
 */
#include "../core.h"
#include "transpose.h"

/* A tile: output planes, and vectors of pixels, or taps of the weight's gradient; sized to the
 * registers. */
enum { PLANES_TILE = 4 };
#if VECTOR_BYTES == 64
enum { AT_ONCE = 4, TAPS_TILE = 4 };            /* 32 registers */
#else
enum { AT_ONCE = 3, TAPS_TILE = 2 };            /* 16 registers */
#endif

static int planes_pay(const conv_geometry *s) { return s->stride == 1 && s->out < VECTOR; }

/* ---- planes and pixels ---- */

/* A part of an image, channels last and as planes, `plane` values apart; values from one row of
 * it to the next. */
typedef struct {
    int64_t rows, width, pixel_row, plane, plane_row;
} part;

/* Pixels into planes, n of a row at a time: the last ones overlap those before. */
INLINE void pixels_apart(const int64_t c, const int64_t n, real *restrict planes,
                         const real *restrict pixels, part p)
{
    for (int64_t y = 0; y < p.rows; y++, planes += p.plane_row, pixels += p.pixel_row)
        for (int64_t x = 0; x < p.width; x += n) {
            int64_t at = min_i64(x, p.width - n);
            for (int64_t k = at; k < at + n; k++)
                for (int64_t i = 0; i < c; i++)
                    planes[i * p.plane + k] = pixels[k * c + i];
        }
}

/* And back; with a mask, 0 where the mask is not positive. */
INLINE void planes_together(const int64_t c, const int64_t n, real *restrict pixels,
                            const real *restrict mask, const real *restrict planes, part p)
{
    for (int64_t y = 0; y < p.rows;
         y++, planes += p.plane_row, pixels += p.pixel_row, mask += mask ? p.pixel_row : 0) {
        for (int64_t x = 0; x < p.width; x += n) {
            int64_t at = min_i64(x, p.width - n);
            for (int64_t k = at; k < at + n; k++)
                for (int64_t i = 0; i < c; i++)
                    pixels[k * c + i] = planes[i * p.plane + k];
        }
        for (int64_t k = 0; mask && k < p.width * c; k++)
            pixels[k] = mask[k] > 0 ? pixels[k] : 0;
    }
}

/* A call with usual numbers of channels, and of pixels at a time, as constants: the compiler
 * makes vectors of its loops, of fewer pixels bad ones. */
enum { MANY_PIXELS = 16 };
#define FOR_CHANNELS(c, width, call, ...) \
    switch (width < MANY_PIXELS ? 0 : c) { \
    case 1: call(1, MANY_PIXELS, __VA_ARGS__); break; \
    case 2: call(2, MANY_PIXELS, __VA_ARGS__); break; \
    case 4: call(4, MANY_PIXELS, __VA_ARGS__); break; \
    case 8: call(8, MANY_PIXELS, __VA_ARGS__); break; \
    default: call(c, width, __VA_ARGS__); \
    }

/* Not inlined: only of a function's own parameters does GCC believe `restrict`. */
APART void image_apart(real *restrict planes, const real *restrict pixels, part p,
                       int64_t c){FOR_CHANNELS(c, p.width, pixels_apart, planes, pixels, p)}

APART void image_together(real *restrict pixels, const real *restrict mask,
                          const real *restrict planes, part p, int64_t c)
{
    FOR_CHANNELS(c, p.width, planes_together, pixels, mask, planes, p)
}

/* ---- padded images of planes ---- */

/* Pixels of rows `height` long, in whole tiles. */
static int64_t run_of(int64_t height, int64_t row_pitch)
{
    return (height * row_pitch + AT_ONCE * VECTOR - 1) / (AT_ONCE * VECTOR) * AT_ONCE * VECTOR;
}

/* Values from one plane of a padded image to the next: the last tile reads past its windows, as
 * far as taps reach. */
static int64_t plane_of(const padded_image *f)
{
    return row_stride(f->rows * f->columns + (AT_ONCE + 1) * VECTOR + f->columns);
}

static int64_t planes_size(const padded_image *f) { return f->channels * plane_of(f); }

/* The room holds zeros wherever earlier images were not written. */
static const real *planes_of_image(source *from, int64_t r)
{
    const padded_image *f = &from->padded;
    const real *image = from->images + r * from->image_stride;
    int64_t top = max_i64(0, -f->top), left = max_i64(0, -f->left);
    part p = {
        .rows = min_i64(f->height, f->rows - f->top) - top, .width = min_i64(f->width,
        f->columns - f->left) - left,
        .pixel_row = f->width * f->channels, .plane = plane_of(f), .plane_row = f->columns,
    };
    if (from->cached_image != r && p.width > 0)
        image_apart(from->room + (top + f->top) * f->columns + left + f->left,
                    image + (top * f->width + left) * f->channels, p, f->channels);
    from->cached_image = r;
    return from->room;
}

/* ---- forward, and backward to the input ---- */

/* Tiles of `count` planes: to = first (NULL: 0) + sums, over `pixels` pixels. */
INLINE void planes_tiles(const int count, real *to, int64_t to_plane, const real *first, int relu,
                         const real *from, int64_t plane, int64_t row_pitch, const real *w,
                         const conv_geometry *s, int64_t pixels)
{
    for (int64_t p = 0; p < pixels; p += AT_ONCE * VECTOR) {
        vec sum[PLANES_TILE][AT_ONCE];
        #pragma GCC unroll 4
        for (int o = 0; o < count; o++)
            #pragma GCC unroll 4
            for (int v = 0; v < AT_ONCE; v++)
                sum[o][v] = first ? splat(first[o]) : (vec){};
        for (int64_t c = 0; c < s->in; c++)
            for (int64_t ky = 0; ky < s->kh; ky++) {
                const real *row = from + c * plane + ky * row_pitch + p,
                           *weight = w + c * s->w_in + ky * s->w_down;
                for (int64_t kx = 0; kx < s->kw; kx++, weight += s->w_right) {
                    vec shifted[AT_ONCE];
                    #pragma GCC unroll 4
                    for (int v = 0; v < AT_ONCE; v++)
                        shifted[v] = load(row + kx + v * VECTOR);
                    #pragma GCC unroll 4
                    for (int o = 0; o < count; o++) {
                        real one = weight[o * s->w_out];
                        #pragma GCC unroll 4
                        for (int v = 0; v < AT_ONCE; v++)
                            sum[o][v] += one * shifted[v];
                    }
                }
            }
        #pragma GCC unroll 4
        for (int o = 0; o < count; o++)
            #pragma GCC unroll 4
            for (int v = 0; v < AT_ONCE; v++)
                store(to + o * to_plane + p + v * VECTOR,
                      /* a NaN stays one */
                      relu ? pick(sum[o][v] <= 0, (vec){}, sum[o][v]) : sum[o][v]);
    }
}

/* A call for up to PLANES_TILE of something, with their number as a constant. */
#define FOR_COUNT(count, call, ...) \
    switch (count) { \
    case 1: call(1, __VA_ARGS__); break; \
    case 2: call(2, __VA_ARGS__); break; \
    case 3: call(3, __VA_ARGS__); break; \
    default: call(4, __VA_ARGS__); \
    }

static int64_t planes_scratch(const conv_geometry *s, const padded_image *f)
{
    return s->out * run_of(s->height, f->columns) * (int64_t)sizeof(real);
}

/* Rows [row, end) of windows, counted through the batch. The weights are read in place. */
static void planes_rows(const target *to, source *from, const real *w, const conv_geometry *s,
                        int64_t row, int64_t end, real *scratch)
{
    int64_t row_pitch = from->padded.columns, plane = plane_of(&from->padded);
    for (image_rows p; row < end; row += p.rows) {
        p = image_rows_at(row, end, s->height);
        const real *image = planes_of_image(from, p.image) + p.row * row_pitch;
        int64_t run = run_of(p.rows, row_pitch),
                at = p.image * to->image_stride + p.row * s->c_down;
        for (int64_t o = 0; o < s->out; o += PLANES_TILE)
            FOR_COUNT(s->out - o, planes_tiles, scratch + o * run, run,
                      to->first ? to->first + o : NULL, to->relu, image, plane, row_pitch,
                      w + s->w + o * s->w_out, s, run)
        part done = {p.rows, s->width, s->c_down, run, row_pitch};
        image_together(to->out + at, to->mask ? to->mask + at : NULL, scratch, done, s->out);
    }
}

/* ---- the weight's gradient ---- */

/* A partial sum has a vector for each weight, and one for each bias: the sums over every
 * VECTOR-th pixel. */
static int64_t planes_partial_sum(const conv_geometry *s)
{ return s->out * (s->in * s->kh * s->kw + 1) * VECTOR; }

/* The output's gradient, padded so that each value is at its window's place in the input's
 * padded image. */
static padded_image gradient_padding(const conv_geometry *s, const padded_image *f)
{
    return (padded_image){
        .rows = s->height, .columns = f->columns, .height = s->height, .width = s->width,
        .channels = s->out,
    };
}

/* The gradients' planes times `taps` taps: partial (count, taps, VECTOR) += sums over `pixels`
 * pixels. */
INLINE void gradient_sums(const int count, real *partial, int64_t row, const real *dz,
                          int64_t dz_plane, const real *const at[TAPS_TILE], const int taps,
                          int64_t pixels)
{
    vec sum[PLANES_TILE][TAPS_TILE];
    #pragma GCC unroll 4
    for (int o = 0; o < count; o++)
        #pragma GCC unroll 4
        for (int t = 0; t < taps; t++)
            sum[o][t] = load(partial + o * row + t * VECTOR);
    for (int64_t p = 0; p < pixels; p += VECTOR) {
        vec z[PLANES_TILE];
        #pragma GCC unroll 4
        for (int o = 0; o < count; o++)
            z[o] = load(dz + o * dz_plane + p);
        #pragma GCC unroll 4
        for (int t = 0; t < taps; t++) {
            vec shifted = load(at[t] + p);
            #pragma GCC unroll 4
            for (int o = 0; o < count; o++)
                sum[o][t] += z[o] * shifted;
        }
    }
    #pragma GCC unroll 4
    for (int o = 0; o < count; o++)
        #pragma GCC unroll 4
        for (int t = 0; t < taps; t++)
            store(partial + o * row + t * VECTOR, sum[o][t]);
}

static void bias_sum(real *partial, const real *dz, int64_t pixels)
{
    vec sum[4] = {load(partial)};
    for (int64_t p = 0; p < pixels; p += AT_ONCE * VECTOR)
        for (int v = 0; v < AT_ONCE; v++)
            sum[v] += load(dz + p + v * VECTOR);
    store(partial, (sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* The tile of taps from `tap` on, for all outputs. */
static void gradient_taps(real *partial, const real *dz, int64_t dz_plane, const real *image,
                          int64_t plane, int64_t row_pitch, int64_t tap, int taps,
                          const conv_geometry *s)
{
    const real *at[TAPS_TILE];
    int64_t area = s->kh * s->kw, row = s->in * area * VECTOR, pixels = s->height * row_pitch;
    for (int i = 0; i < taps; i++) {
        int64_t own = tap + i;
        at[i] = image + own / area * plane + own % area / s->kw * row_pitch + own % s->kw;
    }
    for (int64_t o = 0; o < s->out; o += PLANES_TILE) {
        real *to = partial + o * row + tap * VECTOR;
        const real *z = dz + o * dz_plane;
        if (taps == TAPS_TILE)
            FOR_COUNT(s->out - o, gradient_sums, to, row, z, dz_plane, at, TAPS_TILE, pixels)
        else
            FOR_COUNT(s->out - o, gradient_sums, to, row, z, dz_plane, at, 1, pixels)
    }
}

/* partial = a share of the gradients of weight and bias over n images */
static void planes_gradient(real *partial, source *dz, source *from, const conv_geometry *s,
                            int64_t n, share d)
{
    int64_t taps = s->in * s->kh * s->kw, row_pitch = from->padded.columns;
    int64_t plane = plane_of(&from->padded), dz_plane = plane_of(&dz->padded);
    real *bias = partial + s->out * taps * VECTOR;
    for (int64_t tap = 0, number = 0, count; tap < taps; tap += count, number++) {
        count = tap + TAPS_TILE <= taps ? TAPS_TILE : 1;
        for (int64_t o = 0; o < s->out && is_in_share(&d, number); o++)
            memset(partial + (o * taps + tap) * VECTOR, 0, (size_t)(count * VECTOR) * sizeof(real));
    }
    if (d.first == 0)
        memset(bias, 0, (size_t)(s->out * VECTOR) * sizeof(real));
    for (int64_t r = 0; r < n; r++) {
        const real *image = planes_of_image(from, r), *z = planes_of_image(dz, r);
        for (int64_t tap = 0, number = 0, count; tap < taps; tap += count, number++) {
            count = tap + TAPS_TILE <= taps ? TAPS_TILE : 1;
            if (is_in_share(&d, number))
                gradient_taps(partial, z, dz_plane, image, plane, row_pitch, tap, (int)count, s);
        }
        for (int64_t o = 0; o < s->out && d.first == 0; o++)
            bias_sum(bias + o * VECTOR, z + o * dz_plane, run_of(s->height, row_pitch));
    }
}

/* Sums [first, last) from the vectors of the partial sums. */
static void reduce_sums(real *to, const real *partials, int64_t count, int64_t partial,
                        int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++) {
        vec sum = load(partials + i * VECTOR);
        for (int64_t p = 1; p < count; p++)
            sum += load(partials + p * partial + i * VECTOR);
        to[i] = sum_of(sum);
    }
}

static void planes_reduce(real *dw, real *db, const real *partials, int64_t count, int64_t partial,
                          const conv_geometry *s, thread_team t)
{
    int64_t weights = s->out * s->in * s->kh * s->kw, first, last;
    thread_share(t, weights, 1, &first, &last);
    reduce_sums(dw, partials, count, partial, first, last);
    if (t.id == 0)
        reduce_sums(db, partials + weights * VECTOR, count, partial, 0, s->out);
}
