/* planes.c - convolution at stride 1 to fewer channels than a vector has places: vectors hold pixels, not channels.
 *
 * A frame here keeps each channel as a plane of its own, one run of pixels from its first row to its last. A tap of the
 * kernel is then the whole plane moved by some pixels, and its weight one number for all of them:
 *     out plane = the sum over channels and taps of w (plane moved)
 *     dw        = the sum over pixels of (dz plane) (plane moved)
 * Nothing is multiplied in vain but the windows that reach over the end of a row. Outside of here images stay
 * channels-last; a vector of each plane turns into as many vectors of pixels by interleaving.
 *
 * Every sum has one order, given by the sizes.
 */
#include "../core.h"
#include "vector.h"

/* A tile: planes that come out, and vectors of pixels, or taps of the weight's gradient. */
enum { PLANES_TILE = 4 };
#if VECTOR_BYTES == 64
enum { AT_ONCE = 4, TAPS_TILE = 4 };            /* 32 registers */
#else
enum { AT_ONCE = 3, TAPS_TILE = 2 };            /* 16 registers */
#endif

static int planes_pay(const slide *s) { return s->stride == 1 && s->out < VECTOR; }

/* ---- planes and pixels ---- */

#if VECTOR == 16
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#elif VECTOR == 8
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ODD 1, 3, 5, 7, 9, 11, 13, 15
#elif VECTOR == 4
#define EVEN 0, 2, 4, 6
#define ODD 1, 3, 5, 7
#else
#define EVEN 0, 2
#define ODD 1, 3
#endif

/* What weave (vector.h) does to a vector of pixels of each plane, whole pixels as the result, undone. */
INLINE void unweave(const int c, vec v[])
{
    #pragma GCC unroll 3
    for (int width = c; width > 1; width /= 2) {
        vec next[MOST_WOVEN];
        #pragma GCC unroll 4
        for (int i = 0; i < c / 2; i++) {
            next[i] = INTERLEAVE(v[2 * i], v[2 * i + 1], EVEN);
            next[i + c / 2] = INTERLEAVE(v[2 * i], v[2 * i + 1], ODD);
        }
        #pragma GCC unroll 8
        for (int i = 0; i < c; i++)
            v[i] = next[i];
    }
}

/* `width` pixels in a row, at least VECTOR: the last vectors overlap those before. */
INLINE void woven_row_apart(const int c, real *planes, int64_t plane, const real *pixels, int64_t width)
{
    for (int64_t x = 0; x < width; x += VECTOR) {
        int64_t at = min_i64(x, width - VECTOR);
        vec v[MOST_WOVEN];
        #pragma GCC unroll 8
        for (int i = 0; i < c; i++)
            v[i] = load(pixels + at * c + i * VECTOR);
        unweave(c, v);
        #pragma GCC unroll 8
        for (int i = 0; i < c; i++)
            store(planes + i * plane + at, v[i]);
    }
}

INLINE void woven_row_together(const int c, real *pixels, const real *mask, const real *planes, int64_t plane,
                               int64_t width)
{
    for (int64_t x = 0; x < width; x += VECTOR) {
        int64_t at = min_i64(x, width - VECTOR);
        vec v[MOST_WOVEN];
        #pragma GCC unroll 8
        for (int i = 0; i < c; i++)
            v[i] = load(planes + i * plane + at);
        weave(c, v);
        #pragma GCC unroll 8
        for (int i = 0; i < c; i++) {
            int64_t to = at * c + i * VECTOR;
            store(pixels + to, mask ? (vec)((load(mask + to) > 0) & (ivec)v[i]) : v[i]);
        }
    }
}

/* Rows of channels-last pixels into planes: pixels (width, c), planes `plane` values apart. */
static void row_apart(real *planes, int64_t plane, const real *pixels, int64_t width, int64_t c)
{
    switch (width < VECTOR ? 0 : c) {
    case 1: woven_row_apart(1, planes, plane, pixels, width); break;
    case 2: woven_row_apart(2, planes, plane, pixels, width); break;
    case 4: woven_row_apart(4, planes, plane, pixels, width); break;
    case 8: woven_row_apart(8, planes, plane, pixels, width); break;
    default: transpose(planes, plane, pixels, c, width, c);
    }
}

/* And back; where mask is not NULL, only values at which it is positive, and 0 elsewhere. */
static void row_together(real *pixels, const real *mask, const real *planes, int64_t plane, int64_t width, int64_t c)
{
    switch (width < VECTOR ? 0 : c) {
    case 1: woven_row_together(1, pixels, mask, planes, plane, width); break;
    case 2: woven_row_together(2, pixels, mask, planes, plane, width); break;
    case 4: woven_row_together(4, pixels, mask, planes, plane, width); break;
    case 8: woven_row_together(8, pixels, mask, planes, plane, width); break;
    default:
        for (int64_t x = 0; x < width; x++)
            for (int64_t i = 0; i < c; i++)
                pixels[x * c + i] = !mask || mask[x * c + i] > 0 ? planes[i * plane + x] : 0;
    }
}

