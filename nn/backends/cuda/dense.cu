/* dense.cu - the fully connected layer. x (n,I), weight w (O,I), bias b (O), out (n,O). */

/* Partial sums, (SPLITS, n, WIDTH), to be added up. */
template <int WIDTH>
struct put_partial_sum {
    enum { VECTOR = WIDTH % WHOLE == 0 };
    real *partial_sums;
    int n;
    __device__ int last(int size) const { return size; }
    enum { EXTRA = 0 };
    __device__ const real *extra(int, int) const { return 0; }
    __device__ real value(real sum, real) const { return sum; }
    __device__ real *place(int r, int k, int split) const
    { return partial_sums + ((size_t)split * n + r) * WIDTH + k; }
};

/* ---- out = f(x w' + b) ---- */

template <int O, int ACTIVATION>
struct put_dense_output {
    enum { VECTOR = O % WHOLE == 0 };
    real *out;
    const real *b;
    __device__ int last(int size) const { return size; }
    enum { EXTRA = 1 };
    __device__ const real *extra(int, int j) const { return b + j; }
    __device__ real value(real sum, real bias) const { return activate<ACTIVATION>(sum + bias); }
    __device__ real *place(int r, int j, int) const { return out + (size_t)r * O + j; }
};

template <class T, int SPLITS, int I, int O, int ALIGNED, int ACTIVATION>
__device__ void dense_forward(real *out, real *partial_sums, const real *x, const real *w,
                              const real *b, int n, block_range range)
{
    by_rows<I> rows = {x};
    by_rows<I, ALIGNED> columns = {w};
    put_dense_output<O, ACTIVATION> whole = {out, b};
    put_partial_sum<O> split = {partial_sums, n};
    if (SPLITS == 1)
        gemm<T, 1>(rows, columns, whole, n, O, I, range);
    else
        gemm<T, SPLITS>(rows, columns, split, n, O, I, range);
}

/* complete(sum, e) for every LENGTH values side by side of to (n,WIDTH): e is their number, sum
 * that of their partial sums; SPLITS 0: what stands there, as a library left it */
template <int SPLITS, int WIDTH, int LENGTH, class COMPLETE>
__device__ inline void finish(real *to, const real *partial_sums, int n, block_range range,
                              const COMPLETE &complete)
{
    typedef values<LENGTH> side;
    for (int e = range.first(); e < n * WIDTH / LENGTH; e += range.stride()) {
        side sum = SPLITS == 0 ? ((side *)to)[e] : side();
        for (int s = 0; s < SPLITS; s++) {
            side partial = ((const side *)(partial_sums + (size_t)s * n * WIDTH))[e];
            #pragma unroll
            for (int v = 0; v < LENGTH; v++)
                sum.v[v] += partial.v[v];
        }
        complete(sum, e);
        ((side *)to)[e] = sum;
    }
}

/* out (n,O,PIXELS) = f(the sum of the partial sums + b (O)) */
template <int SPLITS, int O, int PIXELS, int ACTIVATION>
__device__ void output_finish(real *out, const real *partial_sums, const real *b, int n,
                              block_range range)
{
    enum { LENGTH = beside(PIXELS == 1 ? O : PIXELS) };
    finish<SPLITS, O * PIXELS, LENGTH>(
        out, partial_sums, n, range, [&](values<LENGTH> &sum, int e) {
            int j = e * LENGTH / PIXELS % O;
            #pragma unroll
            for (int v = 0; v < LENGTH; v++)
                sum.v[v] = activate<ACTIVATION>(sum.v[v] + b[PIXELS == 1 ? j + v : j]);
        });
}

/* ---- dx = dz w, times the derivative of the activation below, from its output x ---- */

template <int I, int BELOW>
struct put_dense_dx {
    enum { VECTOR = I % WHOLE == 0 };
    real *dx;
    const real *x;
    __device__ int last(int size) const { return size; }
    enum { EXTRA = BELOW != LINEAR };
    __device__ const real *extra(int r, int i) const { return x + (size_t)r * I + i; }
    __device__ real value(real sum, real below) const { return sum * derivative<BELOW>(below); }
    __device__ real *place(int r, int i, int) const { return dx + (size_t)r * I + i; }
};

