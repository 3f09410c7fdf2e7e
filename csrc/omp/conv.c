/* conv.c - convolution, fast: the choice among the direct algorithm (conv_direct.c), Winograd's,
 * which multiplies less (conv_winograd.c), and planes, for too few channels to fill a vector
 * (conv_planes.c). Threads share the images. The weight's gradient is a sum of partial sums
 * whose number depends on sizes alone, so that threads change no bit. uses: conv_direct.c,
 * conv_winograd.c, conv_planes.c, layer_common.c
 */
#include "../core.h"
#include "vector.h"

/* PARTIAL_SUMS 16: of a weight's gradient, at most. More would serve more threads, and take more
 * memory and additions. PARTIAL_SUM_BYTES 4 MiB: of all of them together, so that they stay in
 * the L3 cache. */
enum { PARTIAL_SUMS = 16, PARTIAL_SUM_BYTES = 1 << 22 };

/* ---- passes: a kernel that slides over a padded image, by one of three algorithms ---- */

typedef enum { DIRECT, WINOGRAD, PLANES } algorithm;

typedef struct {
    conv_geometry geometry;
    padded_image padded;
    algorithm algorithm;
    /* values of the weights, and of a padded image, as the pass reads them */
    int64_t packed, image;
} pass;

static pass pass_by(algorithm algorithm, conv_geometry s, padded_image f)
{
    pass p = {s, f, algorithm, 0, 0};
    if (algorithm == WINOGRAD)
        p.packed = winograd_packed_size(&s);
    else if (algorithm == PLANES)
        p.image = aligned(planes_size(&f));
    else
        p.packed = packed_size(&s), p.image = aligned(padded_size(&f));
    return p;
}

static pass pass_of(conv_geometry s, padded_image f)
{
    return pass_by(planes_pay(&s) ? PLANES : winograd_pays(&s) ? WINOGRAD : DIRECT, s, f);
}

/* In double a window of zeros must give exactly 0, where Winograd's algorithm leaves a rounding:
 * a relu would decide by its sign, and no gradient be within 1e-12. In float, twice as many
 * values a vector and all of them less exact, the promise allows for it, and the speed counts. */
static pass forward_pass(const nn_layer *l)
{
    conv_geometry s = forward_geometry(l);
    if (sizeof(real) == sizeof(double) && !planes_pay(&s))
        return pass_by(DIRECT, s, forward_padding(l));
    return pass_of(s, forward_padding(l));
}

/* At a stride the input's pixels fall into stride x stride phases, each read by other taps of
 * the kernel. */
static int64_t phases_of(const nn_layer *l) { return (int64_t)l->stride * l->stride; }

static pass backward_pass(const nn_layer *l, int64_t phase)
{
    conv_geometry s = backward_geometry(l, phase / l->stride, phase % l->stride);
    if (l->stride > 1)
        return pass_by(DIRECT, s, backward_padding(l));
    return pass_of(s, backward_padding(l));
}

static void pass_pack(real *to, const real *w, const pass *p, thread_team t)
{
    if (p->algorithm == WINOGRAD)
        winograd_pack(to, w, &p->geometry, t);
    else if (p->algorithm == DIRECT)
        pack_weights(to, w, &p->geometry, t);
}

/* ---- workspace ---- */

/* Values of a partial sum: weights, then biases. */
static int64_t partial_sum_size(const pass *p)
{
    if (p->algorithm == PLANES)
        return aligned(planes_partial_sum(&p->geometry));
    return aligned(packed_size(&p->geometry) + row_stride(p->geometry.out));
}

/* The number of partial sums over a batch's images: a power of 2, so that threads can share them
 * evenly. */
static int64_t partial_sums_of(const pass *p, int64_t n)
{
    int64_t most = min_i64(n, PARTIAL_SUM_BYTES / (partial_sum_size(p) * (int64_t)sizeof(real))),
            partials = 1;
    while (partials < PARTIAL_SUMS && 2 * partials <= most)
        partials *= 2;
    return partials;
}

/* Forward: packed weights, then the biases that the sums begin with. */
static int64_t biases_at(const pass *p) { return aligned(p->packed); }

/* Backward: packed weights of all phases, then the partials of the weight's gradient. */
static int64_t partial_sums_at(const nn_layer *spec)
{
    int64_t packed = 0;
    for (int64_t phase = 0; phase < phases_of(spec); phase++)
        packed += backward_pass(spec, phase).packed;
    return aligned(packed);
}

static int64_t conv_shared_scratch(const nn_layer *spec, int64_t n)
{
    pass forward = forward_pass(spec);
    int64_t backward = partial_sums_at(spec);
    backward += partial_sums_of(&forward, n) * partial_sum_size(&forward);
    return max_i64(backward, biases_at(&forward) + forward.geometry.out + STRIP) *
           (int64_t)sizeof(real);
}

/* Each thread has padded images of its own, whose borders stay 0: of the input, of the output's
 * gradient, and of that gradient as planes_gradient reads it. */
