/* small.cu - networks of dense layers that fit one multiprocessor: a whole epoch in one launch,
 * with everything but the data set in shared memory. small_epoch.cu is the kernel that calls these;
 * their sizes are constants, by small.py.
 *
 * A row of x ends in a 1, and the weights, stored (I + 1, O), in the biases: they are one
 * further input's. Rows of x and dz are filled up with zeros to whole vectors of 16 bytes, so
 * that no loop has a rest. A block computes ROWS rows, always all of them: rows that a short
 * batch lacks have dz = 0.
 *
 * A batch is divided into parts, whose gradients are added up in an order that small_update
 * sets: each part is a block's, or, in a pack of networks with a block each, one block computes
 * them all, several at a time.
 *
 * In every product neighbouring threads take neighbouring weights, which are in different banks,
 * and the same values of x or dz, which are read once for all; each thread keeps several sums at
 * once.
 */

/* N values at once; p is a multiple of N values. */
template <int N>
__device__ inline values<N> load(const real *p) { return *(const values<N> *)p; }

/* A number of values filled up to whole vectors; to an odd number of them, so that threads that
 * read different rows of that many find them in different banks. */
__device__ constexpr int filled(int n) { return (n + WHOLE - 1) / WHOLE * WHOLE; }
__device__ constexpr int spread(int n)
{ return filled(n) / WHOLE % 2 ? filled(n) : filled(n) + WHOLE; }

/* ROWS are computed, PADDED allocated. X, OUT, DZ, DX, W: values from one row to the next of x
 * with its 1, out, dz, dx and the weights; a pack, whose threads read many rows, has them
 * SPREAD. */
template <int I_, int O_, int ROWS_, int PADDED_, bool SPREAD>
struct small_layer {
    enum {
        I = I_,
        O = O_,
        ROWS = ROWS_,
        PADDED = PADDED_,
        INPUTS = filled(I + 1),
        OUTPUTS = filled(O)
    };
    enum {
        X = SPREAD ? spread(I + 1) : filled(I + 1),
        OUT = SPREAD ? spread(O + 1) : filled(O + 1)
    };
    enum {
        DZ = SPREAD ? spread(O) : filled(O),
        DX = SPREAD ? spread(I) : filled(I),
        W = spread(O)
    };
};

/* The thread's first item of those that begin with thread START: of items side by side, without
 * a barrier between them, each thread gets as many. */
template <int START>
__device__ inline int first_item() { return (threadIdx.x + THREADS - START % THREADS) % THREADS; }

enum { NOWHERE = 0x7fffffff };

/* Parts in the order in which small_update adds them up: part s, s + SHARES, s + 2 SHARES ... of
 * share s, for each s. */
template <int PARTS>
struct turns {
    enum {
        EACH = PARTS / SHARES,
        LONG = PARTS % SHARES,
        IN_LONG = LONG * (EACH + 1),
        SHORT = EACH ? EACH : 1
    };
    static __device__ int part(int number)
    {
        if (number < IN_LONG)           /* the first shares have one part more */
            return number / (EACH + 1) + number % (EACH + 1) * SHARES;
        return LONG + (number - IN_LONG) / SHORT + (number - IN_LONG) % SHORT * SHARES;
    }
    static __device__ bool begins_share(int number)
    {
        return (number < IN_LONG ? number % (EACH + 1) : (number - IN_LONG) % SHORT) == 0;
    }
};

/* Which row of the batch stands in row r of the block's x: the block has SLOTS of the batch's
 * PARTS parts of GROUP rows, those from `first` on, counted as they stand or IN_TURN. */
template <int PARTS, int GROUP, int SLOTS, bool IN_TURN>
struct batch_rows {
    int first;
    __device__ int operator()(int r) const
    {
        int number = first + r / GROUP;
        if (r >= SLOTS * GROUP || number >= PARTS)
            return NOWHERE;
        return (IN_TURN ? turns<PARTS>::part(number) : number) * GROUP + r % GROUP;
    }
};

