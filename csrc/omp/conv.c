/* conv.c - convolution, fast: directly (windows.c), or by Winograd's algorithm where that needs fewer multiplications
 * (winograd.c). Images are shared out among threads; the weight's gradient is summed in pieces whose number depends on
 * sizes alone, so that threads change no bit.
 */
#include "../core.h"
#include "vector.h"

enum { PIECES = 16, PIECE_BYTES = 1 << 22 };    /* of a weight gradient: how many, how large all together */

/* ---- passes: a kernel sliding over a frame, in one of two ways ---- */

typedef struct {
    slide slide;
    frame frame;
    int winograd;
} pass;

static pass forward_pass(const nn_layer *l)
{
    pass p = {.slide = forward_slide(l), .frame = forward_frame(l)};
    p.winograd = winograd_pays(&p.slide);
    if (p.winograd)
        p.frame = frame_of_tiles(p.frame);
    return p;
}

/* At a stride the input's pixels fall into stride x stride phases, each seen by other taps of the kernel. */
static int64_t phases_of(const nn_layer *l) { return (int64_t)l->stride * l->stride; }

static pass backward_pass(const nn_layer *l, int64_t phase)
{
    pass p = {.slide = backward_slide(l, phase / l->stride, phase % l->stride), .frame = backward_frame(l)};
    p.winograd = l->stride == 1 && winograd_pays(&p.slide);
    if (p.winograd)
        p.frame = frame_of_tiles(p.frame);
    return p;
}

static int64_t pass_packed_size(const pass *p)
{
    return p->winograd ? winograd_packed_size(&p->slide) : packed_size(&p->slide);
}

static void pass_pack(real *to, const real *w, const pass *p, team t)
{
    if (p->winograd)
        winograd_pack(to, w, &p->slide, t);
    else
        pack_weights(to, w, &p->slide, t);
}

/* ---- workspace ---- */

/* All threads: packed weights and the biases that sums begin with; pieces of gradients. Each thread: two frames, which
 * no one else writes to, so that their borders stay 0; nothing here moves when a batch is shorter. */
typedef struct {
    real *packed, *first, *pieces;
    int64_t piece;                              /* values of one: weights, then biases */
    real *forward_frame, *backward_frame;       /* this thread's */
    int64_t size;                               /* values in all */
} conv_room;

/* Pieces of a batch's images, each summed on its own: a power of 2, that threads may share them evenly. */
static int64_t pieces_of(const pass *p, int64_t n)
{
    int64_t most = min_i64(n, PIECE_BYTES / (pass_packed_size(p) * (int64_t)sizeof(real))), pieces = 1;
    while (pieces < PIECES && 2 * pieces <= most)
        pieces *= 2;
    return pieces;
}

