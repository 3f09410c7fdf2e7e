/* shuffle.cu - the row orders of an epoch, for many networks at once: those of csrc/random.c. */

/* Whose order: rows of the data set, how many, the generator's seed and the epoch, and where the
 * order goes. */
struct deal {
    const int64 *rows;
    int64 *order;
    int64 count, seed, epoch;
};

typedef unsigned short place_type;       /* pack.py draws no more rows here than it can number */

enum { DRAWERS = THREADS - 32, DRAWN = 2 * DRAWERS };      /* swaps drawn at a time */

/* to[i] = the place that place first + i changes with; two of them from each of the generator's
 * blocks */
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

/* Places first .. first + n change with those that were drawn for them, one after the other; the
 * next is read ahead, as each read of shared memory is waited for. */
__device__ inline void swap_places(place_type *place, const int *__restrict__ drawn, int first,
                                   int n)
{
    int next = drawn[0];
    for (int i = 0; i < n; i++) {
        int other = next;
        next = drawn[i + 1 < n ? i + 1 : i];
        place_type at = place[first + i], there = place[other];
        place[first + i] = there;
        place[other] = at;
    }
}

/* A block a network: while one thread swaps, others draw what it swaps next. */
extern "C" __global__ void __launch_bounds__(THREADS) shuffle(const deal *deals)
{
    const deal d = deals[blockIdx.x];
    int *drawn = (int *)BLOCK_MEMORY, drawer = (int)threadIdx.x - 32;
    place_type *place = (place_type *)(drawn + 2 * DRAWN);
    for (int i = threadIdx.x; i < d.count; i += THREADS)
        place[i] = (place_type)i;
    if (drawer >= 0)
        draw_places(drawn, d, 0, drawer);
    __syncthreads();
    for (int first = 0, parity = 0; first < d.count; first += DRAWN, parity ^= 1) {
        if (drawer >= 0)
            draw_places(drawn + (parity ^ 1) * DRAWN, d, first + DRAWN, drawer);
        if (threadIdx.x == 0)
            swap_places(place, drawn + parity * DRAWN, first,
                        d.count - first < DRAWN ? (int)d.count - first : DRAWN);
        __syncthreads();
    }
    for (int i = threadIdx.x; i < d.count; i += THREADS)
        d.order[i] = d.rows[place[i]];
}