/* The sum of a vector's values. */
__device__ inline real total(const whole &s)
{
    return WHOLE == 4 ? (s.v[0] + s.v[1]) + (s.v[WHOLE - 2] + s.v[WHOLE - 1]) : s.v[0] + s.v[1];
}

/* out = f(x w), bias included; EACH rows a thread, a vector of sums each, so that additions need
 * not wait for others */
template <class L, int EACH, int ACTIVATION>
__device__ inline void small_forward(real *out, const real *x, const real *w)
{
    for (int e = threadIdx.x; e < (L::ROWS + EACH - 1) / EACH * L::O; e += blockDim.x) {
        int j = e % L::O, first = e / L::O * EACH;
        whole sum[EACH] = {};
        #pragma unroll 16
        for (int k = 0; k < L::INPUTS; k += WHOLE) {
            real weight[WHOLE];
            #pragma unroll
            for (int v = 0; v < WHOLE; v++)
                weight[v] = w[(k + v) * L::W + j];
            #pragma unroll
            for (int r = 0; r < EACH; r++) {
                whole input = load<WHOLE>(x + (first + r) * L::X + k);
                #pragma unroll
                for (int v = 0; v < WHOLE; v++)
                    sum[r].v[v] += input.v[v] * weight[v];
            }
        }
        #pragma unroll
        for (int r = 0; r < EACH; r++)
            out[(first + r) * L::OUT + j] = activate<ACTIVATION>(total(sum[r]));
    }
}

/* The network's last values z (rows of Z) become dz (rows of DZ), a thread or a warp a row; dz
 * is 0 where the batch, of n rows, has no row. */
template <class L, int LOSS, int ACTIVATION, int LABELS, int LANES, class ROWS>
__device__ inline void small_loss(real *dz, real *z, const void *y, double *row_loss, int n,
                                  const ROWS &rows)
{
    control c;
    c.y = y, c.weights = (const real *)y + L::ROWS * L::O;
    int lane = threadIdx.x % LANES;
    for (int r = threadIdx.x / LANES; r < L::PADDED; r += blockDim.x / LANES) {
        real *at = z + r * L::OUT;
        int row = rows(r);
        if (row < n) {
            real loss = loss_row<LOSS, ACTIVATION, L::O, LABELS, LANES>(at, c, r, lane);
            if (lane == 0)
                row_loss[row] = loss;
        }
        for (int k = lane; k < L::O; k += LANES)
            dz[r * L::DZ + k] = row < n ? at[k] : 0;
    }
}

/* dx = dz w', times the derivative of the activation below */
template <class L, int EACH, int BELOW>
__device__ inline void small_backward_input(real *dx, const real *dz, const real *x, const real *w)
{
    for (int e = threadIdx.x; e < (L::ROWS + EACH - 1) / EACH * L::I; e += blockDim.x) {
        int i = e % L::I, first = e / L::I * EACH;
        whole sum[EACH] = {};
        #pragma unroll 16
        for (int j = 0; j < L::OUTPUTS; j += WHOLE) {
            whole weight = load<WHOLE>(w + i * L::W + j);
            #pragma unroll
            for (int r = 0; r < EACH; r++) {
                whole gradient = load<WHOLE>(dz + (first + r) * L::DZ + j);
                #pragma unroll
                for (int v = 0; v < WHOLE; v++)
                    sum[r].v[v] += gradient.v[v] * weight.v[v];
            }
        }
        #pragma unroll
        for (int r = 0; r < EACH; r++)
            dx[(first + r) * L::DX + i] =
                total(sum[r]) * derivative<BELOW>(x[(first + r) * L::X + i]);
    }
}

/* sum[i] = the sum of dz x[i] over ROWS rows, for the N inputs from x on, of which there are
 * `inputs` */
