/* train.c - feedforward, back-propagation, update, epoch. The one epoch loop of the plain and the fast build.
 *
 * All threads run all of it side by side; each op splits its outputs among them and ends at a barrier. Batches of small
 * networks are split by rows instead, and threads meet before the step only.
 */
#include "core.h"
#include <math.h>
#include <string.h>

/* ---- one batch into place ---- */

/* Ask the memory for a row of the next batch: they lie anywhere, and by the time they are read they are near. */
static void fetch_ahead(const nn_data *data, int64_t row, int64_t inputs)
{
    const int64_t most = 64 * ALIGNMENT;
    int64_t bytes = inputs * (data->x_type == NN_BYTES ? 1 : (int64_t)sizeof(real));
    const char *from = (const char *)data->x + row * bytes;
    for (int64_t at = 0; at < min_i64(bytes, most); at += ALIGNMENT)
        __builtin_prefetch(from + at);
    __builtin_prefetch(from + bytes - 1);       /* rows begin anywhere in a line */
}

/* Rows of the data set that come next, as far as they are known. */
typedef struct {
    const int64_t *rows;
    int64_t count;
} ahead;

/* x (n, inputs) and, where asked for, y (n, outputs) of the given rows. */
static void gather(nn_net *net, const nn_data *data, const int64_t *rows, int64_t first_row, ahead next,
                   int targets, const batch *b)
{
    int64_t inputs = net->layers[0].inputs, outputs = last_layer(net)->outputs, first, last;
    team_share(b->team, b->n, 1, &first, &last);
    for (int64_t r = first; r < last; r++) {
        int64_t from = rows ? rows[r] : first_row + r;
        real *x = net->x + r * row_stride(inputs), *y = net->y + r * row_stride(outputs);
        if (r < next.count)
            fetch_ahead(data, next.rows[r], inputs);
        if (data->x_type == NN_BYTES)
            image_in_bytes(x, (const uint8_t *)data->x + from * inputs, data->x_scale, net->layers[0].spec.in);
        else
            image_in(x, (const real *)data->x + from * inputs, net->layers[0].spec.in);
        if (targets && data->labels)
            for (int64_t k = 0; k < outputs; k++)
                y[image_place(k, last_layer(net)->spec.out)] = k == data->labels[from];
        else if (targets)
            image_in(y, (const real *)data->y + from * outputs, last_layer(net)->spec.out);
    }
    team_wait(b->team);
}

/* ---- forward, loss, backward, update ---- */

/* The batch's row of the profile, for the first thread; NULL for others, and without a profile. */
static double *stamps_of(const nn_net *net, const batch *b)
{
    nn_profile *p = net->profile;
    return p && b->team.id == 0 && p->batches < p->capacity ? p->stamps + p->batches * (7 + 3 * net->count) : NULL;
}

static void stamp(const nn_net *net, const batch *b, int place)
{
    double *stamps = stamps_of(net, b);
    if (stamps)
        stamps[place] = nn_seconds();
}

static const real *input_of(const nn_net *net, int i) { return i == 0 ? net->x : net->layers[i - 1].out; }

static void prepare(layer *l, int backward, const batch *b)
{
    if (l->kind->prepare) {
        l->kind->prepare(l, backward, b);
        team_wait(b->team);
    }
}

static void feedforward(nn_net *net, const batch *b)
{
    int deep = b->n >= b->team.count ? net->deep : 0;   /* fewer rows than threads: all work on each */
    if (deep)
        forward_deep(net, b);
    for (int i = deep; i < net->count; i++) {
        layer *l = &net->layers[i];
        prepare(l, 0, b);
        l->kind->forward(l, l->out, input_of(net, i), b);
        team_wait(b->team);
        stamp(net, b, 2 + i);
    }
}

/* The loss takes the last layer's values before their activation, and turns them into their gradient. */
static void loss_of_batch(nn_net *net, const batch *b, int activation)
{
    layer *l = last_layer(net);
    int64_t first, last;
    team_share(b->team, b->n, 1, &first, &last);
    loss_backward(l->out, net->row_loss, net->y, net->loss, activation, first, last, l->outputs);
    team_wait(b->team);
}