/* ---- frames of planes ---- */

/* Pixels of rows `height` long, in whole tiles. */
static int64_t run_of(int64_t height, int64_t pitch)
{
    return (height * pitch + AT_ONCE * VECTOR - 1) / (AT_ONCE * VECTOR) * AT_ONCE * VECTOR;
}

/* Values from one plane of a frame to the next: the last tile reads past its windows, moved as far as taps go. */
static int64_t plane_of(const frame *f)
{
    return row_stride(f->rows * f->columns + (AT_ONCE + 1) * VECTOR + f->columns);
}

static int64_t planes_size(const frame *f) { return f->channels * plane_of(f); }

/* The frame's room holds zeros wherever earlier images have not been. */
static const real *planes_of_image(source *from, int64_t r)
{
    const frame *f = &from->frame;
    const real *image = from->images + r * from->pitch;
    int64_t first = max_i64(0, -f->left), last = min_i64(f->width, f->columns - f->left);
    int64_t end = from->held == r || first >= last ? 0 : min_i64(f->height, f->rows - f->top);
    for (int64_t y = max_i64(0, -f->top); y < end; y++)
        row_apart(from->room + (y + f->top) * f->columns + first + f->left, plane_of(f),
                  image + (y * f->width + first) * f->channels, last - first, f->channels);
    from->held = r;
    return from->room;
}

/* ---- forward, and backward to the input ---- */

/* Tiles of `count` planes: to = first (NULL: 0) + sums, over `pixels` pixels. */
INLINE void planes_tiles(const int count, real *to, int64_t to_plane, const real *first, int relu, const real *from,
                         int64_t plane, int64_t pitch, const real *w, const slide *s, int64_t pixels)
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
                const real *row = from + c * plane + ky * pitch + p, *weight = w + c * s->w_in + ky * s->w_down;
                for (int64_t kx = 0; kx < s->kw; kx++, weight += s->w_right) {
                    vec moved[AT_ONCE];
                    #pragma GCC unroll 4
                    for (int v = 0; v < AT_ONCE; v++)
                        moved[v] = load(row + kx + v * VECTOR);
                    #pragma GCC unroll 4
                    for (int o = 0; o < count; o++) {
                        real one = weight[o * s->w_out];
                        #pragma GCC unroll 4
                        for (int v = 0; v < AT_ONCE; v++)
                            sum[o][v] += one * moved[v];
                    }
                }
            }
        #pragma GCC unroll 4
        for (int o = 0; o < count; o++)
            #pragma GCC unroll 4
            for (int v = 0; v < AT_ONCE; v++)
                store(to + o * to_plane + p + v * VECTOR,
                      relu ? pick(sum[o][v] <= 0, (vec){}, sum[o][v]) : sum[o][v]);      /* a NaN stays one */
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

static int64_t planes_scratch(const slide *s, const frame *f)
{
    return s->out * run_of(s->height, f->columns) * (int64_t)sizeof(real);
}

/* Rows [row, end) of windows, counted through the batch. The weights are read as they lie. */
static void planes_rows(const target *to, source *from, const real *w, const slide *s, int64_t row, int64_t end,
                        real *scratch)
{
    int64_t pitch = from->frame.columns, plane = plane_of(&from->frame);
    for (part p; row < end; row += p.rows) {
        p = part_at(row, end, s->height);
        const real *image = planes_of_image(from, p.image) + p.row * pitch;
        int64_t run = run_of(p.rows, pitch), at = p.image * to->pitch + p.row * s->c_down;
        for (int64_t o = 0; o < s->out; o += PLANES_TILE)
            FOR_COUNT(s->out - o, planes_tiles, scratch + o * run, run, to->first ? to->first + o : NULL, to->relu,
                      image, plane, pitch, w + s->w + o * s->w_out, s, run)
        for (int64_t y = 0; y < p.rows; y++, at += s->c_down)
            row_together(to->out + at, to->mask ? to->mask + at : NULL, scratch + y * pitch, run, s->width, s->out);
    }
}

/* ---- the weight's gradient ---- */

/* A piece is a vector for each weight, and one for each bias: the sums over every VECTOR-th pixel. */
static int64_t planes_piece(const slide *s) { return s->out * (s->in * s->kh * s->kw + 1) * VECTOR; }

/* The output's gradient as the windows stand in the frame of the input; 0 between the rows. */
static frame gradient_frame(const slide *s, const frame *f)
{
    return (frame){
        .rows = s->height, .columns = f->columns, .height = s->height, .width = s->width, .channels = s->out,
    };
}

