/* pass.c - one batch through the network: gather, forward, loss, backward, update.
 *
 * All threads run all of it side by side. Each step divides its outputs among them and ends at a
 * barrier.
 * uses: buffers.c (last_layer), fused.c (forward_fused, backward_fused)
 */
#include "core.h"

/* ---- stamps ---- */

/* Where there is a profile: the time since this thread's last stamp was spent in this step of the
 * batch, if one has begun: a loss of other rows has no steps. Micro-batches begin one after the
 * other in the same batch. */
static void stamp(const nn_net *net, const batch *b, int place)
{
    nn_profile *p = net->profile;
    if (!p || b->thread >= p->threads || p->batches == p->capacity)
        return;
    int64_t thread = p->batches * p->threads + b->thread;
    double now = nn_seconds(), *row = p->seconds + thread * stamps_in_all(net->count);
    int begins = place == STAMP_BEGIN, has_begun = row[STAMP_BEGIN] > 0;
    if (begins != has_begun)
        row[place] += begins ? now : now - p->last[b->thread];
    p->last[b->thread] = now;
}

/* By one thread, the others at a barrier: what the profile has of this batch is complete. */
static void end_profile(const nn_net *net, const batch *b)
{
    stamp(net, b, stamp_end(net->count));
    if (net->profile && net->profile->batches < net->profile->capacity)
        net->profile->batches++;
}

/* ---- gather ---- */

/* Bytes from one row of the data to the next. */
static int64_t data_row_bytes(const nn_data *data, int64_t inputs)
{
    switch (data->x_type) {
    case NN_SAME_TYPE: return inputs * (int64_t)sizeof(real);
    case NN_BYTES: return inputs;
    case NN_RECORDS: return data->record_bytes;
    }
    NOT_REACHED;
}

/* Prefetches a row of the next batch: rows are read in random order, which no processor
 * foresees. Inlined always: GCC 12 takes a function that does nothing but prefetch for one
 * without effect, and leaves its calls out. */
static inline __attribute__((always_inline)) void prefetch_row(const nn_data *data, int64_t row,
                                                               int64_t inputs)
{
    const int64_t most = 64 * ALIGNMENT;
    int64_t bytes = data_row_bytes(data, inputs);
    const char *from = (const char *)data->x + row * bytes;
    for (int64_t at = 0; at < min_i64(bytes, most); at += ALIGNMENT)
        __builtin_prefetch(from + at);
    __builtin_prefetch(from + bytes - 1);       /* a row begins anywhere in a cache line */
}

/* The rows of the data set that the next batch reads; none where it is unknown. */
typedef struct {
    const int64_t *rows;
    int64_t count;
} next_rows;

/* x = a record's numbers and codes */
static void record_in(real *x, const char *record, const nn_data *data)
{
    const real *numbers = (const real *)record;
    const uint32_t *codes4 = (const uint32_t *)(numbers + data->numbers);
    const uint16_t *codes2 = (const uint16_t *)(codes4 + data->codes4);
    const uint8_t *codes1 = (const uint8_t *)(codes2 + data->codes2);
    for (int32_t k = 0; k < data->numbers; k++)
        *x++ = numbers[k];
    for (int32_t k = 0; k < data->codes4; k++)
        *x++ = (real)codes4[k];
    for (int32_t k = 0; k < data->codes2; k++)
        *x++ = (real)codes2[k];
    for (int32_t k = 0; k < data->codes1; k++)
        *x++ = (real)codes1[k];
}

/* Row `from` of the data as one row x of the batch. */
static inline void gather_input(real *x, const nn_data *data, int64_t from, const layer *l)
{
    const char *row = (const char *)data->x + from * data_row_bytes(data, l->inputs);
    switch (data->x_type) {
    case NN_SAME_TYPE: image_in(x, (const real *)row, l->spec.in); return;
    case NN_BYTES: image_in_bytes(x, (const uint8_t *)row, l->spec.in); return;
    case NN_RECORDS: record_in(x, row, data); return;
    }
    NOT_REACHED;
}

/* How an image is moved: place (y, x) gets the pixel (y - down, x - right) of the image, or of
 * its mirror image. */
typedef struct {
    int64_t down, right;
    int mirrored;
} move;

/* A number of -most .. most; of 32 random bits, a fraction of 2^32. */
static int64_t drawn_shift(uint32_t bits, int32_t most)
{
    return (int64_t)((uint64_t)bits * (uint64_t)(2 * most + 1) >> 32) - most;
}

/* The move of row r of the batch: a function of the seed, the step and the row's number in the
 * whole batch, as dropout's masks are; no layer has the number MOVE_LANE. */