static void step_share(real *w, const real *g, real *m, real *v, int64_t n, int decays, const batch *b)
{
    int64_t first, last;
    team_share(b->team, n, ALIGNMENT, &first, &last);
    optimizer_step(w + first, g + first, m ? m + first : NULL, v ? v + first : NULL, last - first, decays, b->update);
}

static void step_layer(layer *l, const batch *b)
{
    step_share(l->w, l->dw, l->m, l->v, l->weight_size, 1, b);
    step_share(l->b, l->db, l->bm, l->bv, l->bias_size, 0, b);
}

static void apply_update(layer *l, const batch *b)
{
    step_layer(l, b);
    team_wait(b->team);
}

/* The first layer that learns; those before it need no gradients of theirs. */
static int first_learner(const nn_net *net)
{
    int i = 0;
    while (i < net->count && !net->layers[i].weight_size)
        i++;
    return i;
}

/* Gradients of layer i, and of its input where asked for. Whether the layer has taken its step. */
static int backward_layer(nn_net *net, int i, real *below, const batch *b)
{
    layer *l = &net->layers[i];
    const real *x = input_of(net, i);
    int updated = 1;
    /* the input's gradient first: it needs the weights as they stand before the update */
    if (below) {
        prepare(l, 1, b);
        l->kind->backward_input(l, below, l->dz, x, i > 0 ? net->layers[i - 1].spec.activation : NN_LINEAR, b);
        team_wait(b->team);
    }
    if (l->weight_size) {
        updated = l->kind->backward_parameters(l, l->dz, x, b);
        team_wait(b->team);
    }
    return updated;
}

/* Gradients of all layers, and of the input where asked for; with b->update each layer takes its step at once. */
static void backpropagate(nn_net *net, const batch *b, real *dx)
{
    int lowest = dx ? 0 : first_learner(net);
    int place = 3 + net->count, updated = 1, paired = 0;
    for (int i = net->count - 1; i >= max_i64(lowest, net->deep); i--) {
        layer *l = &net->layers[i];
        if (i == lowest + 1 && lowest >= net->deep && !dx && l->kind->pairs
            && l->kind->pairs(&l->spec, &l[-1].spec)) {
            updated = l->kind->backward_pair(l, l - 1, input_of(net, lowest), b);
            team_wait(b->team);
            paired = 1;
        } else if (!paired) {
            updated = backward_layer(net, i, i > lowest ? net->layers[i - 1].dz : dx, b);
        }
        stamp(net, b, place++);
        if (b->update && !updated)
            apply_update(l, b);
        stamp(net, b, place++);
    }
    if (lowest < net->deep)
        backward_deep(net, b, dx, lowest);
}

static void train_batch(nn_net *net, const nn_data *data, const int64_t *rows, ahead next, const batch *b,
                        int activation)
{
    stamp(net, b, 0);
    gather(net, data, rows, 0, next, 1, b);
    stamp(net, b, 1);
    feedforward(net, b);
    loss_of_batch(net, b, activation);
    stamp(net, b, 2 + net->count);
    backpropagate(net, b, NULL);
}

/* ---- a batch in parts ---- */

/* The network with room of its own for the rows of a batch from `first` on, and with its own gradients if there are
 * any. */
static nn_net part_of(const nn_net *net, layer *layers, int64_t first, real *gradients)
{
    nn_net part = *net;
    part.layers = layers;
    part.x += first * row_stride(net->layers[0].inputs), part.y += first * row_stride(last_layer(net)->outputs);
    part.row_loss += first;
    for (int i = 0; i < net->count; i++) {
        layer *l = &layers[i];
        *l = net->layers[i];
        l->out += first * row_stride(l->outputs), l->dz += first * row_stride(l->outputs);
        if (gradients)
            l->dw = gradients + l->weight_at, l->db = gradients + l->bias_at;
    }
    return part;
}

