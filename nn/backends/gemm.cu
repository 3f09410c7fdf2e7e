/* gemm.cu - the matrix product that dense and convolution layers are made of: c(m,n) += sum over k of a(m,k) b(n,k).
 *
 * A block computes a tile of TM x TN results at a time. It walks along k in steps of TK; each step's slices of a and b
 * are copied to shared memory while earlier ones are multiplied, and every value there is used TN or TM times.
 * Each of the 16 x 16 threads keeps TM/16 x TN/16 sums in registers. Where a and b lie in memory is up to them:
 * a.at(m, k) is an address, or NULL for a 0, so that a convolution is a product whose matrix is never stored.
 */

/* Values of a thread that lie side by side in shared memory, read 16 bytes at once. */
template <int R>
struct run {
    enum { LENGTH = R * (int)sizeof(real) > 16 ? 16 / (int)sizeof(real) : R, RUNS = R / LENGTH };
    /* value i of 16 threads' R each: runs of different threads alternate, which keeps shared memory's banks apart */
    __device__ static int place(int thread, int i) { return i / LENGTH * (16 * LENGTH) + thread * LENGTH + i % LENGTH; }
    struct alignas(LENGTH * sizeof(real)) vector { real v[LENGTH]; };
};

template <int TM, int TN, int TK>
struct tile {
    enum { M = TM, N = TN, K = TK, RM = TM / 16, RN = TN / 16, STAGES = 3 };
    enum { GAP = 16 / (int)sizeof(real) };      /* keeps 16-byte alignment and spreads columns over banks */
    struct buffers {
        real a[STAGES][TK][TM + GAP], b[STAGES][TK][TN + GAP];
    };
};

/* SIZE x TK values of a matrix, rows from `first`, columns from k, into shared memory. Neighbouring threads take
 * neighbouring addresses: along k or across it, as the matrix says. */
template <int SIZE, int TK, int ROW, class MATRIX>
__device__ inline void load_slice(real (*to)[ROW], const MATRIX &a, int first, int size, int k, int k_end)
{
    #pragma unroll
    for (int i = 0; i < SIZE * TK / THREADS; i++) {
        int e = i * THREADS + threadIdx.x, kk = MATRIX::ALONG_K ? e % TK : e / SIZE,
            m = MATRIX::ALONG_K ? e / TK : e % SIZE;
        copy_async(&to[kk][m], first + m < size && k + kk < k_end ? a.at(first + m, k + kk) : (const real *)0);
    }
}

/* sums += a b over one slice */
template <class T>
__device__ inline void multiply_slice(real (&sum)[T::RM][T::RN], const typename T::buffers &s, int stage, int ty, int tx)
{
    typedef run<T::RM> run_m;
    typedef run<T::RN> run_n;
    #pragma unroll
    for (int k = 0; k < T::K; k++) {
        real a[T::RM], b[T::RN];
        #pragma unroll
        for (int i = 0; i < T::RM; i += run_m::LENGTH)
            *(typename run_m::vector *)&a[i] = *(const typename run_m::vector *)&s.a[stage][k][run_m::place(ty, i)];
        #pragma unroll
        for (int j = 0; j < T::RN; j += run_n::LENGTH)
            *(typename run_n::vector *)&b[j] = *(const typename run_n::vector *)&s.b[stage][k][run_n::place(tx, j)];
        #pragma unroll
        for (int i = 0; i < T::RM; i++)
            #pragma unroll
            for (int j = 0; j < T::RN; j++)
                sum[i][j] += a[i] * b[j];
    }
}

/* One tile, k from k_first to k_end. c.put(m, n, value, split) takes the results. */
template <class T, class A, class B, class C>
__device__ inline void gemm_tile(const A &a, const B &b, const C &c, int m0, int n0, int m_size, int n_size,
                                 int k_first, int k_end, int split)
{
    typename T::buffers &s = *(typename T::buffers *)BLOCK_MEMORY;
    int ty = threadIdx.x / 16, tx = threadIdx.x % 16, stage = 0;
    real sum[T::RM][T::RN] = {};
    #pragma unroll
    for (int ahead = 0; ahead < T::STAGES - 1; ahead++) {
        load_slice<T::M, T::K>(s.a[ahead], a, m0, m_size, k_first + ahead * T::K, k_end);
        load_slice<T::N, T::K>(s.b[ahead], b, n0, n_size, k_first + ahead * T::K, k_end);
        copy_group();
    }
    for (int k = k_first; k < k_end; k += T::K) {
        copy_wait<T::STAGES - 2>();
        __syncthreads();                /* the slice is there, and the one before it is no longer read */
        int into = stage == 0 ? T::STAGES - 1 : stage - 1;
        load_slice<T::M, T::K>(s.a[into], a, m0, m_size, k + (T::STAGES - 1) * T::K, k_end);
        load_slice<T::N, T::K>(s.b[into], b, n0, n_size, k + (T::STAGES - 1) * T::K, k_end);
        copy_group();
        multiply_slice<T>(sum, s, stage, ty, tx);
        stage = stage + 1 == T::STAGES ? 0 : stage + 1;
    }
    copy_wait<0>();
    __syncthreads();                    /* before the block's memory serves the next tile */
    #pragma unroll
    for (int i = 0; i < T::RM; i++)
        #pragma unroll
        for (int j = 0; j < T::RN; j++) {
            int m = m0 + run<T::RM>::place(ty, i), n = n0 + run<T::RN>::place(tx, j);
            if (m < m_size && n < n_size)
                c.put(m, n, sum[i][j], split);
        }
}

/* The whole product, tiles shared among the team. The sum over k may be split in SPLITS parts, for products with few
 * results and long sums; c gets each part by itself, and somebody adds them up in order. */
template <class T, int SPLITS, class A, class B, class C>
__device__ void gemm(const A &a, const B &b, const C &c, int m_size, int n_size, int k_size, team t)
{
    int down = (m_size + T::M - 1) / T::M, across = (n_size + T::N - 1) / T::N;
    int slices = (k_size + T::K - 1) / T::K, part = (slices + SPLITS - 1) / SPLITS * T::K;
    for (int at = t.id; at < down * across * SPLITS; at += t.count) {
        int split = at / (down * across), place = at % (down * across);
        int k_first = split * part, k_end = k_first + part < k_size ? k_first + part : k_size;
        gemm_tile<T>(a, b, c, place % down * T::M, place / down * T::N, m_size, n_size, k_first, k_end, split);
    }
}

/* ---- matrices as they lie in memory ---- */

/* (m, k) row by row */
template <int K>
struct by_rows {
    enum { ALONG_K = 1 };
    const real *p;
    __device__ const real *at(int m, int k) const { return p + (size_t)m * K + k; }
};

/* (k, m) row by row: the transpose of what is stored */
template <int M>
struct by_columns {
    enum { ALONG_K = 0 };
    const real *p;
    __device__ const real *at(int m, int k) const { return p + (size_t)k * M + m; }
};
