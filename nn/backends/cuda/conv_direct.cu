/* conv_direct.cu - convolution without a product, for small images and few channels: a tile of a
 * matrix product would be almost empty there, or too few of them would keep the GPU busy. Same
 * shapes and results as in conv.cu.
 */

/* ---- out = f(x * w + b): a thread a pixel, for GROUP filters at once whose weights are in
 * shared memory ---- */

/* w(f, c, ky, kx) as it is stored */
template <class S>
struct kernels_forward {
    const real *w;
    __device__ const real *at(int f, int tap) const { return w + f * S::TAPS + tap; }
};

/* The pixels of one channel under a window. */
template <class S>
__device__ inline void load_channel(real *value, const window<S> &here, int c)
{
    #pragma unroll
    for (int tap = 0; tap < S::AREA; tap++)
        value[tap] = load_or_zero(c < S::C ? here.pixel(c, tap / S::K, tap % S::K) : 0);
}

template <class S, int GROUP, class KERNELS, class PUT>
__device__ inline void convolve(const real *x, const KERNELS &kernels, const PUT &put, int n,
                                block_range range)
{
    enum { GROUPS = (S::F + GROUP - 1) / GROUP };
    struct alignas(16) filters { real w[GROUP]; };
    filters *shared = (filters *)BLOCK_MEMORY;      /* (tap, filter of the group) */
    int chunks = (n * S::PIXELS + THREADS - 1) / THREADS, loaded = -1;
    for (int at = range.id; at < GROUPS * chunks; at += range.count) {
        int group = at / chunks, output = at % chunks * THREADS + threadIdx.x;
        if (group != loaded) {
            __syncthreads();
            stage<S::TAPS * GROUP>(
                (real *)shared,
                [&](int e) {
                    int f = group * GROUP + e / S::TAPS;
                    return f < S::F ? kernels.at(f, e % S::TAPS) : 0;
                },
                [](int e) { return e % S::TAPS * GROUP + e / S::TAPS; });
            __syncthreads();
            loaded = group;
        }
        if (output >= n * S::PIXELS)
            continue;
        window<S> here = window<S>::of(x, output);
        real sum[GROUP] = {};
        real next[S::AREA];
        load_channel<S>(next, here, 0);
        #pragma unroll 2
        for (int c = 0; c < S::C; c++) {
            real value[S::AREA];
            #pragma unroll
            for (int tap = 0; tap < S::AREA; tap++)
                value[tap] = next[tap];
            load_channel<S>(next, here, c + 1);     /* loads while this one is multiplied */
            #pragma unroll
            for (int tap = 0; tap < S::AREA; tap++) {
                filters w = shared[c * S::AREA + tap];
                #pragma unroll
                for (int f = 0; f < GROUP; f++)
                    sum[f] += value[tap] * w.w[f];
            }
        }
        real extra[GROUP];
        #pragma unroll
        for (int f = 0; f < GROUP; f++)
            extra[f] = PUT::EXTRA ? load_or_zero(group * GROUP + f < S::F
                                                     ? put.extra(group * GROUP + f, output)
                                                     : 0)
                                  : 0;
        #pragma unroll
        for (int f = 0; f < GROUP; f++)
            if (group * GROUP + f < S::F)
                *put.place(group * GROUP + f, output, 0) = put.value(sum[f], extra[f]);
    }
    __syncthreads();                    /* before the block's memory serves another op */
}

template <class S, int GROUP, int ACTIVATION>
__device__ void direct_forward(real *out, const real *x, const real *w, const real *b, int n,
                               block_range range)
{
    kernels_forward<S> kernels = {w};
    put_conv_output<S, ACTIVATION> put = {out, b};
    convolve<S, GROUP>(x, kernels, put, n, range);
}

/* ---- dx: with stride 1, the convolution of dz with the rotated kernels, filters and channels
 * exchanged ---- */

template <class S>
using rotated = conv_shape<S::F, S::OH, S::OW, S::C, S::IH, S::IW, S::K, 1, S::K - 1 - S::TOP,
                           S::K - 1 - S::LEFT>;

/* w(c, f, ky, kx) of the rotated convolution of shape T */
template <class T>
struct kernels_rotated {
    const real *w;
    __device__ const real *at(int c, int tap) const
    {
        int f = tap / T::AREA;
        return w + (f * T::F + c) * T::AREA + T::AREA - 1 - tap % T::AREA;
    }
};

template <class S, int GROUP, int BELOW>
__device__ void direct_backward_input(real *dx, const real *dz, const real *w, const real *x, int n,
                                      block_range range)
{
    kernels_rotated<rotated<S>> kernels = {w};
    put_conv_dx<S, BELOW> put = {dx, x};
    convolve<rotated<S>, GROUP>(dz, kernels, put, n, range);
}

/* ---- dw and db: a thread a channel and PER filters, all taps at once, over bands of ROWS
 * output rows ----
 *
 * A block takes one band after another, its rows of x and dz in shared memory, and keeps its
 * sums in registers; SPLITS blocks make SPLITS partial sums. Threads left over share a band's
 * rows; their sums are added up in order.
 */

template <class S, int PER_, int ROWS_>
struct bands {
    enum { PER = PER_, ROWS = ROWS_, COUNT = (S::OH + ROWS - 1) / ROWS };       /* of an image */
    enum { HEIGHT = (ROWS - 1) * S::STRIDE + S::K, WIDTH = (S::OW - 1) * S::STRIDE + S::K };
    /* odd numbers of values from plane to plane, so that threads find theirs in different banks */
    enum { X = HEIGHT * WIDTH | 1, DZ = ROWS * S::OW | 1 };
    enum {
        PAIRS = S::C * ((S::F + PER - 1) / PER),
        SHARES = PAIRS < THREADS ? THREADS / PAIRS : 1
    };
    enum { VALUES = S::C * X + S::F * DZ };
};