/* A part's stamps as durations, the first one apart, on top of those of the parts before. */
static void add_durations(double *sum, const double *stamps, int places)
{
    double before = stamps[0];
    sum[0] = sum[0] > 0 ? sum[0] : before;
    for (int i = 1; i < places; i++)
        if (stamps[i] > 0) {                    /* the step was taken */
            sum[i] += stamps[i] - before;
            before = stamps[i];
        }
}

/* The batch's stamps, as if the steps of a kind had been taken together. */
static void stamp_durations(const nn_net *net, const double *sum, int places)
{
    nn_profile *p = net->profile;
    double at = 0;
    for (int i = 0; i < places && p->batches < p->capacity; i++) {
        at += sum[i];
        if (sum[i] > 0)
            p->stamps[p->batches * places + i] = at;
    }
}

/* A thread's share of n gradients, the one that step_share takes, from those of the parts in their order. */
static void add_parts(real *g, int64_t n, int64_t parts, int64_t stride, const batch *b)
{
    int64_t first, last;
    team_share(b->team, n, ALIGNMENT, &first, &last);
    for (int64_t p = 1; p < parts; p++)
        for (int64_t i = first; i < last; i++)
            g[i] += g[p * stride + i];
}

static void step_parts(layer *l, int64_t parts, int64_t stride, const batch *b)
{
    add_parts(l->dw, l->weight_size, parts, stride, b);
    add_parts(l->db, l->bias_size, parts, stride, b);
    step_layer(l, b);
}

/* As train_batch: each thread takes whole parts of the batch as far as their gradients, in the same room, which stays
 * in its caches, and waits for the others only before the step. */
static void train_parts(nn_net *net, const nn_data *data, const int64_t *rows, ahead next, const batch *b,
                        int activation, int64_t parts)
{
    int64_t first, last;
    int places = 7 + 3 * net->count, timed = net->profile && b->team.id == 0;
    layer layers[net->count];
    double stamps[places], spent[places];
    nn_profile clock = {1, 0, stamps};
    memset(spent, 0, sizeof spent);
    team_share(b->team, parts, 1, &first, &last);
    for (int64_t p = first; p < last; p++) {
        int64_t from = b->n * p / parts, to = b->n * (p + 1) / parts;
        nn_net part = part_of(net, layers, b->n * first / parts, net->gradients + p * net->engine_size);
        part.row_loss = net->row_loss + from;
        part.profile = timed ? &clock : NULL;
        batch own = *b;
        own.team = (team){0, 1, NULL}, own.n = to - from, own.first_row += from, own.update = NULL;
        memset(stamps, 0, sizeof stamps);
        train_batch(&part, data, rows + from, (ahead){next.rows + from, next.count - from}, &own, activation);
        if (timed)
            add_durations(spent, stamps, places);
    }
    if (timed)
        stamp_durations(net, spent, places);
    team_wait(b->team);
    for (int i = 0; i < net->count; i++)
        if (net->layers[i].weight_size)
            step_parts(&net->layers[i], parts, net->engine_size, b);
    stamp(net, b, 4 + 3 * net->count);
}

/* What train_batch does where this rank has no rows of the batch. */
static void no_gradients(nn_net *net, const batch *b)
{
    if (b->team.id == 0)
        memset(net->gradients, 0, (size_t)net->engine_size * sizeof(real));
}

/* One step with the gradients of all ranks. *stop: whether this rank is asked to, before; whether any is, after. */
static int step_together(nn_net *net, const batch *b, int *stop)
{
    int failed = 0, place = 3 + 3 * net->count;
    if (b->team.id == 0)
        failed = sum_gradients(net, *stop);
    team_wait(b->team);
    stamp(net, b, place);
    for (int i = 0; i < net->count && steps_here(net); i++)
        apply_update(&net->layers[i], b);
    stamp(net, b, place + 1);
    if (b->team.id == 0)
        failed |= same_parameters(net, stop);
    stamp(net, b, place + 2);
    return failed;
}

/* ---- one epoch ---- */