template <class T, int SPLITS, int I, int O, int ALIGNED, int BELOW>
__device__ void dense_backward_input(real *dx, real *partial_sums, const real *dz, const real *w,
                                     const real *x, int n, block_range range)
{
    by_rows<O> rows = {dz};
    by_columns<I, ALIGNED> columns = {w};
    put_dense_dx<I, BELOW> whole = {dx, x};
    put_partial_sum<I> split = {partial_sums, n};
    if (SPLITS == 1)
        gemm<T, 1>(rows, columns, whole, n, I, O, range);
    else
        gemm<T, SPLITS>(rows, columns, split, n, I, O, range);
}

/* dx = the sum of the partial sums times the derivative below */
template <int SPLITS, int I, int BELOW>
__device__ void input_finish(real *dx, const real *partial_sums, const real *x, int n,
                             block_range range)
{
    enum { LENGTH = beside(I) };
    finish<SPLITS, I, LENGTH>(dx, partial_sums, n, range, [&](values<LENGTH> &sum, int e) {
        values<LENGTH> below = ((const values<LENGTH> *)x)[e];
        #pragma unroll
        for (int v = 0; v < LENGTH; v++)
            sum.v[v] *= derivative<BELOW>(below.v[v]);
    });
}

/* ---- dw = dz' x, db = column sums of dz: x has a further column of ones ---- */

/* Gradients of a layer, partial sums one after the other: (O,I) weights and then O biases. */
template <int I, int O>
struct put_gradient {
    enum { SIZE = O * I + O, VECTOR = I % WHOLE == 0 && SIZE % WHOLE == 0 };
    real *g;
    /* beside the last weight is another row's first */
    __device__ int last(int) const { return I; }
    enum { EXTRA = 0 };
    __device__ const real *extra(int, int) const { return 0; }
    __device__ real value(real sum, real) const { return sum; }
    __device__ real *place(int j, int i, int split) const
    {
        return g + (size_t)split * SIZE + (i < I ? (size_t)j * I + i : (size_t)O * I + j);
    }
};

template <class T, int SPLITS, int I, int O>
__device__ void dense_backward_parameters(real *g, const real *dz, const real *x, int n,
                                          block_range range)
{
    by_columns<O> rows = {dz};
    by_columns<I, 1, 1> columns = {x};
    put_gradient<I, O> gradient = {g};
    gemm<T, SPLITS>(rows, columns, gradient, O, I + 1, n, range);
}

/* dz (n,O) below a last layer of one output, computed as d[r] w[j] f'(a[r][j]) from that layer's
 * dz d (n), its weights w (O) and its input a (n,O). */
template <int O, int BELOW>
struct dz_of_one_output {
    enum { ALONG_K = 0, VECTOR = beside(O) };
    struct place {
        const real *a;
        real w[VECTOR];
        __device__ real value(int v, real a, real d) const
        { return d * w[v] * derivative<BELOW>(a); }
    };
    const real *a, *w, *d;
    __device__ place find(int j) const
    {
        place found = {a + j};
        #pragma unroll
        for (int v = 0; v < VECTOR; v++)
            found.w[v] = load_or_zero(j + v < O ? w + j + v : 0);
        return found;
    }
    __device__ const real *at(const place &here, int r) const { return here.a + (size_t)r * O; }
    __device__ const real *factor(int r) const { return d + r; }
};

template <int O, int BELOW>
struct computed<dz_of_one_output<O, BELOW>> {
    enum { YES = 1 };
};

template <class T, int SPLITS, int I, int O, int BELOW>
__device__ void dense_backward_parameters(real *g, const real *a, const real *w, const real *d,
                                          const real *x, int n, block_range range)
{
    dz_of_one_output<O, BELOW> rows = {a, w, d};
    by_columns<I, 1, 1> columns = {x};
    put_gradient<I, O> gradient = {g};
    gemm<T, SPLITS>(rows, columns, gradient, O, I + 1, n, range);
}

/* db = column sums of dz (n,O), where a library computes dw: 32 columns a block */
template <int O>
__device__ void dense_backward_bias(real *db, const real *dz, int n, block_range range)
{
    for (int first = range.id * 32; first < O; first += range.count * 32) {
        int column = first + threadIdx.x % 32;
        real sum = 0;
        for (int r = threadIdx.x / 32; column < O && r < n; r += SHARES)
            sum += dz[(size_t)r * O + column];
        sum = sum_of_shares((real *)BLOCK_MEMORY, sum);
        if (threadIdx.x < 32 && column < O)
            db[column] = sum;
    }
}

/* ---- few outputs (O up to 4): sums along rows instead of tiles that would be almost empty ---- */