/* A band of dz of image r, output rows from `first` on, zeros below the image, and the rows of x
 * that its windows see. */
template <class S, class B>
__device__ inline void load_band(real *x_band, real *dz_band, const real *x, const real *dz, int r,
                                 int first)
{
    enum { SEEN = B::HEIGHT * B::WIDTH, BAND = B::ROWS * S::OW };
    const real *image = x + (size_t)r * (S::C * S::IN),
               *outputs = dz + (size_t)r * (S::F * S::PIXELS);
    stage<S::C * SEEN>(
        x_band,
        [&](int e) {
            int iy = first * S::STRIDE - S::TOP + e % SEEN / B::WIDTH,
                ix = e % SEEN % B::WIDTH - S::LEFT;
            bool inside = (unsigned)iy < S::IH && (unsigned)ix < S::IW;
            return inside ? image + e / SEEN * S::IN + iy * S::IW + ix : 0;
        },
        [](int e) { return e / SEEN * B::X + e % SEEN; });
    stage<S::F * BAND>(
        dz_band,
        [&](int e) {
            bool inside = first + e % BAND / S::OW < S::OH;
            return inside ? outputs + e / BAND * S::PIXELS + first * S::OW + e % BAND : 0;
        },
        [](int e) { return e / BAND * B::DZ + e % BAND; });
}

/* sum (filter, tap) and bias (filter) += of channel c and B::PER filters from f0 on, every
 * SHARES-th row of a band */
template <class S, class B>
__device__ inline void add_band(real (&sum)[B::PER][S::AREA], real (&bias)[B::PER],
                                const real *x_band, const real *dz_band, int c, int f0, int share)
{
    for (int oy = share; oy < B::ROWS; oy += B::SHARES) {
        const real *row = x_band + c * B::X + oy * S::STRIDE * B::WIDTH;
        #pragma unroll 4
        for (int ox = 0; ox < S::OW; ox++) {
            real d[B::PER];
            #pragma unroll
            for (int f = 0; f < B::PER; f++) {
                d[f] = f0 + f < S::F ? dz_band[(f0 + f) * B::DZ + oy * S::OW + ox] : 0;
                bias[f] += d[f];
            }
            #pragma unroll
            for (int tap = 0; tap < S::AREA; tap++) {
                real value = row[tap / S::K * B::WIDTH + ox * S::STRIDE + tap % S::K];
                #pragma unroll
                for (int f = 0; f < B::PER; f++)
                    sum[f][tap] += d[f] * value;
            }
        }
    }
}

/* out = the gradients from the sums of all shares, one tap after another, through the block's
 * memory; channel 0 has the biases, each behind its filter's taps */
template <class S, class B>
__device__ inline void put_shares(real *out, real *memory, const real (&sum)[B::PER][S::AREA],
                                  const real (&bias)[B::PER], int c, int f0, int share, bool busy)
{
    #pragma unroll
    for (int s = 0; s < B::PER * (S::AREA + 1); s++) {
        real mine = s % (S::AREA + 1) < S::AREA
                        ? sum[s / (S::AREA + 1)][s % (S::AREA + 1) % S::AREA]
                        : bias[s / (S::AREA + 1)];
        if (B::SHARES > 1) {
            __syncthreads();
            memory[threadIdx.x] = mine;
            __syncthreads();
            for (int other = 1; share == 0 && other < B::SHARES; other++)
                mine += memory[other * B::PAIRS + threadIdx.x];
        }
        int f = f0 + s / (S::AREA + 1), tap = s % (S::AREA + 1);
        if (busy && share == 0 && f < S::F) {
            if (tap < S::AREA)
                out[f * S::TAPS + c * S::AREA + tap] = mine;
            else if (c == 0)
                out[S::F * S::TAPS + f] = mine;
        }
    }
    __syncthreads();
}

template <class S, int PER, int ROWS, int SPLITS>
__device__ void direct_backward_parameters(real *g, const real *dz, const real *x, int n,
                                           block_range range)
{
    typedef bands<S, PER, ROWS> B;
    enum { CHANNEL = S::C, ROUNDS = (B::PAIRS + THREADS - 1) / THREADS };
    real *x_band = (real *)BLOCK_MEMORY, *dz_band = x_band + S::C * B::X;
    for (int split = range.id; split < SPLITS; split += range.count)
        #pragma unroll 1
        for (int round = 0; round < ROUNDS; round++) {
            int pair =
                round * THREADS + threadIdx.x % (B::SHARES > 1 ? (int)B::PAIRS : (int)THREADS);
            int share = B::SHARES > 1 ? threadIdx.x / B::PAIRS : 0;
            int c = pair % CHANNEL, f0 = pair / CHANNEL * PER;
            bool busy = pair < B::PAIRS && share < B::SHARES;
            real sum[PER][S::AREA] = {}, bias[PER] = {};
            for (int band = split; band < n * B::COUNT; band += SPLITS) {
                __syncthreads();
                load_band<S, B>(x_band, dz_band, x, dz, band / B::COUNT, band % B::COUNT * ROWS);
                __syncthreads();
                if (busy)
                    add_band<S, B>(sum, bias, x_band, dz_band, c, f0, share);
            }
            put_shares<S, B>(g + (size_t)split * (S::F * S::TAPS + S::F), x_band, sum, bias, c, f0,
                             share, busy);
        }
}