/* The learning rate when the share `done` of the epoch is over. */
static double rate_at(const nn_training *t, double done)
{
    const int pieces = sizeof t->rates / sizeof *t->rates - 1;
    int piece = (int)(done * pieces);
    return t->rates[piece] + (t->rates[piece + 1] - t->rates[piece]) * (done * pieces - piece);
}

static update update_of(const nn_training *t, int64_t step, double done, int64_t n)
{
    double rate = rate_at(t, done);
    update u = {
        .optimizer = t->optimizer, .inv_rows = 1.0 / (double)n, .momentum = t->momentum,
        .beta1 = t->beta1, .beta2 = t->beta2, .epsilon = t->epsilon, .decay = rate * t->weight_decay,
    };
    u.rate = rate;
    if (t->optimizer == NN_ADAM) {
        u.rate = rate / (1 - pow(t->beta1, (double)(step + 1)));
        u.root_scale = 1 / sqrt(1 - pow(t->beta2, (double)(step + 1)));
    } else if (t->momentum == 0) {
        u.rate = rate * u.inv_rows;
    }
    return u;
}

/* The rows that this rank takes of the batch that follows `row` rows, if it is a whole one. */
static ahead share_after(const nn_net *net, const int64_t *order, int64_t row, int64_t n, int64_t size)
{
    int64_t first, last;
    rank_share(net, size, &first, &last);
    return (ahead){order + row + first, min_i64(last, n - row) - first};
}

/* By the first thread: the losses of the batch's rows go to the epoch's. `last`: and nothing follows for now. */
static int add_losses(const nn_net *net, loss_book *losses, const batch *b, int last, nn_progress *progress)
{
    double loss = 0;
    if (!net->ranks) {
        for (int64_t r = 0; r < b->n; r++)
            progress->loss += net->row_loss[r];
        return 0;
    }
    for (int64_t r = 0; r < b->n; r++)
        loss += net->row_loss[r];
    return loss_book_add(losses, net->ranks, loss, last, &progress->loss);
}

/* From here on this thread takes subnormal numbers for 0. Moments of weights that no gradient reaches decay to such
 * numbers and stay there, and processors need a hundred times as long for them. (The plain build keeps them.) Returns
 * the mode before, for restore_mode. */
static uint64_t flush_subnormals(void)
{
    uint64_t mode = 0;
#if defined(NN_FAST) && defined(__SSE2__)
    mode = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr((unsigned)mode | 0x8040);    /* results, operands */
#elif defined(NN_FAST) && defined(__aarch64__)
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    __asm__ volatile("msr fpcr, %0" : : "r"(mode | 1 << 24));
#endif
    return mode;
}

static void restore_mode(uint64_t mode)
{
#if defined(NN_FAST) && defined(__SSE2__)
    __builtin_ia32_ldmxcsr((unsigned)mode);
#elif defined(NN_FAST) && defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
#endif
    (void)mode;
}