typedef struct {
    /* where they begin, the first at 0; values of all of them */
    int64_t backward, gradient, size;
} padded_places;

static padded_places padded_places_of(const nn_layer *l)
{
    pass forward = forward_pass(l), backward = backward_pass(l, 0);
    padded_image gradient = gradient_padding(&forward.geometry, &forward.padded);
    padded_places at = {.backward = forward.image};
    at.gradient = at.backward + backward.image;
    at.size = at.gradient + (forward.algorithm == PLANES ? aligned(planes_size(&gradient)) : 0);
    return at;
}

static int64_t conv_workspace(const nn_layer *spec, int64_t n, int threads)
{
    (void)n;
    return threads * padded_places_of(spec).size * (int64_t)sizeof(real);
}

static int64_t pass_scratch(const pass *p, int64_t n)
{
    switch (p->algorithm) {
    case WINOGRAD: return winograd_scratch(&p->geometry, n);
    case PLANES: return planes_scratch(&p->geometry, &p->padded);
    case DIRECT: return 0;
    }
    NOT_REACHED;
}

static int64_t conv_scratch(const nn_layer *spec, int64_t n)
{
    pass forward = forward_pass(spec), backward = backward_pass(spec, 0);
    return max_i64(pass_scratch(&forward, n), pass_scratch(&backward, n));
}

/* ---- the three passes ---- */

/* Rows of outputs, or of Winograd's tiles. */
static int64_t rows_of(const pass *p)
{
    return p->algorithm == WINOGRAD ? tiles_along(p->geometry.height) : p->geometry.height;
}

static void pass_rows(const pass *p, const target *to, source *from, const real *packed,
                      int64_t row, int64_t end, const batch *b)
{
    const conv_geometry *s = &p->geometry;
    switch (p->algorithm) {
    case DIRECT: direct_rows(to, from, packed, s, row, end); return;
    case WINOGRAD: winograd_rows(to, from, packed, s, row, end, b->scratch); return;
    case PLANES: planes_rows(to, from, packed, s, row, end, b->scratch); return;
    }
    NOT_REACHED;
}

static source input_of_pass(const layer *l, const pass *p, const real *x, const batch *b)
{
    real *room = (real *)l->work + b->thread * padded_places_of(&l->spec).size;
    return (source){p->padded, x, row_stride(l->inputs), room, -1};
}

/* The packed weights, and the biases that the sums begin with. */
static void prepare_forward(layer *l, const batch *b)
{
    pass p = forward_pass(&l->spec);
    real *packed = l->shared_scratch, *biases = packed + biases_at(&p);
    pass_pack(packed, l->w, &p, b->team);
    if (b->team.id == 0)
        memcpy(biases, l->b, (size_t)p.geometry.out * sizeof(real));
}

static void prepare_backward(layer *l, const batch *b)
{
    real *packed = l->shared_scratch;
    for (int64_t phase = 0; phase < phases_of(&l->spec); phase++) {
        pass p = backward_pass(&l->spec, phase);
        pass_pack(packed, l->w, &p, b->team);
        packed += p.packed;
    }
}

static void conv_prepare(layer *l, int backward, const batch *b)
{
    (backward ? prepare_backward : prepare_forward)(l, b);
}

static void conv_forward(layer *l, real *out, const real *x, const batch *b)
{
    pass p = forward_pass(&l->spec);
    const real *packed = l->shared_scratch;
    nn_activation activation = l->spec.activation;
    int fused = activation == NN_RELU || activation == NN_LINEAR;
    int64_t height = rows_of(&p), first, last;
    source from = input_of_pass(l, &p, x, b);
    target to = {
        .out = out, .first = packed + biases_at(&p), .relu = activation == NN_RELU,
        .image_stride = row_stride(l->outputs),
    };
    /* whole images, unless there are fewer than threads */
    thread_share(b->team, b->n * height, fused && b->n < b->team.count ? 1 : height, &first, &last);
    pass_rows(&p, &to, &from, p.algorithm == PLANES ? l->w : packed, first, last, b);
    if (!fused)
        activation_forward(out, activation, first / height, last / height, l->outputs);
}

static void conv_backward_input(layer *l, real *dx, const real *dz, const real *x,
                                nn_activation below, const batch *b)
{
    pass p = backward_pass(&l->spec, 0);
    source from = input_of_pass(l, &p, dz, b);
    target to = {
        .out = dx, .mask = below == NN_RELU ? x : NULL, .image_stride = row_stride(l->inputs)};
    int64_t phases = phases_of(&l->spec), first, last;
    from.image_stride = row_stride(l->outputs), from.room += padded_places_of(&l->spec).backward;
    thread_share(b->team, b->n, 1, &first, &last);
    /* images: each is padded once for all its phases */
    int64_t together = phases == 1 ? last - first : 1;
    for (int64_t r = first; r < last; r += together) {
        const real *packed = l->shared_scratch;
        for (int64_t phase = 0; phase < phases; phase++, packed += p.packed) {
            p = backward_pass(&l->spec, phase);
            int64_t height = rows_of(&p);
            pass_rows(&p, &to, &from, p.algorithm == PLANES ? l->w : packed, r * height,
                      (r + together) * height, b);
        }
    }
    if (below != NN_RELU)
        activation_backward(dx, x, below, first, last, l->inputs);
}

