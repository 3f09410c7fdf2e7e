/* dense.cu - the fully connected layer. x (n,I), weight w (O,I), bias b (O), out (n,O). */

/* Parts of the sums, (SPLITS, n, WIDTH), to be added up. */
template <int WIDTH>
struct put_part {
    enum { VECTOR = WIDTH % WHOLE == 0 };
    real *parts;
    int n;
    __device__ int last(int size) const { return size; }
    enum { EXTRA = 0 };
    __device__ const real *extra(int, int) const { return 0; }
    __device__ real value(real sum, real) const { return sum; }
    __device__ real *place(int r, int k, int split) const { return parts + ((size_t)split * n + r) * WIDTH + k; }
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
__device__ void dense_forward(real *out, real *parts, const real *x, const real *w, const real *b, int n, team t)
{
    by_rows<I> rows = {x};
    by_rows<I, ALIGNED> columns = {w};
    put_dense_output<O, ACTIVATION> whole = {out, b};
    put_part<O> part = {parts, n};
    if (SPLITS == 1)
        gemm<T, 1>(rows, columns, whole, n, O, I, t);
    else
        gemm<T, SPLITS>(rows, columns, part, n, O, I, t);
}

/* out = f(the sum of the parts + b); SPLITS 0: of what stands in out, as a library left it */
template <int SPLITS, int O, int ACTIVATION>
__device__ void dense_finish(real *out, const real *parts, const real *b, int n, team t)
{
    for (int e = t.first(); e < n * O; e += t.stride()) {
        real sum = SPLITS == 0 ? out[e] : 0;
        for (int s = 0; s < SPLITS; s++)
            sum += parts[(size_t)s * n * O + e];
        out[e] = activate<ACTIVATION>(sum + b[e % O]);
    }
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
    __device__ real value(real sum, real below) const { return sum * slope<BELOW>(below); }
    __device__ real *place(int r, int i, int) const { return dx + (size_t)r * I + i; }
};

template <class T, int SPLITS, int I, int O, int ALIGNED, int BELOW>
__device__ void dense_backward_input(real *dx, real *parts, const real *dz, const real *w, const real *x, int n, team t)
{
    by_rows<O> rows = {dz};
    by_columns<I, ALIGNED> columns = {w};
    put_dense_dx<I, BELOW> whole = {dx, x};
    put_part<I> part = {parts, n};
    if (SPLITS == 1)
        gemm<T, 1>(rows, columns, whole, n, I, O, t);
    else
        gemm<T, SPLITS>(rows, columns, part, n, I, O, t);
}

/* dx = the sum of the parts times the derivative below; SPLITS 0: of what stands in dx */
template <int SPLITS, int I, int BELOW>
__device__ void input_finish(real *dx, const real *parts, const real *x, int n, team t)
{
    for (int e = t.first(); e < n * I; e += t.stride()) {
        real sum = SPLITS == 0 ? dx[e] : 0;
        for (int s = 0; s < SPLITS; s++)
            sum += parts[(size_t)s * n * I + e];
        dx[e] = sum * slope<BELOW>(x[e]);
    }
}

/* ---- dw = dz' x, db = column sums of dz: x has a further column of ones ---- */

/* Gradients of a layer: parts of (O,I) weights and then O biases, one after the other. */
template <int I, int O>
struct put_gradient {
    enum { SIZE = O * I + O, VECTOR = I % WHOLE == 0 && SIZE % WHOLE == 0 };
    real *g;
    __device__ int last(int) const { return I; }        /* beside the last weight lies another row's first */
    enum { EXTRA = 0 };
    __device__ const real *extra(int, int) const { return 0; }
    __device__ real value(real sum, real) const { return sum; }
    __device__ real *place(int j, int i, int split) const
    {
        return g + (size_t)split * SIZE + (i < I ? (size_t)j * I + i : (size_t)O * I + j);
    }
};

template <class T, int SPLITS, int I, int O>
__device__ void dense_backward_parameters(real *g, const real *dz, const real *x, int n, team t)
{
    by_columns<O> rows = {dz};
    by_columns_and_ones<I> columns = {x};
    put_gradient<I, O> gradient = {g};
    gemm<T, SPLITS>(rows, columns, gradient, O, I + 1, n, t);
}

/* db = column sums of dz (n,O), where a library computes dw. 32 columns a block, 8 threads a column, whose sums are
 * added up in order. */
template <int O>
__device__ void dense_backward_bias(real *db, const real *dz, int n, team t)
{
    real *part = (real *)BLOCK_MEMORY;
    int column = threadIdx.x % 32, share = threadIdx.x / 32;
    for (int first = t.id * 32; first < O; first += t.count * 32) {
        real sum = 0;
        for (int r = share; first + column < O && r < n; r += THREADS / 32)
            sum += dz[(size_t)r * O + first + column];
        part[threadIdx.x] = sum;
        __syncthreads();
        if (share == 0 && first + column < O) {
            for (int s = 1; s < THREADS / 32; s++)
                sum += part[s * 32 + column];
            db[first + column] = sum;
        }
        __syncthreads();
    }
}

/* ---- few outputs (O up to 4): sums along rows instead of tiles that would be almost empty ---- */

/* out = f(x w' + b), a warp a row */
template <int I, int O, int ACTIVATION>
__device__ void narrow_forward(real *out, const real *x, const real *w, const real *b, int n, team t)
{
    int lane = threadIdx.x % 32;
    for (int r = t.first() / 32; r < n; r += t.stride() / 32) {
        real sum[O] = {};
        #pragma unroll 8
        for (int i = lane; i < I; i += 32) {
            real value = x[(size_t)r * I + i];
            #pragma unroll
            for (int j = 0; j < O; j++)
                sum[j] += value * w[j * I + i];
        }
        #pragma unroll
        for (int j = 0; j < O; j++) {
            sum[j] = lanes_sum<32>(sum[j]);
            if (lane == 0)
                out[(size_t)r * O + j] = activate<ACTIVATION>(sum[j] + b[j]);
        }
    }
}

/* dx = dz w, times the derivative below; a thread LENGTH values side by side */
template <int I, int O, int BELOW>
__device__ void narrow_backward_input(real *dx, const real *dz, const real *w, const real *x, int n, team t)
{
    enum { LENGTH = I % WHOLE == 0 ? (int)WHOLE : 1 };
    struct alignas(LENGTH * sizeof(real)) side { real v[LENGTH]; };
    #pragma unroll 2
    for (int e = t.first() * LENGTH; e < n * I; e += t.stride() * LENGTH) {
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
            sum.v[v] *= slope<BELOW>(below.v[v]);
        *(side *)(dx + e) = sum;
    }
}

/* dw = dz' x and db, in SPLITS parts of the rows: 32 columns a block, 8 threads each, whose sums are added up in order */
template <int SPLITS, int I, int O>
__device__ void narrow_backward_parameters(real *g, const real *dz, const real *x, int n, team t)
{
    enum { SHARES = THREADS / 32, COLUMNS = (I + 1 + 31) / 32 };
    real *part = (real *)BLOCK_MEMORY;
    int column = threadIdx.x % 32, share = threadIdx.x / 32, rows = (n + SPLITS - 1) / SPLITS;
    for (int at = t.id; at < COLUMNS * SPLITS; at += t.count) {
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
            part[j * THREADS + threadIdx.x] = sum[j];
        __syncthreads();
        if (share < O && i <= I) {      /* as many shares as outputs add up, one each */
            real whole_sum = 0;
            for (int s = 0; s < SHARES; s++)
                whole_sum += part[share * THREADS + s * 32 + column];
            *put_gradient<I, O>{g}.place(share, i, split) = whole_sum;
        }
        __syncthreads();
    }
}
