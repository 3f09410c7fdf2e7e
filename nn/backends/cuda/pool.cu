/* pool.cu - max and average pooling. A thread a value: backward passes gather what reaches a
 * pixel instead of scattering it, so that no two threads add to one sum. C channels, n images.
 */

template <int C_, int IH_, int IW_, int OH_, int OW_, int K_, int STRIDE_>
struct pool_shape {
    enum { C = C_, IH = IH_, IW = IW_, OH = OH_, OW = OW_, K = K_, STRIDE = STRIDE_ };
};

/* The place of the first maximum, in row-major order, of the window at (y,x). */
template <class S>
__device__ inline int first_maximum(const real *plane, int y, int x)
{
    int best = y * S::IW + x;
    real largest = plane[best];
    for (int dy = 0; dy < S::K; dy++)
        for (int dx = 0; dx < S::K; dx++) {
            int at = (y + dy) * S::IW + x + dx;
            real value = plane[at];
            if (is_larger(value, largest))
                largest = value, best = at;
        }
    return best;
}

/* A window that is read a row at once, where windows stand side by side and rows of the image
 * are whole windows. */
template <class S>
struct whole_window {
    enum {
        FITS = S::STRIDE == S::K && S::K <= 4 && S::IW % S::K == 0,
        TILED = FITS && S::IH % S::K == 0
    };
    struct alignas((S::K == 2 || S::K == 4 ? S::K : 1) * sizeof(real)) line { real v[S::K]; };
    line lines[S::K];

    __device__ explicit whole_window(const real *corner)
    {
        #pragma unroll
        for (int i = 0; i < S::K; i++)
            lines[i] = *(const line *)(corner + i * S::IW);
    }
    /* the maximum, and the number of the first one in row-major order */
    __device__ real maximum(int *first) const
    {
        real largest = lines[0].v[0];
        *first = 0;
        #pragma unroll
        for (int i = 1; i < S::K * S::K; i++)
            if (is_larger(lines[i / S::K].v[i % S::K], largest))
                largest = lines[i / S::K].v[i % S::K], *first = i;
        return largest;
    }
};

template <class S, int ACTIVATION>
__device__ void maxpool_forward(real *out, const real *x, int n, block_range range)
{
    for (int e = range.first(); e < n * S::C * S::OH * S::OW; e += range.stride()) {
        int p = e % (S::OH * S::OW), y = p / S::OW * S::STRIDE, column = p % S::OW * S::STRIDE,
            first;
        const real *plane = x + (size_t)(e / (S::OH * S::OW)) * (S::IH * S::IW);
        real value;
        if constexpr (whole_window<S>::FITS)
            value = whole_window<S>(plane + y * S::IW + column).maximum(&first);
        else
            value = plane[first_maximum<S>(plane, y, column)];
        out[e] = activate<ACTIVATION>(value);
    }
}

template <class S, int ACTIVATION>
__device__ void avgpool_forward(real *out, const real *x, int n, block_range range)
{
    for (int e = range.first(); e < n * S::C * S::OH * S::OW; e += range.stride()) {
        int p = e % (S::OH * S::OW);
        const real *window = x + (size_t)(e / (S::OH * S::OW)) * (S::IH * S::IW)
                           + p / S::OW * S::STRIDE * S::IW + p % S::OW * S::STRIDE;
        real sum = 0;
        for (int dy = 0; dy < S::K; dy++)
            for (int dx = 0; dx < S::K; dx++)
                sum += window[dy * S::IW + dx];
        out[e] = activate<ACTIVATION>(sum / (S::K * S::K));
    }
}

/* Windows along one side that hold pixel `at`: [first, last). */
template <int K, int STRIDE, int OUT>
__device__ inline void windows_of(int at, int *first, int *last)
{
    *first = at < K ? 0 : (at - K) / STRIDE + 1;
    *last = at / STRIDE + 1 < OUT ? at / STRIDE + 1 : OUT;
}

/* The gradient of pixel (y,x): the sum over every window that holds it. */
template <class S, int MAX>
__device__ inline real gathered(const real *d, const real *image, int y, int x)
{
    int y0, y1, x0, x1;
    real sum = 0;
    windows_of<S::K, S::STRIDE, S::OH>(y, &y0, &y1);
    windows_of<S::K, S::STRIDE, S::OW>(x, &x0, &x1);
    for (int oy = y0; oy < y1; oy++)
        for (int ox = x0; ox < x1; ox++)
            if (!MAX)
                sum += d[oy * S::OW + ox] / (S::K * S::K);
            else if (first_maximum<S>(image, oy * S::STRIDE, ox * S::STRIDE) == y * S::IW + x)
                sum += d[oy * S::OW + ox];
    return sum;
}

/* dx (n,C,IH,IW) of windows that cover the whole image side by side: each pixel is read once,
 * and a row of a window written at once. */
template <class S, int MAX, int BELOW>
__device__ inline void pool_backward_tiled(real *dx, const real *dz, const real *x, int n,
                                           block_range range)
{
    typedef whole_window<S> window;
    for (int e = range.first(); e < n * S::C * S::OH * S::OW; e += range.stride()) {
        int p = e % (S::OH * S::OW), best;
        size_t corner = (size_t)(e / (S::OH * S::OW)) * (S::IH * S::IW) + p / S::OW * S::K * S::IW +
                        p % S::OW * S::K;
        window values(x + corner);
        real d = MAX ? dz[e] : dz[e] / (S::K * S::K);
        values.maximum(&best);
        #pragma unroll
        for (int i = 0; i < S::K; i++) {
            #pragma unroll
            for (int j = 0; j < S::K; j++) {
                real sum = MAX && i * S::K + j != best ? 0 : d;
                values.lines[i].v[j] = sum * derivative<BELOW>(values.lines[i].v[j]);
            }
            *(typename window::line *)(dx + corner + i * S::IW) = values.lines[i];
        }
    }
}

template <class S, int MAX, int BELOW>
__device__ void pool_backward(real *dx, const real *dz, const real *x, int n, block_range range)
{
    if constexpr (whole_window<S>::TILED) {
        pool_backward_tiled<S, MAX, BELOW>(dx, dz, x, n, range);
    } else {
        for (int e = range.first(); e < n * S::C * S::IH * S::IW; e += range.stride()) {
            int plane = e / (S::IH * S::IW), p = e % (S::IH * S::IW);
            const real *image = x + (size_t)plane * (S::IH * S::IW),
                       *d = dz + (size_t)plane * (S::OH * S::OW);
            real sum = gathered<S, MAX>(d, image, p / S::IW, p % S::IW);
            dx[e] = BELOW == LINEAR ? sum : sum * derivative<BELOW>(x[e]);
        }
    }
}
