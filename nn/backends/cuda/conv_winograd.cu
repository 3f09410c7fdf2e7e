/* conv_winograd.cu - convolution with 3 x 3 kernels at stride 1 in 4/9 of the multiplications
 * (Winograd 1980; Lavin and Gray 2016, F(2x2, 3x3)). A tile of 2 x 2 outputs sees 4 x 4 pixels d
 * of the image through a kernel g:
 *     out = A' [(G g G') * (B' d B)] A,   * element by element,   16 multiplications in place of
 *                                         36.
 * As the whole is linear in g, dg = G' [(A dz A') * (B' d B)] G. Summed over channels (for dg:
 * over tiles) the products at each of the 16 PLACES are a matrix product. A block computes all
 * 16 of them for BLOCK_SIDE x BLOCK_SIDE results, DEPTH terms of their sums at a time: 16
 * threads a place, each with 8 x 8 sums. Float32 only; the error is about that of the direct sum
 * (the CPU takes larger tiles). Same shapes and results as in conv.cu.
 */

/* ---- transforms of a tile: `line` makes TO values of FROM values, both STEP apart ---- */

/* B' d B */
struct of_image {
    enum { FROM = 4, TO = 4 };
    template <int STEP>
    __device__ static void line(real *to, const real *d)
    {
        real d0 = d[0], d1 = d[STEP], d2 = d[2 * STEP], d3 = d[3 * STEP];
        to[0] = d0 - d2, to[STEP] = d1 + d2, to[2 * STEP] = d2 - d1, to[3 * STEP] = d1 - d3;
    }
};

/* G g G' */
struct of_kernel {
    enum { FROM = 3, TO = 4 };
    template <int STEP>
    __device__ static void line(real *to, const real *g)
    {
        real g0 = g[0], g2 = g[2 * STEP], even = (real)0.5 * (g0 + g2), odd = (real)0.5 * g[STEP];
        to[0] = g0, to[STEP] = even + odd, to[2 * STEP] = even - odd, to[3 * STEP] = g2;
    }
};

/* A' m A */
struct of_output {
    enum { FROM = 4, TO = 2 };
    template <int STEP>
    __device__ static void line(real *to, const real *m)
    {
        real m0 = m[0], m1 = m[STEP], m2 = m[2 * STEP], m3 = m[3 * STEP];
        to[0] = m0 + m1 + m2, to[STEP] = m1 - m2 - m3;
    }
};

/* A dz A' */
struct of_gradient {
    enum { FROM = 2, TO = 4 };
    template <int STEP>
    __device__ static void line(real *to, const real *z)
    {
        real z0 = z[0], z1 = z[STEP];
        to[0] = z0, to[STEP] = z0 + z1, to[2 * STEP] = z0 - z1, to[3 * STEP] = -z1;
    }
};

/* G' s G */
struct of_weights {
    enum { FROM = 4, TO = 3 };
    template <int STEP>
    __device__ static void line(real *to, const real *s)
    {
        real s0 = s[0], s1 = s[STEP], s2 = s[2 * STEP], s3 = s[3 * STEP],
             even = (real)0.5 * (s1 + s2);
        to[0] = s0 + even, to[STEP] = (real)0.5 * (s1 - s2), to[2 * STEP] = even + s3;
    }
};

/* to (TO,TO) of a tile (FROM,FROM), which may be the same place: its columns, then its rows */
template <class T>
__device__ inline void transform(real *to, const real *tile)
{
    enum { FROM = T::FROM, TO = T::TO };
    real lines[TO * FROM];
    #pragma unroll
    for (int i = 0; i < FROM; i++)
        T::template line<FROM>(lines + i, tile + i);
    #pragma unroll
    for (int i = 0; i < TO; i++)
        T::template line<1>(to + TO * i, lines + FROM * i);
}

/* ---- the tiles of a convolution ---- */

template <class S>
struct tiles_of {
    /* of an image */
    enum { DOWN = (S::OH + 1) / 2, ACROSS = (S::OW + 1) / 2, EACH = DOWN * ACROSS };
    enum { WHOLE_TILES = S::OH % 2 == 0 && S::OW % 2 == 0, EXACT = S::INSIDE && WHOLE_TILES };

    /* the 4 x 4 pixels that a tile sees in channel c; zeros outside the image, or if it is not
     * `there` */
    __device__ static void load_image(real (&d)[PLACES], const real *x, int tile, int c, bool there)
    {
        int at = tile % EACH, y = at / ACROSS * 2 - S::TOP, column = at % ACROSS * 2 - S::LEFT;
        const real *corner = x + ((size_t)(tile / EACH) * S::C + c) * S::IN + y * S::IW + column;
        #pragma unroll
        for (int i = 0; i < PLACES; i++) {
            bool inside =
                EXACT || ((unsigned)(y + i / 4) < S::IH && (unsigned)(column + i % 4) < S::IW);
            d[i] = load_or_zero(there && inside ? corner + i / 4 * S::IW + i % 4 : 0);
        }
    }

