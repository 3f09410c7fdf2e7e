/* embedding.cu - a table's columns become numbers: themselves, a flag for gaps, pieces of their
 * axis, waves of frequencies that are trained, one-hot codes, rows of tables that are trained. A
 * code is a real here; one that no table has, which the host refuses, is a row of zeros.
 */

static_assert(COLUMN_KINDS == 4 && NUMBER < 4 && GAP < 4 && ONEHOT < 4 && EMBEDDING < 4,
              "embedding.cu: embedding_forward() has no formula for a column kind of layers.py");

struct embedding_column {
    int kind, out;                      /* its first output */
    int values, width;                  /* different codes; numbers that each becomes */
    int64 table;                        /* where its rows begin among the layer's parameters */
    double fill;                        /* instead of a gap */
    int pieces;                         /* of a number's axis, 0: none */
    const real *edges;                  /* (pieces + 1), ascending */
};

/* A wave of a number. */
struct embedding_wave {
    int in, sine, cosine;               /* the number among the values of x, the wave's outputs */
    int gaps;                           /* whether x may have some, which become */
    double fill;
};

/* to[0 .. width-1] = *row, 0 for NULL: eight loads under way at a time */
__device__ inline void copy_or_zero(real *to, const real *row, int width)
{
    for (int first = 0; first < width; first += 8) {
        real value[8];
        #pragma unroll
        for (int i = 0; i < 8; i++)
            value[i] = load_or_zero(row && first + i < width ? row + first + i : 0);
        #pragma unroll
        for (int i = 0; i < 8; i++)
            if (first + i < width)
                to[first + i] = value[i];
    }
}

/* share[i] = how much of piece i lies below v */
__device__ inline void encode_pieces(real *__restrict__ share, real v,
                                     const real *__restrict__ edges, int pieces)
{
    #pragma unroll 8
    for (int i = 0; i < pieces; i++) {
        real low = edges[i], high = edges[i + 1];
        share[i] = v >= high ? 1 : v <= low ? 0 : (v - low) / (high - low);
    }
}

/* out (n,O) from x (n,I), a thread a value of x; `tables`: the layer's parameters */
template <int I, int O>
__device__ void embedding_forward(real *out, const real *x, const embedding_column *columns,
                                  const real *tables, int n, block_range range)
{
    for (int e = range.first(); e < n * I; e += range.stride()) {
        const embedding_column column = columns[e % I];
        real *to = out + (size_t)(e / I) * O + column.out, value = x[e];
        bool gap = value != value;
        if (column.kind == NUMBER) {
            to[0] = value;
            encode_pieces(to + 1, value, column.edges, column.pieces);
        } else if (column.kind == GAP) {
            real known = gap ? (real)column.fill : value;
            to[0] = known;
            to[1] = gap;
            encode_pieces(to + 2, known, column.edges, column.pieces);
        } else if (column.kind == ONEHOT) {
            for (int k = 0; k < column.values; k++)
                to[k] = value == k;
        } else {
            bool there = value >= 0 && value < column.values;
            copy_or_zero(to, there ? tables + column.table + (int64)value * column.width : 0,
                         column.width);
        }
    }
}

/* The number that a wave of x is of. */
__device__ inline real number_of(real x, const embedding_wave &wave)
{ return x != x && wave.gaps ? (real)wave.fill : x; }

__device__ inline void sine_cosine(float r, float *sine, float *cosine)
{ sincospif(2 * r, sine, cosine); }
__device__ inline void sine_cosine(double r, double *sine, double *cosine)
{ sincospi(2 * r, sine, cosine); }

/* f v turns without the whole ones, as in csrc/omp/vector_math.h. */
__device__ inline float turns_left(float f, float v)
{
    float whole = rintf(__fmul_rn(f, v));
    return fabsf(whole) >= 0x1p22f ? 0 : fmaf(f, v, -whole);
}
__device__ inline double turns_left(double f, double v)
{
    double whole = rint(__dmul_rn(f, v));
    return fabs(whole) >= 0x1p51 ? 0 : fma(f, v, -whole);
}

