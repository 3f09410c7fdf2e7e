/* common.cu - what all kernels share: the batch at hand, activations, the copy into shared
 * memory, the grid's barrier.
 *
 * The files of this folder are joined and compiled at run time (NVRTC) for one network: sizes
 * are template arguments, so that the compiler turns every division by a size into a
 * multiplication. Each op is a function that all blocks of a grid run side by side; program.py
 * writes the kernels that call the ops one after the other. Batches are dense, (n, values) row
 * by row, images channel by channel.
 *
 * In front of this file program.py puts what abi.py declares: the types real and int64,
 * constants, the names of activations, losses and update rules, and
 *     struct update       what the optimiser does in one batch; the host works out all batches
 *                         of an epoch beforehand
 *     struct control      where everything is. The host fills it in before an epoch; it is in
 *                         the GPU's memory, so
 *                         that a captured graph can be replayed without a change to its
 *                         arguments
 */

/* The batch at hand, or a member's share of it. */
struct batch {
    int n;                              /* rows, 0 after the last */
    int64 row;                          /* its first in the order */
    /* that row's number in the whole batch, which members of a group share */
    int64 first;
    unsigned step, seed;
    const update *u;
};

/* The first row of a member's share of `rows` rows: the rule of cluster's RankGroup. */
__device__ inline int64 share_begin(const control &c, int64 rows, int64 rank)
{ return rows * rank / c.size; }

__device__ inline batch batch_of(const control &c, int64 row, int64 index)
{
    int64 left = c.count - row, rows = left < 0 ? 0 : left < c.batch ? left : c.batch;
/* the order holds this member's rows only, of whole batches up to this one */
#ifdef SHARED
    int64 each = share_begin(c, c.batch, c.rank + 1) - share_begin(c, c.batch, c.rank);
    int64 first = share_begin(c, rows, c.rank);
    batch b = {(int)(share_begin(c, rows, c.rank + 1) - first),
               index * each,
               first,
               (unsigned)(c.step + index),
               (unsigned)c.seed,
               c.updates + index};
#else
    batch b = {(int)rows, row, 0, (unsigned)(c.step + index), (unsigned)c.seed, c.updates + index};
#endif
    return b;
}

/* The row of the data set that row r of the batch is. */
__device__ inline int64 data_row(const control &c, const batch &b, int r)
{
    return c.order ? c.order[b.row + r] : b.row + r;
}

/* The blocks of the grid that run an op: this one's number among how many. */
struct block_range {
    int id, count;
    /* for grid-stride loops */
    __device__ int first() const { return id * THREADS + threadIdx.x; }
    __device__ int stride() const { return count * THREADS; }
};

/* The grid with its blocks counted from another one on: ops of one phase each begin where the
 * last one ended. */
__device__ inline block_range block_range_from(int start)
{
    block_range range = {(int)((blockIdx.x + gridDim.x - start % gridDim.x) % gridDim.x),
                         (int)gridDim.x};
    return range;
}

/* All blocks of a grid meet. They must all be resident (a cooperative launch); `target` begins
 * at 0 with *arrivals. */
__device__ inline void grid_barrier(unsigned *arrivals, unsigned &target)
{
    target += gridDim.x;
    __syncthreads();
    if (gridDim.x == 1)
        return;
    if (threadIdx.x == 0) {
        /* what this block wrote becomes visible before its arrival does */
        __threadfence();
        atomicAdd(arrivals, 1u);
        while ((int)(*(volatile unsigned *)arrivals - target) < 0)
            SPIN;
        /* and what the others wrote is read from memory, not from an old cache line */
        __threadfence();
    }
    __syncthreads();
}

/* Whether a maximum goes on with `value`: a NaN stays one. */
__device__ inline bool is_larger(real value, real largest)
{ return value > largest || value != value; }

/* ---- global memory ---- */

enum { WHOLE = 16 / (int)sizeof(real) };        /* values that one instruction can load */
template <int N>
struct alignas(N * sizeof(real)) values { real v[N]; };
typedef values<WHOLE> whole;

/* Values side by side that rows of n values divide into. */
__device__ constexpr int beside(int n) { return n % WHOLE == 0 ? WHOLE : 1; }

/* *p, and 0 where p is NULL: one predicated instruction, where the compiler would make a branch,
 * so that many loads can be under way at once. */
#if __CUDA_ARCH__
__device__ inline float load_or_zero(const float *p)
{
    float v;
    asm volatile(
        "{ .reg .pred p; setp.ne.u64 p, %1, 0; mov.f32 %0, 0f00000000; @p ld.global.f32 %0, [%1]; }"
        : "=f"(v)
        : "l"(p)
        : "memory");
    return v;
}