/* The gradients' planes times `taps` taps: piece (count, taps, VECTOR) += sums over `pixels` pixels. */
INLINE void gradient_sums(const int count, real *piece, int64_t row, const real *dz, int64_t dz_plane,
                          const real *const at[TAPS_TILE], const int taps, int64_t pixels)
{
    vec sum[PLANES_TILE][TAPS_TILE];
    #pragma GCC unroll 4
    for (int o = 0; o < count; o++)
        #pragma GCC unroll 4
        for (int t = 0; t < taps; t++)
            sum[o][t] = load(piece + o * row + t * VECTOR);
    for (int64_t p = 0; p < pixels; p += VECTOR) {
        vec z[PLANES_TILE];
        #pragma GCC unroll 4
        for (int o = 0; o < count; o++)
            z[o] = load(dz + o * dz_plane + p);
        #pragma GCC unroll 4
        for (int t = 0; t < taps; t++) {
            vec moved = load(at[t] + p);
            #pragma GCC unroll 4
            for (int o = 0; o < count; o++)
                sum[o][t] += z[o] * moved;
        }
    }
    #pragma GCC unroll 4
    for (int o = 0; o < count; o++)
        #pragma GCC unroll 4
        for (int t = 0; t < taps; t++)
            store(piece + o * row + t * VECTOR, sum[o][t]);
}

static void bias_sum(real *piece, const real *dz, int64_t pixels)
{
    vec sum[4] = {load(piece)};
    for (int64_t p = 0; p < pixels; p += AT_ONCE * VECTOR)
        for (int v = 0; v < AT_ONCE; v++)
            sum[v] += load(dz + p + v * VECTOR);
    store(piece, (sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* The tile of taps from `tap` on, for all outputs. */
static void gradient_taps(real *piece, const real *dz, int64_t dz_plane, const real *image, int64_t plane,
                          int64_t pitch, int64_t tap, int taps, const slide *s)
{
    const real *at[TAPS_TILE];
    int64_t area = s->kh * s->kw, row = s->in * area * VECTOR, pixels = s->height * pitch;
    for (int i = 0; i < taps; i++) {
        int64_t own = tap + i;
        at[i] = image + own / area * plane + own % area / s->kw * pitch + own % s->kw;
    }
    for (int64_t o = 0; o < s->out; o += PLANES_TILE) {
        real *to = piece + o * row + tap * VECTOR;
        const real *z = dz + o * dz_plane;
        if (taps == TAPS_TILE)
            FOR_COUNT(s->out - o, gradient_sums, to, row, z, dz_plane, at, TAPS_TILE, pixels)
        else
            FOR_COUNT(s->out - o, gradient_sums, to, row, z, dz_plane, at, 1, pixels)
    }
}

/* piece = the share of n images in the gradients of the weight and of the bias */
static void planes_gradient(real *piece, source *dz, source *from, const slide *s, int64_t n, deal d)
{
    int64_t taps = s->in * s->kh * s->kw, pitch = from->frame.columns;
    int64_t plane = plane_of(&from->frame), dz_plane = plane_of(&dz->frame);
    real *bias = piece + s->out * taps * VECTOR;
    for (int64_t tap = 0, number = 0, count; tap < taps; tap += count, number++) {
        count = tap + TAPS_TILE <= taps ? TAPS_TILE : 1;
        for (int64_t o = 0; o < s->out && dealt(&d, number); o++)
            memset(piece + (o * taps + tap) * VECTOR, 0, (size_t)(count * VECTOR) * sizeof(real));
    }
    if (d.first == 0)
        memset(bias, 0, (size_t)(s->out * VECTOR) * sizeof(real));
    for (int64_t r = 0; r < n; r++) {
        const real *image = planes_of_image(from, r), *z = planes_of_image(dz, r);
        for (int64_t tap = 0, number = 0, count; tap < taps; tap += count, number++) {
            count = tap + TAPS_TILE <= taps ? TAPS_TILE : 1;
            if (dealt(&d, number))
                gradient_taps(piece, z, dz_plane, image, plane, pitch, tap, (int)count, s);
        }
        for (int64_t o = 0; o < s->out && d.first == 0; o++)
            bias_sum(bias + o * VECTOR, z + o * dz_plane, run_of(s->height, pitch));
    }
}

/* n sums from the pieces' vectors */
static void gather_sums(real *to, const real *pieces, int64_t count, int64_t piece, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++) {
        vec sum = load(pieces + i * VECTOR);
        for (int64_t p = 1; p < count; p++)
            sum += load(pieces + p * piece + i * VECTOR);
        to[i] = sum_of(sum);
    }
}

static void planes_gather(real *dw, real *db, const real *pieces, int64_t count, int64_t piece, const slide *s, team t)
{
    int64_t weights = s->out * s->in * s->kh * s->kw, first, last;
    team_share(t, weights, 1, &first, &last);
    gather_sums(dw, pieces, count, piece, first, last);
    if (t.id == 0)
        gather_sums(db, pieces + weights * VECTOR, count, piece, 0, s->out);
}