int FN(net_epoch)(nn_net *net, const nn_data *data, const int64_t *order, int64_t n,
                  const nn_training *training, nn_progress *progress)
{
    layer *output = last_layer(net);
    int activation = output->spec.activation;
    int adam = training->optimizer == NN_ADAM, moments = steps_here(net);
    int64_t most = largest_share(net, min_i64(training->batch, n)), rest = (n - progress->row) % training->batch;
    loss_book losses;
    if (FN(net_reserve)(net, most) || loss_book_open(&losses, net->ranks, progress->loss))
        return -1;
    if (need_moments(net, moments && (adam || training->momentum != 0), moments && adam)
        || need_gradients(net, net->ranks ? 0 : most) || (rest > 0 && need_gradients(net, rest))) {
        nn_free(losses.mine);
        return -1;
    }
    output->spec.activation = NN_LINEAR;        /* the loss does it */
    int stop = 0, failed = 0;
    #pragma omp parallel num_threads(FN(net_threads)(net, most)) firstprivate(stop)
    {
        team here = nn_team_here(&net->meet);
        uint64_t mode = flush_subnormals();
        for (int64_t row = progress->row, step = progress->step; row < n && !stop; step++) {
            int64_t rows = min_i64(training->batch, n - row), first, last;
            rank_share(net, rows, &first, &last);
            update u = update_of(training, step, (double)row / (double)n, rows);
            batch b = {
                .team = here, .thread = here.id, .n = last - first, .first_row = first, .training = 1,
                .seed = training->seed, .step = step, .scratch = scratch_of(net, here),
                .update = net->ranks ? NULL : &u,
            };
            int64_t parts = parts_of(net, b.n);
            if (parts > 1)
                train_parts(net, data, order + row + first, share_after(net, order, row + rows, n, training->batch), &b,
                            activation, parts);
            else if (b.n)
                train_batch(net, data, order + row + first, share_after(net, order, row + rows, n, training->batch), &b,
                            activation);
            else
                no_gradients(net, &b);
            row += rows;
            b.update = &u;
            int asked = __atomic_load_n(&progress->stop, __ATOMIC_RELAXED);
            int lost = net->ranks ? step_together(net, &b, &asked) : 0;
            if (here.id == 0) {
                failed = lost || add_losses(net, &losses, &b, asked || row == n, progress);
                stamp(net, &b, 6 + 3 * net->count);
                if (net->profile && net->profile->batches < net->profile->capacity)
                    net->profile->batches++;
                progress->step = step + 1;
                __atomic_store_n(&progress->row, row, __ATOMIC_RELAXED);
                __atomic_store_n(&net->stop, asked || failed, __ATOMIC_RELAXED);
            }
            team_wait(here);                    /* all threads see the same stop, or none does */
            stop = net->stop;
        }
        restore_mode(mode);
    }
    output->spec.activation = activation;
    nn_free(losses.mine);
    return failed ? -2 : 0;
}

/* ---- gradients of one batch ---- */

static void scale_to_mean(real *g, int64_t n, int64_t rows)
{
    double scale = 1.0 / (double)rows;
    for (int64_t i = 0; i < n; i++)
        g[i] = (real)(g[i] * scale);
}

/* Rows as the core keeps them, into the caller's layout. */
static void take_images(real *to, const real *from, int64_t rows, const int32_t shape[3])
{
    for (int64_t r = 0; r < rows; r++)
        image_out(to + r * values(shape), from + r * row_stride(values(shape)), shape);
}

double FN(net_gradients)(nn_net *net, real *grads, real *dx, const real *x, const real *y, int64_t n,
                         int64_t seed, int64_t step)
{
    layer *output = last_layer(net);
    int activation = output->spec.activation;
    int64_t inputs = net->layers[0].inputs;
    double loss = 0;
    nn_data data = {x, NN_SAME_TYPE, 1, y, NULL};
    if (FN(net_reserve)(net, n) || need_gradients(net, 0))
        return NAN;
    if (dx && !net->dx && !(net->dx = take(net, net->batch * row_stride(inputs) * (int64_t)sizeof(real))))
        return NAN;
    output->spec.activation = NN_LINEAR;
    #pragma omp parallel num_threads(FN(net_threads)(net, n))
    {
        team here = nn_team_here(&net->meet);
        batch b = {
            .team = here, .thread = here.id, .n = n, .training = seed >= 0, .seed = (uint32_t)seed, .step = step,
            .scratch = scratch_of(net, here),
        };
        gather(net, &data, NULL, 0, (ahead){NULL, 0}, 1, &b);
        feedforward(net, &b);
        loss_of_batch(net, &b, activation);
        backpropagate(net, &b, dx ? net->dx : NULL);
    }
    output->spec.activation = activation;
    for (int64_t r = 0; r < n; r++)
        loss += net->row_loss[r];
    if (grads) {
        export_vector(net, grads, net->gradients);
        scale_to_mean(grads, net->size, n);
    }
    if (dx) {
        take_images(dx, net->dx, n, net->layers[0].spec.in);
        scale_to_mean(dx, n * inputs, n);
    }
    return loss / (double)n;
}