    /* the 2 x 2 values of dz of filter f in a tile */
    __device__ static void load_outputs(real (&z)[4], const real *dz, int tile, int f, bool there)
    {
        int at = tile % EACH, y = at / ACROSS * 2, column = at % ACROSS * 2;
        const real *corner =
            dz + ((size_t)(tile / EACH) * S::F + f) * S::PIXELS + y * S::OW + column;
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            bool inside = WHOLE_TILES || (y + i / 2 < S::OH && column + i % 2 < S::OW);
            z[i] = load_or_zero(there && inside ? corner + i / 2 * S::OW + i % 2 : 0);
        }
    }
};

/* ---- products at all places ---- */

/* Which 8 x 8 results of 32 x 32 are this thread's: two runs of 4 each way, so that 16 bytes are
 * read at once. */
struct results {
    int place, down, across;
    __device__ results()
        : place(threadIdx.x / 16), down(threadIdx.x / 4 % 4 * 4), across(threadIdx.x % 4 * 4)
    {
    }
    __device__ static int beside(int i) { return i / 4 * 16 + i % 4; }
};

/* sum += over DEPTH terms of a (DEPTH, PLACES, 32) b (DEPTH, PLACES, 32), each term ROW values
 * after the last */
template <int ROW>
__device__ inline void multiply_places(real (&sum)[8][8], const real *a, const real *b)
{
    const results mine;
    a += mine.place * BLOCK_SIDE + mine.down, b += mine.place * BLOCK_SIDE + mine.across;
    #pragma unroll
    for (int k = 0; k < DEPTH; k++) {
        real left[8], right[8];
        #pragma unroll
        for (int i = 0; i < 8; i += WHOLE) {
            *(whole *)(left + i) = *(const whole *)(a + k * ROW + results::beside(i));
            *(whole *)(right + i) = *(const whole *)(b + k * ROW + results::beside(i));
        }
        #pragma unroll
        for (int i = 0; i < 8; i++)
            #pragma unroll
            for (int j = 0; j < 8; j++)
                sum[i][j] += left[i] * right[j];
    }
}

/* take(i, j, m) for each of the block's 32 x 32 results, m its 16 places: they change threads
 * through `memory`, 8 rows at a time. */
template <class TAKE>
__device__ inline void each_result(const real (&sum)[8][8], real *memory, const TAKE &take)
{
    /* 8 more, so that rows are in different banks */
    enum { ROW = BLOCK_SIDE + 8, PLACE = 8 * ROW };
    const results mine;
    int row = threadIdx.x / BLOCK_SIDE, column = threadIdx.x % BLOCK_SIDE;
    #pragma unroll
    for (int round = 0; round < 4; round++) {
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < 2; i++)
            #pragma unroll
            for (int j = 0; j < 8; j++)
                memory[mine.place * PLACE + (mine.down / 2 + i) * ROW + mine.across +
                       results::beside(j)] = sum[round * 2 + i][j];
        __syncthreads();
        real m[PLACES];
        #pragma unroll
        for (int p = 0; p < PLACES; p++)
            m[p] = memory[p * PLACE + row * ROW + column];
        take(row / 2 * 4 + results::beside(round * 2) + row % 2, column, m);
    }
    __syncthreads();
}

/* ---- out = f(x * w + b), and dx as the convolution of dz with the rotated kernels ---- */

/* u (channels filled up to DEPTH, PLACES, filters filled up to 32): the transformed kernels */
template <class S>
struct kernel_places {
    enum {
        CHANNELS = (S::C + DEPTH - 1) / DEPTH * DEPTH,
        FILTERS = (S::F + BLOCK_SIDE - 1) / BLOCK_SIDE * BLOCK_SIDE
    };
};

template <class S, class KERNELS>
__device__ inline void transform_kernels(real *u, const KERNELS &kernels, block_range range)
{
    typedef kernel_places<S> P;
    for (int e = range.first(); e < P::CHANNELS * P::FILTERS; e += range.stride()) {
        int f = e % P::FILTERS, c = e / P::FILTERS;
        real g[9], all[PLACES];
        #pragma unroll
        for (int tap = 0; tap < 9; tap++)
            g[tap] = load_or_zero(f < S::F && c < S::C ? kernels.at(f, c * 9 + tap) : 0);
        transform<of_kernel>(all, g);
        #pragma unroll
        for (int p = 0; p < PLACES; p++)
            u[((size_t)c * PLACES + p) * P::FILTERS + f] = all[p];
    }
}