/* The waves' part of out (n,O) from x (n,I), a thread a wave of a row. */
template <int WAVES, int I, int O>
__device__ void embedding_waves_forward(real *out, const real *x, const embedding_wave *waves,
                                        const real *frequencies, int n, block_range range)
{
    for (int e = range.first(); e < n * WAVES; e += range.stride()) {
        const embedding_wave wave = waves[e % WAVES];
        int row = e / WAVES;
        real *to = out + (size_t)row * O, v = number_of(x[(size_t)row * I + wave.in], wave);
        sine_cosine(turns_left(frequencies[e % WAVES], v), to + wave.sine, to + wave.cosine);
    }
}

/* The gradient of a wave's turns, but for the factor 2 pi, from a row of outputs and their
 * gradients. */
__device__ inline real turns_gradient(const real *dz, const real *out, const embedding_wave &wave)
{
    return dz[wave.sine] * out[wave.cosine] - dz[wave.cosine] * out[wave.sine];
}

/* g = the frequencies' gradients, in SPLITS partial sums of shares of the batch's rows, SIZE
 * values apart. A block has 32 waves, 8 threads each, whose sums of every eighth row are added
 * up too. */
template <int SPLITS, int SIZE, int WAVES, int I, int O>
__device__ void embedding_backward_waves(real *g, const real *dz, const real *out, const real *x,
                                         const embedding_wave *waves, int n, block_range range)
{
    enum { PARTS = (WAVES + 31) / 32 };
    int share = threadIdx.x / 32, rows = (n + SPLITS - 1) / SPLITS;
    for (int item = range.id; item < PARTS * SPLITS; item += range.count) {
        int i = item % PARTS * 32 + threadIdx.x % 32, split = item / PARTS,
            end = min(n, (split + 1) * rows);
        const embedding_wave wave = waves[min(i, WAVES - 1)];
        real sum = 0;
        #pragma unroll 4
        for (int row = split * rows + share; row < end; row += SHARES)
            sum += number_of(x[(size_t)row * I + wave.in], wave)
                 * turns_gradient(dz + (size_t)row * O, out + (size_t)row * O, wave);
        sum = sum_of_shares((real *)BLOCK_MEMORY, sum);
        if (share == 0 && i < WAVES)
            g[(int64)split * SIZE + i] = (real)6.283185307179586477 * sum;
    }
}

/* The gradient of a value x from those of its outputs; gaps and codes have none, and an edge is
 * in no piece. */
__device__ inline real value_gradient(const real *dz, real x, const embedding_column &column)
{
    const real *edges = column.edges, *of_pieces = dz + (column.kind == GAP ? 2 : 1);
    if (column.kind != NUMBER && (column.kind != GAP || x != x))
        return 0;
    for (int i = 0; i < column.pieces; i++)
        if (edges[i] < x && x < edges[i + 1])
            return dz[0] + of_pieces[i] / (edges[i + 1] - edges[i]);
    return dz[0];
}

/* dx (n,I): of the values themselves, and but for gaps of their waves */
template <int WAVES, int I, int O>
__device__ void embedding_backward_input(real *dx, const real *dz, const real *out, const real *x,
                                         const embedding_column *columns,
                                         const embedding_wave *waves, const real *frequencies,
                                         int n, block_range range)
{
    for (int e = range.first(); e < n * I; e += range.stride()) {
        const embedding_column column = columns[e % I];
        size_t row = (size_t)(e / I) * O;
        real gradient = value_gradient(dz + row + column.out, x[e], column), sum = 0;
        for (int i = 0; i < WAVES; i++)
            if (waves[i].in == e % I)
                sum += frequencies[i] * turns_gradient(dz + row, out + row, waves[i]);
        if (WAVES && x[e] == x[e])
            gradient += (real)6.283185307179586477 * sum;
        dx[e] = gradient;
    }
}

