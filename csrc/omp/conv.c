/* conv.c - convolution, fast: directly (windows.c), by Winograd's algorithm where that needs fewer multiplications
 * (winograd.c), or plane by plane where channels are too few to fill a vector (planes.c). Images are shared out among
 * threads; the weight's gradient is summed in pieces whose number depends on sizes alone, so that threads change no bit.
 */
#include "../core.h"
#include "vector.h"

enum { PIECES = 16, PIECE_BYTES = 1 << 22 };    /* of a weight gradient: how many, how large all together */

/* ---- passes: a kernel sliding over a frame, in one of three ways ---- */

typedef enum { WINDOWS, WINOGRAD, PLANES } way;

typedef struct {
    slide slide;
    frame frame;
    way way;
} pass;

static pass pass_of(slide s, frame f)
{
    way way = planes_pay(&s) ? PLANES : winograd_pays(&s) ? WINOGRAD : WINDOWS;
    return (pass){s, f, way};
}

static pass forward_pass(const nn_layer *l) { return pass_of(forward_slide(l), forward_frame(l)); }

/* At a stride the input's pixels fall into stride x stride phases, each seen by other taps of the kernel. */
static int64_t phases_of(const nn_layer *l) { return (int64_t)l->stride * l->stride; }

static pass backward_pass(const nn_layer *l, int64_t phase)
{
    slide s = backward_slide(l, phase / l->stride, phase % l->stride);
    if (l->stride > 1)
        return (pass){s, backward_frame(l), WINDOWS};
    return pass_of(s, backward_frame(l));
}

/* Values of the weights as the pass reads them. */
static int64_t pass_packed_size(const pass *p)
{
    switch (p->way) {
    case WINOGRAD: return winograd_packed_size(&p->slide);
    case PLANES: return 0;
    default: return packed_size(&p->slide);
    }
}

static void pass_pack(real *to, const real *w, const pass *p, team t)
{
    if (p->way == WINOGRAD)
        winograd_pack(to, w, &p->slide, t);
    else if (p->way == WINDOWS)
        pack_weights(to, w, &p->slide, t);
}

/* ---- workspace ---- */