/* Sixteen bytes from global to shared memory, in the background. */
__device__ inline void copy_whole_async(real *to, const real *from)
{
#if __CUDA_ARCH__ >= 800
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
        "l"(from)
        : "memory");
#else
    *(whole *)to = *(const whole *)from;
#endif
}

/* The terms of DEPTH channels from `first` on, for 32 filters, begin their way to shared memory. */
template <class S>
__device__ inline void copy_kernels(real *to, const real *u, int first, int filter)
{
    enum { VECTORS = DEPTH * PLACES * BLOCK_SIDE / WHOLE, LINE = BLOCK_SIDE / WHOLE };
    #pragma unroll
    for (int e = threadIdx.x; e < VECTORS; e += THREADS) {
        size_t line = (size_t)first * PLACES + e / LINE;
        copy_whole_async(to + e * WHOLE,
                         u + line * kernel_places<S>::FILTERS + filter + e % LINE * WHOLE);
    }
    copy_group();
}

/* The outputs of filter f in a tile, from their 16 places m, go where `put` says; with POOL
 * their maximum, of a whole tile, goes to pooled. */
template <class S, int POOL, class PUT>
__device__ inline void finish_tile(real *pooled, const PUT &put, const real *m, int f, int tile)
{
    typedef tiles_of<S> tiles;
    real out[4], extra[4];
    int at = tile % tiles::EACH, y = at / tiles::ACROSS * 2, column = at % tiles::ACROSS * 2;
    int output = tile / tiles::EACH * S::PIXELS + y * S::OW + column;
    transform<of_output>(out, m);
    #pragma unroll
    for (int k = 0; k < 4; k++) {
        bool inside = tiles::WHOLE_TILES || (y + k / 2 < S::OH && column + k % 2 < S::OW);
        extra[k] =
            load_or_zero(PUT::EXTRA && inside ? put.extra(f, output + k / 2 * S::OW + k % 2) : 0);
    }
    #pragma unroll
    for (int k = 0; k < 4; k++)
        if (tiles::WHOLE_TILES || (y + k / 2 < S::OH && column + k % 2 < S::OW))
            *put.place(f, output + k / 2 * S::OW + k % 2, 0) = out[k] = put.value(out[k], extra[k]);
    if (POOL && y + 1 < S::OH && column + 1 < S::OW) {
        real largest = out[0];
        #pragma unroll
        for (int k = 1; k < 4; k++)
            largest = is_larger(out[k], largest) ? out[k] : largest;
        int plane = tile / tiles::EACH * S::F + f;
        pooled[((size_t)plane * (S::OH / 2) + y / 2) * (S::OW / 2) + column / 2] = largest;
    }
}

/* pooled: where the maximum of each whole tile goes, in POOL's case */
template <class S, int POOL, class PUT>
__device__ inline void winograd_convolve(real *pooled, const real *x, const real *u, const PUT &put,
                                         int n, block_range range)
{
    typedef tiles_of<S> tiles;
    enum {
        ROW = PLACES * BLOCK_SIDE,
        BUFFER = DEPTH * ROW,
        GROUPS = kernel_places<S>::FILTERS / BLOCK_SIDE
    };
    /* kernels twice: one is loading */
    real *kernels = (real *)BLOCK_MEMORY, *image = kernels + 2 * BUFFER;
    int count = n * tiles::EACH, blocks = (count + BLOCK_SIDE - 1) / BLOCK_SIDE;
    for (int at = range.id; at < GROUPS * blocks; at += range.count) {
        int filter = at % GROUPS * BLOCK_SIDE,
            tile = at / GROUPS * BLOCK_SIDE + threadIdx.x % BLOCK_SIDE;
        int channel = threadIdx.x / BLOCK_SIDE, stage = 0;
        real sum[8][8] = {}, d[PLACES];
        tiles::load_image(d, x, tile, channel, tile < count && channel < S::C);
        copy_kernels<S>(kernels, u, 0, filter);
        for (int c = 0; c < S::C; c += DEPTH) {
            transform<of_image>(d, d);
            #pragma unroll
            for (int p = 0; p < PLACES; p++)
                image[channel * ROW + p * BLOCK_SIDE + threadIdx.x % BLOCK_SIDE] = d[p];
            copy_wait<0>();
            __syncthreads();
            int next = c + DEPTH + channel;     /* loads while this is multiplied */
            tiles::load_image(d, x, tile, next, tile < count && next < S::C);
            if (c + DEPTH < S::C)
                copy_kernels<S>(kernels + (stage ^ 1) * BUFFER, u, c + DEPTH, filter);
            multiply_places<ROW>(sum, kernels + stage * BUFFER, image);
            stage ^= 1;
            __syncthreads();
        }
        int first = at / GROUPS * BLOCK_SIDE;
        each_result(sum, kernels, [&](int i, int j, const real *m) {
            int f = filter + i, here = first + j;
            if (f >= S::F || here >= count)
                return;
            finish_tile<S, POOL>(pooled, put, m, f, here);
        });
    }
}