static move drawn_move(const batch *b, int64_t r)
{
    const uint32_t MOVE_LANE = 0xFFFFFFFFu;
    uint64_t row = (uint64_t)(b->first_row + r);
    uint32_t word[4];
    philox(word, b->seed, (uint32_t)row, (uint32_t)(row >> 32), (uint32_t)b->step, MOVE_LANE);
    return (move){
        .down = drawn_shift(word[0], b->moves->shift[0]), .right = drawn_shift(word[1],
        b->moves->shift[1]),
        .mirrored = b->moves->mirror && word[2] >> 31,
    };
}

/* Row `from` of the data as one row x of the batch, the image moved. */
static void gather_moved(real *x, const nn_data *data, int64_t from, const layer *l, move m)
{
    const int64_t channels = l->spec.in[0], height = l->spec.in[1], width = l->spec.in[2],
                  first = from * l->inputs;
    const int64_t pixel_step = CHANNELS_LAST ? channels : 1,
                  channel_step = CHANNELS_LAST ? 1 : height * width;
    for (int64_t row = 0; row < channels * height; row++) {
        int64_t c = row / height, down = row % height - m.down;
        int64_t line = first + (c * height + min_i64(max_i64(down, 0), height - 1)) * width;
        real *to = x + c * channel_step + row % height * width * pixel_step;
        for (int64_t k = 0; k < width; k++, to += pixel_step) {
            int64_t right = min_i64(max_i64(k - m.right, 0), width - 1);
            int64_t at = line + (m.mirrored ? width - 1 - right : right);
            *to = data->x_type == NN_BYTES ? (real)(BYTE_SCALE * ((const uint8_t *)data->x)[at])
                                           : ((const real *)data->x)[at];
        }
    }
}

/* The same of the targets; labels become one-hot rows. */
static inline void gather_target(real *y, const nn_data *data, int64_t from, const layer *l)
{
    if (!data->labels)
        image_in(y, (const real *)data->y + from * l->outputs, l->spec.out);
    else
        for (int64_t k = 0; k < l->outputs; k++)
            y[image_place(k, l->spec.out)] = k == data->labels[from];
}

/* x (n, inputs) and, with `targets`, y (n, outputs) of the given rows; of those from first_row
 * on if rows is NULL. */
static void gather(nn_net *net, const nn_data *data, const int64_t *rows, int64_t first_row,
                   next_rows next, int targets, const batch *b)
{
    int64_t inputs = net->layers[0].inputs, outputs = last_layer(net)->outputs, first, last;
    thread_share(b->team, b->n, 1, &first, &last);
    for (int64_t r = first; r < last; r++) {
        int64_t from = rows ? rows[r] : first_row + r;
        if (r < next.count)
            prefetch_row(data, next.rows[r], inputs);
        real *x = net->buffers.x + r * row_stride(inputs);
        if (b->moves)
            gather_moved(x, data, from, &net->layers[0], drawn_move(b, r));
        else
            gather_input(x, data, from, &net->layers[0]);
        if (targets)
            gather_target(net->buffers.y + r * row_stride(outputs), data, from, last_layer(net));
    }
    barrier_wait(b->team);
}

/* ---- forward and loss ---- */

static const real *input_of(const nn_net *net, int i)
{ return i == 0 ? net->buffers.x : net->layers[i - 1].out; }

static void prepare(layer *l, int backward, const batch *b)
{
    if (l->kind->fast.prepare) {
        l->kind->fast.prepare(l, backward, b);
        barrier_wait(b->team);
    }
}

/* The layers that run fused in the forward pass. With fewer rows than threads none do: all
 * threads share each row. */
static int fused_forward(const nn_net *net, const batch *b)
{
    return b->n >= b->team.count ? net->buffers.fused_layers : 0;
}

static void feedforward(nn_net *net, const batch *b)
{
    int fused = fused_forward(net, b);
    if (fused)
        forward_fused(net, b);
    for (int i = fused; i < net->count; i++) {
        layer *l = &net->layers[i];
        prepare(l, 0, b);
        l->kind->forward(l, l->out, input_of(net, i), b);
        barrier_wait(b->team);
        stamp(net, b, stamp_forward(i));
    }
}

/* A row's loss and gradient times the row's weight, for some rows of the batch. */
static void weigh_rows(nn_net *net, const nn_data *data, const int64_t *rows, int64_t first,
                       int64_t last)
{
    const layer *l = last_layer(net);
    for (int64_t r = first; r < last; r++) {
        real weight = ((const real *)data->weights)[rows[r]],
             *dz = l->out + r * row_stride(l->outputs);
        for (int64_t k = 0; k < l->outputs; k++)
            dz[k] *= weight;
        net->buffers.row_loss[r] *= weight;
    }
}