static void reduce_bias(real *db, const real *partials, int64_t count, int64_t partial,
                        const conv_geometry *s)
{
    memset(db, 0, (size_t)s->out * sizeof(real));
    for (int64_t p = 0; p < count; p++)
        for (int64_t i = 0; i < s->out; i++)
            db[i] += partials[p * partial + i];
}

static real *partial_sums_in(const layer *l)
{ return (real *)l->shared_scratch + partial_sums_at(&l->spec); }

/* A share of partial sum `number`, which covers n images. */
static void sum_share(layer *l, const real *dz, const real *x, int64_t number, int64_t n,
                      share mine, const batch *b)
{
    pass p = forward_pass(&l->spec);
    const conv_geometry *s = &p.geometry;
    int64_t image_stride = row_stride(l->outputs);
    real *partial = partial_sums_in(l) + number * partial_sum_size(&p),
         *db = partial + packed_size(s);
    source from = input_of_pass(l, &p, x, b);
    source dz_planes = {
        gradient_padding(s, &p.padded),
        dz,
        image_stride,
        from.room + padded_places_of(&l->spec).gradient,
        -1,
    };
    if (mine.first > 0)
        db = NULL;                      /* the first share has the biases */
    switch (p.algorithm) {
    case DIRECT: direct_gradient(partial, db, dz, image_stride, &from, s, n, mine); return;
    case WINOGRAD:
        winograd_gradient(partial, db, dz, image_stride, &from, s, n, mine, b->scratch);
        return;
    case PLANES: planes_gradient(partial, &dz_planes, &from, s, n, mine); return;
    }
    NOT_REACHED;
}

static void conv_add_partial_sum(layer *l, const real *dz, const real *x, int64_t number,
                                 const batch *b)
{
    sum_share(l, dz, x, number, b->n, (share){0, 1, 1}, b);
}

static int64_t conv_partial_sums(const nn_layer *spec, int64_t n)
{
    pass p = forward_pass(spec);
    return partial_sums_of(&p, n);
}

static void conv_reduce(layer *l, int64_t n, const batch *b)
{
    pass p = forward_pass(&l->spec);
    const real *partials = partial_sums_in(l);
    int64_t count = partial_sums_of(&p, n), size = partial_sum_size(&p);
    if (p.algorithm == PLANES) {
        planes_reduce(l->dw, l->db, partials, count, size, &p.geometry, b->team);
        return;
    }
    reduce_gradient(l->dw, partials, count, size, &p.geometry, b->team);
    if (b->team.id == 0)
        reduce_bias(l->db, partials + packed_size(&p.geometry), count, size, &p.geometry);
}

static int conv_gradient(layer *l, const real *dz, const real *x, const batch *b)
{
    int64_t count = conv_partial_sums(&l->spec, b->n), shares = PARTIAL_SUMS / count, first, last;
    thread_share(b->team, count * shares, 1, &first, &last);
    for (int64_t item = first, next; item < last; item = next) {
        int64_t number = item / shares, begin = b->n * number / count,
                end = b->n * (number + 1) / count;
        next = min_i64(last, (number + 1) * shares);
        share mine = {item - number * shares, next - number * shares, shares};
        sum_share(l, dz + begin * row_stride(l->outputs), x + begin * row_stride(l->inputs), number,
                  end - begin, mine, b);
    }
    barrier_wait(b->team);
    conv_reduce(l, b->n, b);
    return 0;
}

static const char *conv_route(const nn_layer *spec, pass_kind kind, const batch *b)
{
    pass p = kind == INPUT_GRADIENT ? backward_pass(spec, 0) : forward_pass(spec);
    (void)b;
    switch (p.algorithm) {
    case DIRECT: return "direct";
    case WINOGRAD: return "winograd 4x4";
    case PLANES: return "planes";
    }
    NOT_REACHED;
}

static const layer_kind conv_kind = {
    .forward = conv_forward, .backward_input = conv_backward_input, .flops = conv_flops,
    .parameters = {
        .size = conv_weights, .import = weights_copy, .export = weights_copy,
        .gradient = conv_gradient,
    },
    .memory = {.workspace = conv_workspace, .scratch = conv_scratch,
    .shared_scratch = conv_shared_scratch},
    .fast = {
        .prepare = conv_prepare, .by_rows = 1, .partial_sums = conv_partial_sums,
        .add_partial_sum = conv_add_partial_sum, .reduce = conv_reduce, .route = conv_route,
    },
};