template <class L, int ROWS, int N>
__device__ inline void sum_products(real *sum, const real *dz, const real *x, int inputs)
{
    enum { LENGTH = N < WHOLE ? N : WHOLE };
    #pragma unroll
    for (int i = 0; i < N; i++)
        sum[i] = 0;
    #pragma unroll 8
    for (int r = 0; r < ROWS; r++) {
        real d = dz[r * L::DZ];
        #pragma unroll
        for (int i = 0; i < N; i += LENGTH) {
            values<LENGTH> input = {};
            if (i == 0 || i < inputs)
                input = load<LENGTH>(x + r * L::X + i);
            #pragma unroll
            for (int v = 0; v < LENGTH; v++)
                sum[i + v] += d * input.v[v];
        }
    }
}

/* dw (I + 1, O) = x' dz, those of N inputs and an output a thread: take.gradient(i, j, value)
 * gets each. A block has one part of a batch, or in a pack several: SLOTS of PARTS, each of
 * GROUP rows, from part `first_part` of their turns on. Their sums are those of small_update,
 * which adds up the shares' sums if a share has several parts; they wait in `totals` and
 * `shares`, which are not needed where the block has all parts at once. */
template <class L, int PARTS, int GROUP, int SLOTS, int N, int START, class TAKE>
__device__ inline void small_backward_parameters(const real *dz, const real *x, int first_part,
                                                 real *totals, real *shares, const TAKE &take)
{
    enum { SHARED = PARTS > SHARES };
    for (int e = first_item<START>(); e < (L::I + N) / N * L::O; e += blockDim.x) {
        int j = e % L::O, first = e / L::O * N;
        real total[N], share[N], sum[N];
        #pragma unroll
        for (int i = 0; i < N; i++) {
            bool begun = SLOTS < PARTS && first_part && first + i <= L::I;
            total[i] = begun ? totals[(first + i) * L::W + j] : 0;
            share[i] = begun && SHARED ? shares[(first + i) * L::W + j] : 0;
        }
        #pragma unroll 1
        for (int slot = 0; slot < SLOTS && first_part + slot < PARTS; slot++) {
            int r = slot * GROUP;
            sum_products<L, GROUP, N>(sum, dz + r * L::DZ + j, x + r * L::X + first,
                                      L::INPUTS - first);
            bool begins = turns<PARTS>::begins_share(first_part + slot);
            #pragma unroll
            for (int i = 0; i < N; i++)
                if (SHARED) {
                    total[i] += begins ? share[i] : 0;
                    share[i] = (begins ? 0 : share[i]) + sum[i];
                } else {
                    total[i] = PARTS == 1 ? sum[i] : total[i] + sum[i];
                }
        }
        #pragma unroll
        for (int i = 0; i < N; i++)
            if (first + i > L::I)
                continue;
            else if (first_part + SLOTS >= PARTS)
                take.gradient(first + i, j, SHARED ? total[i] + share[i] : total[i]);
            else
                totals[(first + i) * L::W + j] = total[i],
                                            shares[(first + i) * L::W + j] = share[i];
    }
}

/* Where value (i, j) of the weights stands in a parameter vector; input I is the bias. */
template <class L> __device__ inline int parameter_place(int i, int j)
{ return i < L::I ? j * L::I + i : L::O * L::I + j; }

/* One block computes the whole batch: the weights, in shared memory, take their step at once. */
template <class L, int OPTIMIZER>
struct step_at_once {
    real *w, *m, *v;
    update u;
    __device__ void gradient(int i, int j, real value) const
    {
        int e = i * L::W + j;
        w[e] = stepped<OPTIMIZER>(w[e], value, m + e, v + e, i < L::I ? u.decay : 0, u);
    }
};

/* Several blocks share the batch: gradients go to global memory, a partial sum a block. */
template <class L>
struct keep_partial_sum {
    real *partial_sum;
    __device__ void gradient(int i, int j, real value) const { partial_sum[i * L::O + j] = value; }
};

/* The partial sums of all blocks, SIZE values each, are added up in order, and the parameters in
 * global memory take their step. `sums` is the block's own memory. */
template <class L, int OPTIMIZER, int SPLITS, int SIZE>
__device__ inline void small_update(int64 at, const real *partial_sums, real *sums,
                                    const control &c, const update &u, block_range range)
{
    each_sum<SPLITS, SIZE, (L::I + 1) * L::O>(partial_sums, sums, range, [&](int e, real sum) {
        update_parameter<OPTIMIZER, L::I * L::O>(at, parameter_place<L>(e / L::O, e % L::O), sum, c,
                                                 u);
    });
}

