/* gemm.cu - the matrix product that dense and convolution layers are made of: c(m,n) += sum over
 * k of a(m,k) b(n,k).
 *
 * A block computes a tile of TM x TN results at a time. It walks along k in steps of TK; each
 * step's slices of a and b go to shared memory, where every value is used TN or TM times. Each
 * of the 16 x 16 threads keeps TM/16 x TN/16 sums in registers. Where a and b are in memory is
 * up to them:
 * they say the address of each value, or NULL for a 0, so that a convolution is a product whose
 * matrix is never stored.
 */

/* Values of a thread side by side in shared memory, read 16 bytes at once. */
template <int R>
struct run {
    enum { LENGTH = R * (int)sizeof(real) > 16 ? 16 / (int)sizeof(real) : R, RUNS = R / LENGTH };
    /* value i of 16 threads' R each: runs of different threads alternate, which keeps shared
     * memory's banks apart */
    __device__ static int place(int thread, int i)
    { return i / LENGTH * (16 * LENGTH) + thread * LENGTH + i % LENGTH; }
    __device__ static void load(real *to, const real *from, int thread)
    {
        #pragma unroll
        for (int i = 0; i < R; i += LENGTH) {
            values<LENGTH> side = *(const values<LENGTH> *)(from + place(thread, i));
            #pragma unroll
            for (int v = 0; v < LENGTH; v++)
                to[i + v] = side.v[v];
        }
    }
};

template <int TM, int TN, int TK>
struct tile {
    enum { M = TM, N = TN, K = TK, RM = TM / 16, RN = TN / 16 };
    /* keeps 16-byte alignment and spreads columns over banks */
    enum { GAP = TILE_GAP / (int)sizeof(real) };
    struct buffers {
        real a[TILE_STAGES][TK][TM + GAP], b[TILE_STAGES][TK][TN + GAP];
    };
};

/* Whether a matrix's values are computed from those in memory and one more value for each step
 * along k. */
template <class MATRIX>
struct computed {
    enum { YES = 0 };
};

/* This thread's share of SIZE x TK values of a matrix on their way to shared memory, in
 * registers. Neighbouring threads take neighbouring addresses: along k or across it, as the
 * matrix says, VECTOR values each. Addresses that do not change along k are computed once, in
 * `places`. */
template <int SIZE, int TK, class MATRIX>
struct slice {
    enum {
        V = MATRIX::VECTOR,
        ALONG_K = MATRIX::ALONG_K,
        SIDE = (ALONG_K ? TK : SIZE) / V,
        RUNS = SIZE * TK / V
    };
    enum { COUNT = (RUNS + THREADS - 1) / THREADS };
    typename MATRIX::place places[COUNT];
    real values[COUNT][V], factors[COUNT];

    __device__ static int number(int i) { return i * THREADS + threadIdx.x; }
    __device__ static int row(int i) { return ALONG_K ? number(i) / SIDE : number(i) % SIDE * V; }
    __device__ static int step(int i) { return ALONG_K ? number(i) % SIDE * V : number(i) / SIDE; }

    __device__ void find(const MATRIX &a, int first)
    {
        #pragma unroll
        for (int i = 0; i < COUNT; i++)
            places[i] = a.find(first + row(i));
    }

    __device__ void fetch(const MATRIX &a, int first, int size, int k, int k_end)
    {
        #pragma unroll
        for (int i = 0; i < COUNT; i++) {
            bool there = number(i) < RUNS && first + row(i) < size && k + step(i) < k_end;
            const real *from = there ? a.at(places[i], k + step(i)) : 0;
            if constexpr (V == WHOLE)
                load_whole_or_zero(values[i], from);
            else
                values[i][0] = load_or_zero(from);
            if constexpr (computed<MATRIX>::YES)
                factors[i] = load_or_zero(there ? a.factor(k + step(i)) : 0);
        }
    }

    __device__ real value(int i, int v) const
    {
        if constexpr (computed<MATRIX>::YES)
            return places[i].value(v, values[i][v], factors[i]);
        else
            return values[i][v];
    }

    template <int ROW>
    __device__ void store(real (*to)[ROW]) const
    {
        #pragma unroll
        for (int i = 0; i < COUNT; i++)
            if (RUNS % THREADS == 0 || number(i) < RUNS) {
                if (V == WHOLE && !ALONG_K) {
                    whole all;
                    #pragma unroll
                    for (int v = 0; v < V; v++)
                        all.v[v] = value(i, v);
                    *(whole *)&to[step(i)][row(i)] = all;
                } else
                    #pragma unroll
                    for (int v = 0; v < V; v++)
                        to[step(i) + v][row(i)] = value(i, v);
            }
    }
};

/* sums += a b over one slice */
template <class T>
__device__ inline void multiply_slice(real (&sum)[T::RM][T::RN], const typename T::buffers &s,
                                      int stage, int ty, int tx)
{
    typedef run<T::RM> run_m;
    typedef run<T::RN> run_n;
    #pragma unroll
    for (int k = 0; k < T::K; k++) {
        real a[T::RM], b[T::RN];
        run_m::load(a, s.a[stage][k], ty);
        run_n::load(b, s.b[stage][k], tx);
        #pragma unroll
        for (int i = 0; i < T::RM; i++)
            #pragma unroll
            for (int j = 0; j < T::RN; j++)
                sum[i][j] += a[i] * b[j];
    }
}

