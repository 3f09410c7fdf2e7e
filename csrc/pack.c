/* pack.c - networks of one architecture side by side: each thread has the buffers of one
 * network, and takes the parameters of the next member as it gets free. A member's bits do not
 * depend on the thread, and threads meet nowhere before the last job.
 * uses: buffers.c (point_layers, bytes_of_vectors), net.c, train.c (net_epoch), test.c
 * (net_predict, net_loss)
 */
#include "core.h"

/* A network of a pack while no thread works on it: see nn_net. */
typedef struct {
    real *vectors[NN_KEPT + 1];
} member;

/* A thread's network: buffers, gradients, and the vectors of the member at hand; none of its
 * own. */
typedef struct {
    nn_net *net;
    int64_t *order;
} worker;

struct nn_pack {
    int members, threads;               /* networks; threads, each with a worker */
    int64_t rows;                       /* that the workers' orders have room for */
    member *own;
    worker *workers;
};

static void take_member(nn_net *net, const member *m)
{
    memcpy(net->vectors, m->vectors, sizeof net->vectors);
    point_layers(net);
}

/* Gives the member its vectors back. Those that it has got meanwhile are its memory, not the
 * network's. */
static void give_back_member(nn_net *net, member *m)
{
    net->bytes -= bytes_of_vectors(net, net->vectors) - bytes_of_vectors(net, m->vectors);
    memcpy(m->vectors, net->vectors, sizeof m->vectors);
    memset(net->vectors, 0, sizeof net->vectors);
}

/* ---- memory ---- */

nn_pack *FN(pack_new)(const nn_layer *layers, int count, const nn_loss_settings *loss, int members,
                      int threads)
{
    nn_pack *pack = nn_alloc(sizeof *pack);
    if (!pack)
        return NULL;
    pack->members = members, pack->threads = (int)max_i64(1, min_i64(threads, members));
    pack->own = nn_alloc(members * (int64_t)sizeof *pack->own);
    pack->workers = nn_alloc(pack->threads * (int64_t)sizeof *pack->workers);
    int failed = !pack->own || !pack->workers;
    for (int t = 0; !failed && t < pack->threads; t++)
        failed = !(pack->workers[t].net = FN(net_new)(layers, count, loss, 1, 1));
    for (int m = 0; !failed && m < members; m++)
        failed = !(pack->own[m].vectors[NN_PARAMETERS] = FN(net_vector)(pack->workers[0].net));
    if (!failed)
        return pack;
    FN(pack_free)(pack);
    return NULL;
}

void FN(pack_free)(nn_pack *pack)
{
    if (!pack)
        return;
    for (int t = 0; pack->workers && t < pack->threads; t++)
        FN(net_free)(pack->workers[t].net), nn_free(pack->workers[t].order);
    for (int m = 0; pack->own && m < pack->members; m++)
        for (int v = 0; v <= NN_KEPT; v++)
            nn_free(pack->own[m].vectors[v]);
    nn_free(pack->workers), nn_free(pack->own), nn_free(pack);
}

int FN(pack_reserve)(nn_pack *pack, int64_t batch, int64_t rows)
{
    for (int t = 0; t < pack->threads; t++)
        if (FN(net_reserve)(pack->workers[t].net, batch))
            return -1;
    for (int t = 0; rows > pack->rows && t < pack->threads; t++) {
        int64_t *order = nn_alloc(rows * (int64_t)sizeof *order);
        if (!order)
            return -1;
        nn_free(pack->workers[t].order);
        pack->workers[t].order = order;
    }
    pack->rows = max_i64(pack->rows, rows);
    return 0;
}

int64_t FN(pack_bytes)(const nn_pack *pack)
{
    const nn_net *net = pack->workers[0].net;
    int64_t vector = bytes_of_vector(net, NN_PARAMETERS), bytes = 0;
    /* a network counts its parameters, which a worker has not */
    for (int t = 0; t < pack->threads; t++)
        bytes += pack->workers[t].net->bytes - vector + pack->rows * (int64_t)sizeof(int64_t);
    for (int m = 0; m < pack->members; m++)
        bytes += bytes_of_vectors(net, pack->own[m].vectors);
    return bytes;
}

/* ---- members one by one ---- */

/* Sets a vector of the member (to NULL), gets it (from NULL), or keeps its parameters (both
 * NULL). */
static int with_member(nn_pack *pack, int number, nn_vector what, const real *from, real *to)
{
    nn_net *net = pack->workers[0].net;
    member *own = &pack->own[number];
    take_member(net, own);
    int failed = from ? FN(net_set)(net, what, from)
                 : to ? FN(net_get)(net, what, to)
                      : FN(net_keep)(net);
    give_back_member(net, own);
    return failed;
}

int FN(pack_set)(nn_pack *pack, int member, nn_vector what, const real *values)
{
    return with_member(pack, member, what, values, NULL);
}

int FN(pack_get)(nn_pack *pack, int member, nn_vector what, real *values)
{
    return with_member(pack, member, what, NULL, values);
}

int FN(pack_keep)(nn_pack *pack, int member)
{ return with_member(pack, member, NN_PARAMETERS, NULL, NULL); }

/* ---- jobs ---- */

static void epoch_job(const worker *w, nn_job *job)
{
    const int64_t *order = job->rows;
    if (job->shuffled) {
        memcpy(w->order, job->rows, (size_t)job->n * sizeof *order);
        nn_shuffle(w->order, job->n, job->training.seed, job->stream, job->lane);
        order = w->order;
    }
    job->failed = FN(net_epoch)(w->net, job->data, order, job->n, &job->training, job->progress);
}

static void predict_job(const worker *w, nn_job *job)
{
    FN(net_predict)(w->net, job->out, job->data, job->rows, job->n);
}

static void loss_job(const worker *w, nn_job *job)
{
    job->loss = FN(net_loss)(w->net, job->data, job->rows, job->n);
}

static void run_jobs(nn_pack *pack, nn_job *jobs, int count, void (*run)(const worker *, nn_job *))
{
    int next = 0, threads = nn_begin((int)min_i64(pack->threads, count), 0);
    #pragma omp parallel num_threads(threads)
    {
        const worker *w = &pack->workers[nn_this_team(NULL).id];
        for (int j; (j = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < count;) {
            member *own = &pack->own[jobs[j].member];
            take_member(w->net, own);
            run(w, &jobs[j]);
            give_back_member(w->net, own);
        }
    }
    nn_end(threads);
}

void FN(pack_epoch)(nn_pack *pack, nn_job *jobs, int count)
{ run_jobs(pack, jobs, count, epoch_job); }
void FN(pack_predict)(nn_pack *pack, nn_job *jobs, int count)
{ run_jobs(pack, jobs, count, predict_job); }
void FN(pack_loss)(nn_pack *pack, nn_job *jobs, int count)
{ run_jobs(pack, jobs, count, loss_job); }