/* dx = dz w, times the derivative below; a thread LENGTH values side by side */
template <int I, int O, int BELOW>
__device__ void narrow_backward_input(real *dx, const real *dz, const real *w, const real *x, int n,
                                      block_range range)
{
    enum { LENGTH = beside(I) };
    typedef values<LENGTH> side;
    #pragma unroll 2
    for (int e = range.first() * LENGTH; e < n * I; e += range.stride() * LENGTH) {
        int r = e / I, i = e % I;
        side below = BELOW == LINEAR ? side() : *(const side *)(x + e), sum = {};
        #pragma unroll
        for (int j = 0; j < O; j++) {
            real d = dz[(size_t)r * O + j];
            #pragma unroll
            for (int v = 0; v < LENGTH; v++)
                sum.v[v] += d * w[j * I + i + v];
        }
        #pragma unroll
        for (int v = 0; v < LENGTH; v++)
            sum.v[v] *= derivative<BELOW>(below.v[v]);
        *(side *)(dx + e) = sum;
    }
}

/* dw = dz' x and db, the rows in SPLITS: 32 columns a block, 8 threads each, whose sums are
 * added up in order */
template <int SPLITS, int I, int O>
__device__ void narrow_backward_parameters(real *g, const real *dz, const real *x, int n,
                                           block_range range)
{
    enum { COLUMNS = (I + 1 + 31) / 32 };
    real *sums = (real *)BLOCK_MEMORY;
    int column = threadIdx.x % 32, share = threadIdx.x / 32, rows = (n + SPLITS - 1) / SPLITS;
    for (int at = range.id; at < COLUMNS * SPLITS; at += range.count) {
        int i = at % COLUMNS * 32 + column, split = at / COLUMNS, last = min(n, (split + 1) * rows);
        real sum[O] = {};
        #pragma unroll 8
        for (int r = split * rows + share; r < last; r += SHARES) {
            real value = i < I ? x[(size_t)r * I + i] : 1;
            #pragma unroll
            for (int j = 0; j < O; j++)
                sum[j] += value * dz[(size_t)r * O + j];
        }
        #pragma unroll
        for (int j = 0; j < O; j++)
            sums[j * THREADS + threadIdx.x] = sum[j];
        __syncthreads();
        if (share < O && i <= I) {      /* as many shares as outputs add up, one each */
            real whole_sum = 0;
            for (int s = 0; s < SHARES; s++)
                whole_sum += sums[share * THREADS + s * 32 + column];
            *put_gradient<I, O>{g}.place(share, i, split) = whole_sum;
        }
        __syncthreads();
    }
}

/* ---- few rows: a warp has AT_ONCE outputs of all, where tiles would be almost empty ---- */

/* out = f(x w' + b) for n rows, at most ROWS */
template <int ROWS, int AT_ONCE, int I, int O, int ACTIVATION>
__device__ void few_rows_forward(real *out, const real *x, const real *w, const real *b, int n,
                                 block_range range)
{
    int lane = threadIdx.x % 32, row = lane / AT_ONCE;
    for (int first = range.first() / 32 * AT_ONCE; first < O;
         first += range.stride() / 32 * AT_ONCE) {
        int output = first + lane % AT_ONCE;    /* that this lane writes, of its row */
        real bias = load_or_zero(output < O ? b + output : 0), whole_sum = 0;
        real sum[ROWS][AT_ONCE] = {};
        #pragma unroll 4
        for (int i = lane; i < I; i += 32) {
            real value[ROWS];
            #pragma unroll
            for (int r = 0; r < ROWS; r++)
                value[r] = load_or_zero(r < n ? x + (size_t)r * I + i : 0);
            #pragma unroll
            for (int j = 0; j < AT_ONCE; j++) {
                real weight = load_or_zero(first + j < O ? w + (size_t)(first + j) * I + i : 0);
                #pragma unroll
                for (int r = 0; r < ROWS; r++)
                    sum[r][j] += value[r] * weight;
            }
        }
        #pragma unroll
        for (int at = 0; at < ROWS * AT_ONCE; at++) {
            real total = lanes_sum<32>(sum[at / AT_ONCE][at % AT_ONCE]);
            whole_sum = lane == at ? total : whole_sum;
        }
        if (row < n && row < ROWS && output < O)
            out[(size_t)row * O + output] = activate<ACTIVATION>(whole_sum + bias);
    }
}

/* ---- few outputs of a row, by WARPS warps: of the last layer of a network that learns, and
 * narrow ones ---- */

/* The threads of one row meet. */
template <int WARPS>
__device__ inline void row_barrier()
{
    if (WARPS == 1)
        __syncwarp();
    else
        __syncthreads();
}