static int64_t whole_lines(int64_t n) { return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* Values of a piece: weights, then biases. */
static int64_t piece_size(const pass *p)
{
    return whole_lines(p->way == PLANES ? planes_piece(&p->slide)
                                        : packed_size(&p->slide) + row_stride(lanes_of(&p->slide)));
}

/* Pieces of a batch's images, each summed on its own: a power of 2, that threads may share them evenly. */
static int64_t pieces_of(const pass *p, int64_t n)
{
    int64_t most = min_i64(n, PIECE_BYTES / (piece_size(p) * (int64_t)sizeof(real))), pieces = 1;
    while (pieces < PIECES && 2 * pieces <= most)
        pieces *= 2;
    return pieces;
}

/* Forward: packed weights, then the biases that sums begin with. */
static int64_t biases_at(const pass *p) { return whole_lines(pass_packed_size(p)); }

/* Backward: packed weights of all phases, then the pieces of the weight's gradient. */
static int64_t pieces_at(const nn_layer *spec)
{
    int64_t packed = 0;
    for (int64_t phase = 0; phase < phases_of(spec); phase++) {
        pass p = backward_pass(spec, phase);
        packed += pass_packed_size(&p);
    }
    return whole_lines(packed);
}

static int64_t conv_common(const nn_layer *spec, int64_t n)
{
    pass forward = forward_pass(spec);
    int64_t backward = pieces_at(spec);
    backward += pieces_of(&forward, n) * piece_size(&forward);
    return max_i64(backward, biases_at(&forward) + lanes_of(&forward.slide) + STRIP) * (int64_t)sizeof(real);
}

static int64_t frame_room(const pass *p)
{
    switch (p->way) {
    case WINOGRAD: return 0;
    case PLANES: return whole_lines(planes_size(&p->frame));
    default: return whole_lines(frame_size(&p->frame));
    }
}

/* Each thread keeps frames that no one else writes to, so that their borders stay 0: of the input, of the output's
 * gradient, and of that once more as planes_gradient reads it. */
typedef struct {
    int64_t backward, gradient, size;           /* where they begin, the first at 0; values of all of them */
} frame_places;

static frame_places frames_of(const nn_layer *l)
{
    pass forward = forward_pass(l), backward = backward_pass(l, 0);
    frame gradient = gradient_frame(&forward.slide, &forward.frame);
    frame_places at = {.backward = frame_room(&forward)};
    at.gradient = at.backward + frame_room(&backward);
    at.size = at.gradient + (forward.way == PLANES ? whole_lines(planes_size(&gradient)) : 0);
    return at;
}

static int64_t conv_workspace(const nn_layer *spec, int64_t n, int threads)
{
    (void)n;
    return threads * frames_of(spec).size * (int64_t)sizeof(real);
}

static int64_t pass_scratch(const pass *p, int64_t n)
{
    switch (p->way) {
    case WINOGRAD: return winograd_scratch(&p->slide, n);
    case PLANES: return planes_scratch(&p->slide, &p->frame);
    default: return 0;
    }
}

static int64_t conv_scratch(const nn_layer *spec, int64_t n)
{
    pass forward = forward_pass(spec), backward = backward_pass(spec, 0);
    return max_i64(pass_scratch(&forward, n), pass_scratch(&backward, n));
}

/* ---- the three passes ---- */

static int64_t rows_of(const pass *p) { return p->way == WINOGRAD ? tiles_along(p->slide.height) : p->slide.height; }

static void pass_rows(const pass *p, const target *to, source *from, const real *packed, int64_t row, int64_t end,
                      const batch *b)
{
    static void (*const rows[])(const target *, source *, const real *, const slide *, int64_t, int64_t, real *) = {
        [WINDOWS] = slide_rows, [WINOGRAD] = winograd_rows, [PLANES] = planes_rows,
    };
    rows[p->way](to, from, packed, &p->slide, row, end, b->scratch);
}

static source input_of_pass(const layer *l, const pass *p, const real *x, const batch *b)
{
    return (source){p->frame, x, row_stride(l->inputs), (real *)l->work + b->thread * frames_of(&l->spec).size, -1};
}

/* The weights, packed, and what the sums begin with. */
static void prepare_forward(layer *l, const batch *b)
{
    pass p = forward_pass(&l->spec);
    real *packed = l->common, *biases = packed + biases_at(&p);
    pass_pack(packed, l->w, &p, b->team);
    for (int64_t i = 0; b->team.id == 0 && i < lanes_of(&p.slide); i++)
        biases[i] = l->b[i % p.slide.out];
}

static void prepare_backward(layer *l, const batch *b)
{
    real *packed = l->common;
    for (int64_t phase = 0; phase < phases_of(&l->spec); phase++) {
        pass p = backward_pass(&l->spec, phase);
        pass_pack(packed, l->w, &p, b->team);
        packed += pass_packed_size(&p);
    }
}

static void conv_prepare(layer *l, int backward, const batch *b)
{
    (backward ? prepare_backward : prepare_forward)(l, b);
}

static void conv_forward(layer *l, real *out, const real *x, const batch *b)
{
    pass p = forward_pass(&l->spec);
    const real *packed = l->common;
    int activation = l->spec.activation, fused = activation == NN_RELU || activation == NN_LINEAR;
    int64_t height = rows_of(&p), first, last;
    source from = input_of_pass(l, &p, x, b);
    target to = {
        .out = out, .first = packed + biases_at(&p), .relu = activation == NN_RELU, .pitch = row_stride(l->outputs),
    };
    /* whole images, unless there are fewer than threads */
    team_share(b->team, b->n * height, fused && b->n < b->team.count ? 1 : height, &first, &last);
    pass_rows(&p, &to, &from, p.way == PLANES ? l->w : packed, first, last, b);
    if (!fused)
        activation_forward(out, activation, first / height, last / height, l->outputs);
}

static void conv_backward_input(layer *l, real *dx, const real *dz, const real *x, int below, const batch *b)
{
    pass p = backward_pass(&l->spec, 0);
    source from = input_of_pass(l, &p, dz, b);
    target to = {.out = dx, .mask = below == NN_RELU ? x : NULL, .pitch = row_stride(l->inputs)};
    int64_t phases = phases_of(&l->spec), first, last;
    from.pitch = row_stride(l->outputs), from.room += frames_of(&l->spec).backward;
    team_share(b->team, b->n, 1, &first, &last);
    int64_t together = phases == 1 ? last - first : 1;          /* images: each is framed once for all its phases */
    for (int64_t r = first; r < last; r += together) {
        const real *packed = l->common;
        for (int64_t phase = 0; phase < phases; phase++, packed += pass_packed_size(&p)) {
            p = backward_pass(&l->spec, phase);
            int64_t height = rows_of(&p);
            pass_rows(&p, &to, &from, p.way == PLANES ? l->w : packed, r * height, (r + together) * height, b);
        }
    }
    if (below != NN_RELU)
        activation_backward(dx, x, below, first, last, l->inputs);
}

static void gather_bias(real *db, const real *pieces, int64_t count, int64_t piece, const slide *s)
{
    memset(db, 0, (size_t)s->out * sizeof(real));
    for (int64_t p = 0; p < count; p++)
        for (int64_t i = 0; i < lanes_of(s); i++)
            db[i % s->out] += pieces[p * piece + i];
}

static real *pieces_in(const layer *l) { return (real *)l->common + pieces_at(&l->spec); }

/* A share of the sums of piece `number`, which is made of n images. */
static void sum_share(layer *l, const real *dz, const real *x, int64_t number, int64_t n, deal mine, const batch *b)
{
    pass p = forward_pass(&l->spec);
    const slide *s = &p.slide;
    int64_t pitch = row_stride(l->outputs);
    real *piece = pieces_in(l) + number * piece_size(&p);
    source from = input_of_pass(l, &p, x, b);
    if (p.way == PLANES) {
        source planes = {gradient_frame(s, &p.frame), dz, pitch, from.room + frames_of(&l->spec).gradient, -1};
        planes_gradient(piece, &planes, &from, s, n, mine);
        return;
    }
    (p.way == WINOGRAD ? winograd_gradient : slide_gradient)(piece, mine.first == 0 ? piece + packed_size(s) : NULL, dz,
                                                             pitch, &from, s, n, mine, b->scratch);
}

static void conv_sum_piece(layer *l, const real *dz, const real *x, int64_t number, const batch *b)
{
    sum_share(l, dz, x, number, b->n, (deal){0, 1, 1}, b);
}

static int64_t conv_pieces(const nn_layer *spec, int64_t n)
{
    pass p = forward_pass(spec);
    return pieces_of(&p, n);
}

static void conv_gather_pieces(layer *l, int64_t n, const batch *b)
{
    pass p = forward_pass(&l->spec);
    const real *pieces = pieces_in(l);
    int64_t count = pieces_of(&p, n), size = piece_size(&p);
    if (p.way == PLANES) {
        planes_gather(l->dw, l->db, pieces, count, size, &p.slide, b->team);
        return;
    }
    gather_gradient(l->dw, pieces, count, size, &p.slide, b->team);
    if (b->team.id == 0)
        gather_bias(l->db, pieces + packed_size(&p.slide), count, size, &p.slide);
}

static int conv_backward_parameters(layer *l, const real *dz, const real *x, const batch *b)
{
    int64_t count = conv_pieces(&l->spec, b->n), shares = PIECES / count, first, last;
    team_share(b->team, count * shares, 1, &first, &last);
    for (int64_t item = first, next; item < last; item = next) {
        int64_t number = item / shares, begin = b->n * number / count, end = b->n * (number + 1) / count;
        next = min_i64(last, (number + 1) * shares);
        deal mine = {item - number * shares, next - number * shares, shares};
        sum_share(l, dz + begin * row_stride(l->outputs), x + begin * row_stride(l->inputs), number, end - begin, mine,
                  b);
    }
    team_wait(b->team);
    conv_gather_pieces(l, b->n, b);
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
    .weights = conv_weights, .workspace = conv_workspace, .scratch = conv_scratch, .common = conv_common,
    .import = conv_import, .export = conv_export,
    .forward = conv_forward, .backward_input = conv_backward_input,
    .backward_parameters = conv_backward_parameters, .flops = conv_flops,
    .prepare = conv_prepare, .pieces = conv_pieces, .sum_piece = conv_sum_piece, .gather_pieces = conv_gather_pieces,
    .by_rows = 1,
};