__device__ inline double load_or_zero(const double *p)
{
    double v;
    asm volatile(
        "{ .reg .pred p; setp.ne.u64 p, %1, 0; mov.f64 %0, 0d0000000000000000; @p ld.global.f64 %0, [%1]; }"
        : "=d"(v)
        : "l"(p)
        : "memory");
    return v;
}

__device__ inline void load_whole_or_zero(float *v, const float *p)
{
    asm volatile(
        "{ .reg .pred p; setp.ne.u64 p, %4, 0; mov.f32 %0, 0f00000000; mov.f32 %1, 0f00000000; "
        "mov.f32 %2, 0f00000000; mov.f32 %3, 0f00000000; @p ld.global.v4.f32 {%0, %1, %2, %3}, [%4]; }"
        : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
        : "l"(p)
        : "memory");
}

__device__ inline void load_whole_or_zero(double *v, const double *p)
{
    asm volatile("{ .reg .pred p; setp.ne.u64 p, %2, 0; mov.f64 %0, 0d0000000000000000; "
                 "mov.f64 %1, 0d0000000000000000; @p ld.global.v2.f64 {%0, %1}, [%2]; }"
                 : "=d"(v[0]), "=d"(v[1]) : "l"(p) : "memory");
}
#else
__device__ inline real load_or_zero(const real *p) { return p ? *p : 0; }
__device__ inline void load_whole_or_zero(real *v, const real *p)
{
    for (int i = 0; i < WHOLE; i++)
        v[i] = p ? p[i] : 0;
}
#endif

/* p[first] + p[first + step] + ... below `count`, one value every `stride`: eight loads under
 * way at a time, added up in order. */
__device__ inline real strided_sum(const real *p, int first, int step, int count, int64 stride)
{
    real sum = 0;
    for (int at = first; at < count; at += 8 * step) {
        real value[8];
        #pragma unroll
        for (int i = 0; i < 8; i++)
            value[i] = load_or_zero(at + i * step < count ? p + (at + i * step) * stride : 0);
        #pragma unroll
        for (int i = 0; i < 8; i++)
            sum += value[i];
    }
    return sum;
}

/* ---- shared memory ---- */

/* threads that share one of a block's 32 sums: one of each warp */
enum { SHARES = THREADS / 32 };

/* Their sums, added up in order: the first warp gets the whole ones. All threads call it;
 * memory: a value a thread. */
__device__ inline real sum_of_shares(real *memory, real sum)
{
    memory[threadIdx.x] = sum;
    __syncthreads();
    for (int s = 1; s < SHARES && threadIdx.x < 32; s++)
        sum += memory[s * 32 + threadIdx.x];
    __syncthreads();                    /* before the memory serves another sum, or another op */
    return sum;
}

/* to[place(e)] = *from(e), 0 for NULL, for e below COUNT: eight loads of each thread under way
 * at a time. */
template <int COUNT, class FROM, class PLACE>
__device__ inline void stage(real *to, const FROM &from, const PLACE &place)
{
    #pragma unroll 1
    for (int base = 0; base < COUNT; base += 8 * THREADS) {
        real value[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            int e = base + i * THREADS + threadIdx.x;
            value[i] = base + i * THREADS < COUNT ? load_or_zero(e < COUNT ? from(e) : 0) : 0;
        }
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            int e = base + i * THREADS + threadIdx.x;
            if (e < COUNT)
                to[place(e)] = value[i];
        }
    }
}

/* One value of 4 or 8 bytes from global to shared memory, in the background; 0 where `from` is
 * NULL. */
template <class T>
__device__ inline void copy_async(T *to, const T *from)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(to)),
                 "l"(from), "n"(sizeof(T)), "r"(from ? (int)sizeof(T) : 0)
                 : "memory");
#else
    *to = from ? *from : T{};
#endif
}

/* Ends a group of copies. */
__device__ inline void copy_group()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits until at most PENDING of this thread's groups are still under way. */
template <int PENDING>
__device__ inline void copy_wait()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

/* ---- random numbers ---- */

/* Philox4x32-10 (Salmon et al. 2011), as in csrc/common.h */
__device__ inline void philox(unsigned out[4], unsigned seed, unsigned c0, unsigned c1, unsigned c2,
                              unsigned c3)
{
    unsigned k0 = seed, k1 = 0;
    for (int round = 0; round < 10; round++) {
        unsigned high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        unsigned high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ k0;
        c2 = high0 ^ c3 ^ k1;
        c1 = low1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}