/* LENGTH results side by side: in one instruction where they are side by side in memory too. */
template <int LENGTH, class C>
__device__ inline void put_run(const C &c, const real *sum, const real *extra, int m, int n,
                               int n_size, int split)
{
    if (C::VECTOR && LENGTH == WHOLE && n + LENGTH <= c.last(n_size)) {
        whole all;
        #pragma unroll
        for (int v = 0; v < WHOLE; v++)
            all.v[v] = c.value(sum[v % LENGTH], extra[v % LENGTH]);
        *(whole *)c.place(m, n, split) = all;
    } else {
        #pragma unroll
        for (int v = 0; v < LENGTH; v++)
            if (n + v < n_size)
                *c.place(m, n + v, split) = c.value(sum[v], extra[v]);
    }
}

/* One tile, k from k_first to k_end. c says what becomes of a sum and an extra value from
 * memory, a bias or what a derivative is taken from, and where it goes. While one slice is
 * multiplied, the next one is loaded from global memory. */
template <class T, class A, class B, class C>
__device__ inline void gemm_tile(const A &a, const B &b, const C &c, int m0, int n0, int m_size,
                                 int n_size, int k_first, int k_end, int split)
{
    typename T::buffers &s = *(typename T::buffers *)BLOCK_MEMORY;
    int ty = threadIdx.x / 16, tx = threadIdx.x % 16, stage = 0;
    real sum[T::RM][T::RN] = {};
    slice<T::M, T::K, A> next_a;
    slice<T::N, T::K, B> next_b;
    next_a.find(a, m0);
    next_b.find(b, n0);
    next_a.fetch(a, m0, m_size, k_first, k_end);
    next_b.fetch(b, n0, n_size, k_first, k_end);
    for (int k = k_first; k < k_end; k += T::K) {
        next_a.store(s.a[stage]);
        next_b.store(s.b[stage]);
        __syncthreads();                /* the slice is there; the other buffer is no longer read */
        /* after the last slice these load nothing; without a branch, so that they really come
         * before the products */
        next_a.fetch(a, m0, m_size, k + T::K, k_end);
        next_b.fetch(b, n0, n_size, k + T::K, k_end);
        multiply_slice<T>(sum, s, stage, ty, tx);
        stage ^= 1;
    }
    __syncthreads();                    /* before the block's memory serves the next tile */
    typedef run<T::RN> run_n;
    #pragma unroll
    for (int i = 0; i < T::RM; i++) {
        int m = m0 + run<T::RM>::place(ty, i);
        /* all of a row at once, before the first result is stored */
        real extra[T::RN];
        #pragma unroll
        for (int j = 0; j < T::RN; j++) {
            int n = n0 + run_n::place(tx, j);
            extra[j] = C::EXTRA ? load_or_zero(m < m_size && n < n_size ? c.extra(m, n) : 0) : 0;
        }
        #pragma unroll
        for (int j = 0; j < T::RN; j += run_n::LENGTH)
            if (m < m_size)
                put_run<run_n::LENGTH>(c, sum[i] + j, extra + j, m, n0 + run_n::place(tx, j),
                                       n_size, split);
    }
}

/* The whole product, tiles shared among the range's blocks. The sum over k may be split in
 * SPLITS, for products with few results and long sums; c gets each partial sum by itself, and a
 * later op adds them up in order. */
template <class T, int SPLITS, class A, class B, class C>
__device__ void gemm(const A &a, const B &b, const C &c, int m_size, int n_size, int k_size,
                     block_range range)
{
    int down = (m_size + T::M - 1) / T::M, across = (n_size + T::N - 1) / T::N;
    int slices = (k_size + T::K - 1) / T::K, each = (slices + SPLITS - 1) / SPLITS * T::K;
    for (int at = range.id; at < down * across * SPLITS; at += range.count) {
        int split = at / (down * across), place = at % (down * across);
        int k_first = split * each, k_end = k_first + each < k_size ? k_first + each : k_size;
        gemm_tile<T>(a, b, c, place % down * T::M, place / down * T::N, m_size, n_size, k_first,
                     k_end, split);
    }
}

/* ---- matrices as stored ----
 *
 * find(m) is what at(place, k), the address of (m, k), needs to know of m. VECTOR values along k
 * (ALONG_K) or across it are side by side, from addresses that are multiples of 16 bytes on.
 */

struct address {
    const real *p;
};

/* (m, k) row by row */
template <int K, int ALIGNED = 1>
struct by_rows {
    enum { ALONG_K = 1, VECTOR = ALIGNED ? beside(K) : 1 };
    typedef address place;
    const real *p;
    __device__ place find(int m) const { return place{p + (size_t)m * K}; }
    __device__ const real *at(place a, int k) const { return a.p + k; }
};

/* The factor of a layer's bias, 1, and zeros up to a whole vector. */
__device__ whole one = {{1}};

/* (k, m) row by row: the transpose of the stored matrix; with ONES a further column of ones */
template <int M, int ALIGNED = 1, int ONES = 0>
struct by_columns {
    enum { ALONG_K = 0, VECTOR = ALIGNED ? beside(M) : 1 };
    struct place {
        const real *p;
        int step;
    };
    const real *p;
    __device__ place find(int m) const
    { return !ONES || m < M ? place{p + m, M} : place{one.v, 0}; }
    __device__ const real *at(place a, int k) const
    { return a.p + (size_t)k * (ONES ? a.step : M); }
};