/* A block's shared memory while it searches the rows of its codes: among THREADS rows, those
 * that have one. */
struct embedding_hits {
    int row[THREADS], code[THREADS], of_warp[THREADS / 32];
};

/* The block's rows for which `hit` is true, a row a thread, are listed in order; returns how
 * many. All threads call it, and may read the list until they call it again. */
__device__ inline int list_hits(embedding_hits &hits, bool hit, int row, int code)
{
    unsigned mask = __ballot_sync(0xffffffffu, hit);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, before = 0, count = 0;
    if (lane == 0)
        hits.of_warp[warp] = __popc(mask);
    __syncthreads();                    /* and nobody reads the last list any more */
    #pragma unroll
    for (int w = 0; w < THREADS / 32; w++) {
        before += w < warp ? hits.of_warp[w] : 0;
        count += hits.of_warp[w];
    }
    if (hit) {
        int place = before + __popc(mask & ((1u << lane) - 1));
        hits.row[place] = row;
        hits.code[place] = code;
    }
    __syncthreads();
    return count;
}

/* The sum of dz, a value a row of the list, of those rows that have this code, in order. */
template <int O>
__device__ inline real sum_of_hits(const embedding_hits &hits, int count, int code, const real *dz,
                                   real sum)
{
    for (int first = 0; first < count; first += 8) {
        real value[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            bool mine = first + i < count && hits.code[first + i] == code;
            value[i] = load_or_zero(mine ? dz + (size_t)hits.row[first + i] * O : 0);
        }
        #pragma unroll
        for (int i = 0; i < 8; i++)
            sum += value[i];
    }
    return sum;
}

/* g = a table's gradient, (VALUES,WIDTH), in SPLITS partial sums of shares of the batch's rows,
 * SIZE values apart; of the column that is value IN of x and the outputs from OUT on. No two
 * threads add to one sum: a thread has one value of the table and adds up its rows in their
 * order. A block has as many codes as it has threads for. */
template <int SPLITS, int SIZE, int VALUES, int WIDTH, int I, int IN, int O, int OUT>
__device__ void embedding_backward_table(real *g, const real *dz, const real *x, int n,
                                         block_range range)
{
    enum { LANES = WIDTH < THREADS ? WIDTH : (int)THREADS, CODES = THREADS / LANES };
    enum {
        CODE_PARTS = (VALUES + CODES - 1) / CODES,
        PARTS = CODE_PARTS * ((WIDTH + LANES - 1) / LANES)
    };
    embedding_hits &hits = *(embedding_hits *)BLOCK_MEMORY;
    int rows = (n + SPLITS - 1) / SPLITS, own_code = threadIdx.x / LANES;
    for (int item = range.id; item < PARTS * SPLITS; item += range.count) {
        int part = item % PARTS, split = item / PARTS, end = min(n, (split + 1) * rows);
        int first_code = part % CODE_PARTS * CODES,
            lane = part / CODE_PARTS * LANES + threadIdx.x % LANES;
        bool owner = own_code < CODES && first_code + own_code < VALUES && lane < WIDTH;
        real sum = 0;
        for (int begin = split * rows; begin < end; begin += THREADS) {
            int row = begin + threadIdx.x;
            real value = row < end ? x[(size_t)row * I + IN] : -1;
            bool hit = value >= first_code && value < first_code + CODES;
            int count = list_hits(hits, hit, row, hit ? (int)value - first_code : 0);
            if (owner)
                sum = sum_of_hits<O>(hits, count, own_code, dz + OUT + lane, sum);
        }
        if (owner)
            g[(int64)split * SIZE + (int64)(first_code + own_code) * WIDTH + lane] = sum;
    }
    __syncthreads();                    /* before the block's memory serves another op */
}