/* Replaces the last layer's values before their activation by the gradient of the loss. rows: of
 * the data, for their weights. */
static void loss_of_batch(nn_net *net, const nn_data *data, const int64_t *rows, const batch *b,
                          nn_activation activation)
{
    layer *l = last_layer(net);
    int64_t first, last;
    thread_share(b->team, b->n, 1, &first, &last);
    loss_backward(l->out, net->buffers.row_loss, net->buffers.y, &net->loss, activation, first,
                  last, l->outputs);
    if (data->weights)
        weigh_rows(net, data, rows, first, last);
    barrier_wait(b->team);
}

/* ---- backward and update ---- */

static void step_share(real *w, const real *g, real *m, real *v, int64_t n, int decays,
                       const batch *b)
{
    int64_t first, last;
    thread_share(b->team, n, ALIGNMENT, &first, &last);
    optimizer_step(w + first, g + first, m ? m + first : NULL, v ? v + first : NULL, last - first,
                   decays, b->update);
}

static int has_scales(const layer *l, const batch *b)
{ return l->scales && b->update && b->update->scale_rate > 0; }

static void step_layer(layer *l, const batch *b)
{
    if (has_scales(l, b))
        l->kind->parameters.scaled_step(l, b);
    else
        step_share(l->w, l->dw, l->m, l->v, l->weight_size, !l->kind->parameters.undecayed, b);
    step_share(l->b, l->db, l->bm, l->bv, l->bias_size, 0, b);
}

static void apply_update(layer *l, const batch *b)
{
    step_layer(l, b);
    barrier_wait(b->team);
}

/* The lowest trainable layer: the layers below it need no gradients. */
static int first_trainable(const nn_net *net)
{
    int i = net->lowest;
    while (i < net->count && !has_parameters(&net->layers[i]))
        i++;
    return i;
}

/* The gradients of a layer whose step needs all of them. */
static int keep_gradients(layer *l, const real *x, const batch *b)
{
    batch keeping = *b;
    keeping.update = NULL;
    return l->kind->parameters.gradient(l, l->dz, x, &keeping);
}

/* Gradients of layer i, and of its input unless `below` is NULL. Returns whether the layer has
 * taken its step. */
static int backward_layer(nn_net *net, int i, real *below, const batch *b)
{
    layer *l = &net->layers[i];
    const real *x = input_of(net, i);
    int updated = 1;
    /* the input's gradient first: it needs the weights from before the update */
    if (below) {
        prepare(l, 1, b);
        l->kind->backward_input(l, below, l->dz, x,
                                i > 0 ? net->layers[i - 1].spec.activation : NN_LINEAR, b);
        barrier_wait(b->team);
    }
    if (has_parameters(l)) {
        updated = has_scales(l, b) ? keep_gradients(l, x, b)
                                   : l->kind->parameters.gradient(l, l->dz, x, b);
        barrier_wait(b->team);
    }
    return updated;
}

/* The batch as backward_input of layer i sees it: b, or a copy of it in *own where the lowest
 * trainable layer, which is below, reads a part of its dx only. */
static const batch *backward_batch(const nn_net *net, int i, int lowest, const real *dx,
                                   const batch *b, batch *own)
{
    const layer *below = &net->layers[lowest];
    if (i != lowest + 1 || dx || !below->kind->fast.gradients_read)
        return b;
    *own = *b;
    below->kind->fast.gradients_read(&below->spec, &own->dx_from, &own->dx_to);
    return own;
}

/* Gradients of all layers, and of the input unless dx is NULL; with b->update each layer takes
 * its step at once. */
static void backpropagate(nn_net *net, const batch *b, real *dx)
{
    int lowest = dx ? 0 : first_trainable(net), fused = net->buffers.fused_layers;
    for (int i = net->count - 1; i >= max_i64(lowest, fused); i--) {
        batch own;
        real *below = i > lowest ? net->layers[i - 1].dz : dx;
        int updated = backward_layer(net, i, below, backward_batch(net, i, lowest, dx, b, &own));
        stamp(net, b, stamp_gradients(net->count, i));
        if (b->update && !updated)
            apply_update(&net->layers[i], b);
        stamp(net, b, stamp_update(net->count, i));
    }
    if (lowest < fused)
        backward_fused(net, b, dx, lowest);
}

static void train_batch(nn_net *net, const nn_data *data, const int64_t *rows, next_rows next,
                        const batch *b, nn_activation activation)
{
    stamp(net, b, STAMP_BEGIN);
    gather(net, data, rows, 0, next, 1, b);
    stamp(net, b, STAMP_GATHERED);
    feedforward(net, b);
    loss_of_batch(net, data, rows, b, activation);
    stamp(net, b, stamp_loss(net->count));
    backpropagate(net, b, NULL);
}