static int64_t whole_lines(int64_t n) { return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static conv_room room_of(const nn_layer *l, int thread, void *work)
{
    pass forward = forward_pass(l), backward = backward_pass(l, 0);
    int64_t weights = pass_packed_size(&forward), backward_weights = 0;
    for (int64_t phase = 0; phase < phases_of(l); phase++) {
        pass p = backward_pass(l, phase);
        backward_weights += pass_packed_size(&p);
    }
    int64_t packed = whole_lines(max_i64(weights, backward_weights)), first = whole_lines(lanes_of(&forward.slide) + STRIP);
    int64_t piece = whole_lines(weights + row_stride(lanes_of(&forward.slide)));
    int64_t pieces = pieces_of(&forward, PIECES) * piece;
    int64_t forward_size = whole_lines(frame_size(&forward.frame));
    int64_t frames = forward_size + whole_lines(frame_size(&backward.frame));
    real *at = work, *frames_at = at + packed + first + pieces + thread * frames;
    return (conv_room){
        .packed = at, .first = at + packed, .pieces = at + packed + first, .piece = piece,
        .forward_frame = frames_at, .backward_frame = frames_at + forward_size,
        .size = packed + first + pieces + (thread + 1) * frames,
    };
}

static int64_t conv_workspace(const nn_layer *spec, int64_t n, int threads)
{
    (void)n;
    return room_of(spec, threads - 1, NULL).size * (int64_t)sizeof(real);
}

static int64_t conv_scratch(const nn_layer *spec, int64_t n)
{
    pass forward = forward_pass(spec), backward = backward_pass(spec, 0);
    (void)n;
    return max_i64(forward.winograd ? winograd_scratch(&forward.slide) : 0,
                   backward.winograd ? winograd_scratch(&backward.slide) : 0);
}

/* ---- the three passes ---- */

static void conv_forward(layer *l, real *out, const real *x, const batch *b)
{
    conv_room room = room_of(&l->spec, b->team.id, l->work);
    pass p = forward_pass(&l->spec);
    int activation = l->spec.activation, fused = activation == NN_RELU || activation == NN_LINEAR;
    int64_t height = p.winograd ? tiles_along(p.slide.height) : p.slide.height, first, last;
    /* few images and many threads: images are cut into bands of rows */
    int64_t bands = fused ? min_i64(height, (b->team.count + b->n - 1) / b->n) : 1;
    pass_pack(room.packed, l->w, &p, b->team);
    for (int64_t i = 0; b->team.id == 0 && i < lanes_of(&p.slide); i++)
        room.first[i] = l->b[i % p.slide.out];
    team_wait(b->team);
    team_share(b->team, b->n * bands, 1, &first, &last);
    for (int64_t item = first; item < last; item++) {
        int64_t r = item / bands, band = item % bands;
        const real *image = framed(&p.frame, room.forward_frame, x + r * row_stride(l->inputs));
        (p.winograd ? winograd_rows : slide_rows)(
            out + r * row_stride(l->outputs), image, frame_row(&p.frame), room.packed, room.first, NULL,
            activation == NN_RELU, &p.slide, height * band / bands, height * (band + 1) / bands, b->scratch);
        if (!fused)
            activation_forward(out, activation, r, r + 1, l->outputs);
    }
}

static void conv_backward_input(layer *l, real *dx, const real *dz, const real *x, int below, const batch *b)
{
    conv_room room = room_of(&l->spec, b->team.id, l->work);
    pass p = backward_pass(&l->spec, 0);
    int64_t phases = phases_of(&l->spec), first, last;
    real *packed = room.packed;
    for (int64_t phase = 0; phase < phases; phase++, packed += pass_packed_size(&p)) {
        p = backward_pass(&l->spec, phase);
        pass_pack(packed, l->w, &p, b->team);
    }
    team_wait(b->team);
    team_share(b->team, b->n, 1, &first, &last);
    for (int64_t r = first; r < last; r++) {
        const real *image = framed(&p.frame, room.backward_frame, dz + r * row_stride(l->outputs));
        int64_t at = r * row_stride(l->inputs);
        packed = room.packed;
        for (int64_t phase = 0; phase < phases; phase++, packed += pass_packed_size(&p)) {
            p = backward_pass(&l->spec, phase);
            int64_t height = p.winograd ? tiles_along(p.slide.height) : p.slide.height;
            (p.winograd ? winograd_rows : slide_rows)(
                dx + at, image, frame_row(&p.frame), packed, NULL, below == NN_RELU ? x + at : NULL, 0,
                &p.slide, 0, height, b->scratch);
        }
        if (below != NN_RELU)
            activation_backward(dx, x, below, r, r + 1, l->inputs);
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
                sum[i] += load(dz + (r + i) * lanes + j);
        for (; r < rows; r++)
            sum[0] += load(dz + r * lanes + j);
        store(db + j, (sum[0] + sum[1]) + (sum[2] + sum[3]));
    }
}

static void gather_bias(real *db, const real *pieces, int64_t count, int64_t piece, const slide *s)
{
    memset(db, 0, (size_t)s->out * sizeof(real));
    for (int64_t p = 0; p < count; p++)
        for (int64_t i = 0; i < lanes_of(s); i++)
            db[i % s->out] += pieces[p * piece + i];
}

static int conv_backward_parameters(layer *l, const real *dz, const real *x, const batch *b)
{
    conv_room room = room_of(&l->spec, b->team.id, l->work);
    pass p = forward_pass(&l->spec);
    const slide *s = &p.slide;
    int64_t pieces = pieces_of(&p, b->n), shares = PIECES / pieces, first, last;
    team_share(b->team, pieces * shares, 1, &first, &last);
    for (int64_t item = first, next; item < last; item = next) {
        int64_t number = item / shares, begin = b->n * number / pieces, end = b->n * (number + 1) / pieces;
        real *piece = room.pieces + number * room.piece;
        next = min_i64(last, (number + 1) * shares);
        for (int64_t r = begin; r < end; r++) {
            const real *row = dz + r * row_stride(l->outputs);
            const real *image = framed(&p.frame, room.forward_frame, x + r * row_stride(l->inputs));
            (p.winograd ? winograd_gradient : gradient_tiles)(
                piece, row, image, frame_row(&p.frame), s, item - number * shares, next - number * shares, shares,
                r == begin, b->scratch);
            if (item == number * shares)
                bias_sums(piece + pass_packed_size(&p), row, s->height * s->width / s->group, lanes_of(s), r == begin);
        }
    }
    team_wait(b->team);
    (p.winograd ? winograd_gather : gather_gradient)(l->dw, room.pieces, pieces, room.piece, s, b->team);
    if (b->team.id == 0)
        gather_bias(l->db, room.pieces + pass_packed_size(&p), pieces, room.piece, s);
    return 0;
}

static int64_t conv_weights(const nn_layer *spec)
{
    return (int64_t)spec->out[0] * spec->in[0] * spec->kernel * spec->kernel;
}

static void conv_import(const layer *l, real *to, const real *weight)
{
    memcpy(to, weight, (size_t)l->weight_size * sizeof(real));
}

static void conv_export(const layer *l, real *weight, const real *from)
{
    memcpy(weight, from, (size_t)l->weight_size * sizeof(real));
}

static double conv_flops(const nn_layer *spec)
{
    return 2.0 * (double)conv_weights(spec) * spec->out[1] * spec->out[2];
}

static const layer_kind conv_kind = {
    .weights = conv_weights, .workspace = conv_workspace, .scratch = conv_scratch, .import = conv_import, .export = conv_export,
    .forward = conv_forward, .backward_input = conv_backward_input,
    .backward_parameters = conv_backward_parameters, .flops = conv_flops,
};