template <class S>
__device__ void winograd_kernels(real *u, const real *w, block_range range)
{
    transform_kernels<S>(u, kernels_forward<S>{w}, range);
}

/* POOL: the next layer's outputs, too, where that is a max pooling of 2 x 2 outputs */
template <class S, int ACTIVATION, int POOL>
__device__ void winograd_forward(real *out, real *pooled, const real *x, const real *u,
                                 const real *b, int n, block_range range)
{
    put_conv_output<S, ACTIVATION> put = {out, b};
    winograd_convolve<S, POOL>(pooled, x, u, put, n, range);
}

template <class S>
__device__ void winograd_rotated_kernels(real *u, const real *w, block_range range)
{
    transform_kernels<rotated<S>>(u, kernels_rotated<rotated<S>>{w}, range);
}

template <class S, int BELOW>
__device__ void winograd_backward_input(real *dx, const real *dz, const real *u, const real *x,
                                        int n, block_range range)
{
    put_conv_dx<S, BELOW> put = {dx, x};
    winograd_convolve<rotated<S>, 0>(0, dz, u, put, n, range);
}

/* ---- dw and db, the tiles in SPLITS: 32 filters and 32 channels a block, DEPTH tiles at a time
 * ---- */

template <class S, int SPLITS>
__device__ void winograd_backward_parameters(real *g, const real *dz, const real *x, int n,
                                             block_range range)
{
    typedef tiles_of<S> tiles;
    enum {
        FILTERS = (S::F + BLOCK_SIDE - 1) / BLOCK_SIDE,
        CHANNELS = (S::C + BLOCK_SIDE - 1) / BLOCK_SIDE
    };
    /* 4 more: tiles are in different banks */
    enum { PAIRS = FILTERS * CHANNELS, ROW = PLACES * BLOCK_SIDE + 4 };
    real *outputs = (real *)BLOCK_MEMORY, *images = outputs + DEPTH * ROW;
    int count = n * tiles::EACH, steps = (count + DEPTH - 1) / DEPTH,
        each = (steps + SPLITS - 1) / SPLITS;
    /* tile of a step, filter and channel */
    int lane = threadIdx.x % DEPTH, line = threadIdx.x / DEPTH;
    for (int at = range.id; at < PAIRS * SPLITS; at += range.count) {
        int split = at / PAIRS, filter = at % FILTERS * BLOCK_SIDE,
            channel = at % PAIRS / FILTERS * BLOCK_SIDE;
        int f = filter + line, c = channel + line, tile = split * each * DEPTH + lane;
        int end = min((split + 1) * each * DEPTH, count);
        real sum[8][8] = {}, bias = 0, d[PLACES], z[4];
        tiles::load_outputs(z, dz, tile, f, tile < end && f < S::F);
        tiles::load_image(d, x, tile, c, tile < end && c < S::C);
        for (int base = split * each * DEPTH; base < end; base += DEPTH) {
            real all[PLACES];
            transform<of_gradient>(all, z);
            bias += (z[0] + z[1]) + (z[2] + z[3]);
            transform<of_image>(d, d);
            #pragma unroll
            for (int p = 0; p < PLACES; p++) {
                outputs[lane * ROW + p * BLOCK_SIDE + line] = all[p];
                images[lane * ROW + p * BLOCK_SIDE + line] = d[p];
            }
            __syncthreads();
            /* the next tiles are on their way while these are multiplied */
            tile += DEPTH;
            tiles::load_outputs(z, dz, tile, f, tile < end && f < S::F);
            tiles::load_image(d, x, tile, c, tile < end && c < S::C);
            multiply_places<ROW>(sum, outputs, images);
            __syncthreads();
        }
        real *to = g + (size_t)split * (S::F * S::TAPS + S::F);
        each_result(sum, outputs, [&](int i, int j, const real *m) {
            if (filter + i >= S::F || channel + j >= S::C)
                return;
            real weights[9];
            transform<of_weights>(weights, m);
            #pragma unroll
            for (int tap = 0; tap < 9; tap++)
                to[(filter + i) * S::TAPS + (channel + j) * 9 + tap] = weights[tap];
        });
        #pragma unroll
        for (int other = 1; other < DEPTH; other *= 2)
            bias += __shfl_xor_sync(0xffffffffu, bias, other);
        if (lane == 0 && channel == 0 && f < S::F)
            to[S::F * S::TAPS + f] = bias;
    }
}