/* ---- between global and shared memory ---- */

template <class L>
__device__ inline void small_import(real *w, const real *parameters)
{
    #pragma unroll 8
    for (int e = threadIdx.x; e < L::O * L::I; e += blockDim.x)
        w[e % L::I * L::W + e / L::I] = parameters[e];
    for (int j = threadIdx.x; j < L::O; j += blockDim.x)
        w[L::I * L::W + j] = parameters[L::O * L::I + j];
}

template <class L>
__device__ inline void small_export(real *parameters, const real *w)
{
    for (int e = threadIdx.x; e < L::O * L::I; e += blockDim.x)
        parameters[e] = w[e % L::I * L::W + e / L::I];
    for (int j = threadIdx.x; j < L::O; j += blockDim.x)
        parameters[L::O * L::I + j] = w[L::I * L::W + j];
}

/* Starts copying a batch's update to shared memory. */
__device__ inline void fetch_update(real *to, const batch &b)
{
    for (int e = threadIdx.x; e < (int)(sizeof(update) / sizeof(real)) && b.n; e += blockDim.x)
        copy_async(to + e, (const real *)b.u + e);
}

__device__ inline void fill(real *p, int n, real value)
{
    for (int e = threadIdx.x; e < n; e += blockDim.x)
        p[e] = value;
}

/* The ones at the end of the rows of x. */
__device__ inline void fill_ones(real *x, int rows, int stride, int n)
{
    for (int r = threadIdx.x; r < rows; r += blockDim.x)
        x[r * stride + n] = 1;
}

/* The data set's row numbers for the block's rows, -1 where the batch has no row; they come in
 * the background. */
template <int PADDED, class ROWS>
__device__ inline void fetch_rows(int64 *numbers, const control &c, const batch &b,
                                  const ROWS &rows)
{
    for (int r = threadIdx.x; r < PADDED; r += blockDim.x) {
        int row = rows(r);
        if (row < b.n && c.order)
            copy_async(numbers + r, c.order + b.row + row);
        else
            numbers[r] = row < b.n ? b.row + row : -1;
    }
}

/* Starts copying these rows of the data set to shared memory, x for layer L and y of O values,
 * as many values at a time as rows divide into; copy_wait and a barrier end it. */
template <class L, int O, int BYTES, int LABELS>
__device__ inline void fetch_data(real *x, void *y, const int64 *rows, const control &c)
{
    enum {
        ROWS = L::ROWS,
        EACH = BYTES        ? 1
        : L::I % WHOLE == 0 ? WHOLE
        : L::I % 2 == 0     ? 2
                            : 1,
        COPIES = L::I / EACH
    };
    typedef values<EACH> some;
    const void *from = c.x;
    for (int e = threadIdx.x; e < ROWS * COPIES; e += blockDim.x) {
        int r = e / COPIES, i = e % COPIES * EACH;
        int64 row = rows[r];
        real *to = x + r * L::X + i;
        if (row < 0)
            continue;
        if (BYTES)
            *to = (real)(((const unsigned char *)from)[row * L::I + i] * (1.0 / 255));
        else
            copy_async((some *)to, (const some *)((const real *)from + row * L::I + i));
    }
    for (int e = threadIdx.x; e < ROWS * (LABELS ? 1 : O); e += blockDim.x) {
        int64 row = rows[LABELS ? e : e / O];
        if (row >= 0 && LABELS)
            copy_async((int *)y + e, (const int *)c.y + row);
        else if (row >= 0)
            copy_async((real *)y + e, (const real *)c.y + row * O + e % O);
    }
#ifdef WEIGHTED
    for (int r = threadIdx.x; r < ROWS; r += blockDim.x)        /* behind the targets */
        if (rows[r] >= 0)
            copy_async((real *)y + ROWS * O + r, c.weights + rows[r]);
#endif
    copy_group();
}