/* Warps share a row's outputs, or with fewer outputs than warps its inputs. */
template <int WARPS, int O>
struct row_share {
    enum { LANES = WARPS * 32, INPUTS = O < WARPS };
    enum { MINE = INPUTS ? O : (O + WARPS - 1) / WARPS, STEP = INPUTS ? 1 : WARPS };
};

/* z (O) = row w' + bias; z has room for O values a warp */
template <int WARPS, int I, int O>
__device__ inline void row_outputs(real *z, const real *row, const real *w, const real *bias,
                                   int lane, int warp)
{
    typedef row_share<WARPS, O> S;
    real sum[S::MINE] = {};
    int first = S::INPUTS ? 0 : warp;
    #pragma unroll 8
    for (int i = S::INPUTS ? lane : lane % 32; i < I; i += S::INPUTS ? (int)S::LANES : 32) {
        real value = row[i];
        #pragma unroll
        for (int m = 0; m < S::MINE; m++)
            if (first + m * S::STEP < O)
                sum[m] += value * w[(first + m * S::STEP) * I + i];
    }
    #pragma unroll
    for (int m = 0; m < S::MINE; m++) {
        real whole_sum = lanes_sum<32>(sum[m]);
        int j = first + m * S::STEP;
        if (lane % 32 == 0 && j < O)
            z[(S::INPUTS ? warp * O : 0) + j] = whole_sum + (warp == 0 || !S::INPUTS ? bias[j] : 0);
    }
    row_barrier<WARPS>();
    if (S::INPUTS && lane < O)
        for (int other = 1; other < WARPS; other++)
            z[lane] += z[other * O + lane];
    if (S::INPUTS)
        row_barrier<WARPS>();
}

/* out = f(x w' + b), a warp a row */
template <int I, int O, int ACTIVATION>
__device__ void narrow_forward(real *out, const real *x, const real *w, const real *b, int n,
                               block_range range)
{
    int lane = threadIdx.x % 32;
    for (int r = range.first() / 32; r < n; r += range.stride() / 32) {
        real *z = out + (size_t)r * O;
        row_outputs<1, I, O>(z, x + (size_t)r * I, w, b, lane, 0);
        if (lane < O)
            z[lane] = activate<ACTIVATION>(z[lane]);
    }
}

/* The row's loss, dz (n,O), and dx (n,I) if DX. With K_SPLITS > 0, x comes as K_SPLITS partial
 * sums, and is computed here: x = f(their sum + bias_below), f the activation BELOW. */
template <int LOSS, int ACTIVATION, int LABELS, int WARPS, int I, int O, int K_SPLITS, int DX,
          int BELOW>
__device__ void last_layer(real *dx, real *dz, real *x, const real *partial_sums,
                           const real *bias_below, const real *w, const real *bias,
                           const control &c, const batch &b, block_range range)
{
    enum { LANES = WARPS * 32 };
    real *z = (real *)BLOCK_MEMORY + threadIdx.x / LANES * (WARPS * O);
    int lane = threadIdx.x % LANES, warp = lane / 32;
    for (int r = range.first() / LANES; r < b.n; r += range.stride() / LANES) {
        real *row = x + (size_t)r * I;
        int64 from = data_row(c, b, r);
        if (K_SPLITS) {
            for (int i = lane; i < I; i += LANES) {
                real sum =
                    strided_sum(partial_sums + (size_t)r * I + i, 0, 1, K_SPLITS, (int64)b.n * I);
                row[i] = activate<BELOW>(sum + bias_below[i]);
            }
            row_barrier<WARPS>();
        }
        row_outputs<WARPS, I, O>(z, row, w, bias, lane, warp);
        if (warp == 0) {
            real loss = loss_row<LOSS, ACTIVATION, O, LABELS, 32>(z, c, from, lane);
            if (lane == 0)
                c.row_loss[b.row + r] = loss;
        }
        row_barrier<WARPS>();
        for (int j = lane; j < O; j += LANES)
            dz[(size_t)r * O + j] = z[j];
        for (int i = lane; DX && i < I; i += LANES) {
            real back = 0;
            #pragma unroll
            for (int j = 0; j < O; j++)
                back += z[j] * w[j * I + i];
            dx[(size_t)r * I + i] = back * derivative<BELOW>(row[i]);
        }
        row_barrier<WARPS>();
    }
    __syncthreads();                    /* before the block's memory serves another op */
}
