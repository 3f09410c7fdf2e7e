/* shuffle.cu - the row orders of an epoch, for many networks at once: those of csrc/random.c. */

/* Whose order: rows of the data set, how many, the generator's seed and the epoch, and where the order goes. */
struct deal {
    const int64 *rows;
    int64 *order;
    int64 count, seed, epoch;
};

enum { DRAWERS = THREADS - 32, DRAWN = 2 * DRAWERS };      /* swaps drawn at a time */

/* to[i] = the place that place first + i changes with; two of them from each of the generator's blocks */
__device__ inline void draw_places(int *to, const deal &d, int first, int drawer)
{
    int i = first + 2 * drawer;
    if (i >= d.count)
        return;
    unsigned word[4];
    philox(word, (unsigned)d.seed, i / 2, 0, STREAM_SHUFFLE, (unsigned)d.epoch);
    for (int k = 0; k < 2; k++) {
        unsigned long long bits = (unsigned long long)word[2 * k] << 32 | word[2 * k + 1];
        to[2 * drawer + k] = i + k + (int)__umul64hi(bits, (unsigned long long)(d.count - i - k));
    }
}

/* A block a network: while one thread swaps, others draw what it swaps next. */
extern "C" __global__ void __launch_bounds__(THREADS) shuffle(const deal *deals)
{
    const deal d = deals[blockIdx.x];
    int *drawn = (int *)BLOCK_MEMORY, *place = drawn + 2 * DRAWN, drawer = (int)threadIdx.x - 32;
    for (int i = threadIdx.x; i < d.count; i += THREADS)
        place[i] = i;
    if (drawer >= 0)
        draw_places(drawn, d, 0, drawer);
    __syncthreads();
    for (int first = 0, parity = 0; first < d.count; first += DRAWN, parity ^= 1) {
        if (drawer >= 0)
            draw_places(drawn + (parity ^ 1) * DRAWN, d, first + DRAWN, drawer);
        if (threadIdx.x == 0)
            for (int i = first; i < d.count && i < first + DRAWN; i++) {
                int other = drawn[parity * DRAWN + i - first], at = place[i];
                place[i] = place[other];
                place[other] = at;
            }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < d.count; i += THREADS)
        d.order[i] = d.rows[place[i]];
}
