/* conv.cu - convolution as a matrix product, without ever storing the unrolled images: the product asks for value
 * (k, n) of the unrolled matrix and gets the address of the pixel. Images (C,IH,IW), F kernels (C,K,K), not flipped.
 */

template <int C_, int IH_, int IW_, int F_, int OH_, int OW_, int K_, int STRIDE_, int TOP_, int LEFT_>
struct conv_shape {
    enum { C = C_, IH = IH_, IW = IW_, F = F_, OH = OH_, OW = OW_, K = K_, STRIDE = STRIDE_, TOP = TOP_, LEFT = LEFT_ };
    enum { AREA = K * K, TAPS = C * AREA, PIXELS = OH * OW, IN = IH * IW };
    /* no window reaches over the image's edge */
    enum { INSIDE = TOP == 0 && LEFT == 0 && (OH - 1) * STRIDE + K <= IH && (OW - 1) * STRIDE + K <= IW };
};

/* The pixel under tap (c,ky,kx) of the window of output (r,oy,ox); NULL outside the image. */
template <class S>
__device__ inline const real *pixel(const real *x, int tap, int output)
{
    int r = output / S::PIXELS, p = output % S::PIXELS, c = tap / S::AREA, at = tap % S::AREA;
    int iy = p / S::OW * S::STRIDE + at / S::K - S::TOP, ix = p % S::OW * S::STRIDE + at % S::K - S::LEFT;
    if (!S::INSIDE && ((unsigned)iy >= S::IH || (unsigned)ix >= S::IW))
        return 0;
    return x + (size_t)r * (S::C * S::IN) + c * S::IN + iy * S::IW + ix;
}

/* ---- out (f, (r,p)) = w (f, tap) unrolled (tap, (r,p)) + b ---- */

template <class S>
struct unrolled {
    enum { ALONG_K = 0 };
    const real *x;
    __device__ const real *at(int output, int tap) const { return pixel<S>(x, tap, output); }
};

template <class S, int ACTIVATION>
struct put_conv_output {
    real *out;
    const real *b;
    __device__ void put(int f, int output, real value, int) const
    {
        int r = output / S::PIXELS, p = output % S::PIXELS;
        out[((size_t)r * S::F + f) * S::PIXELS + p] = activate<ACTIVATION>(value + b[f]);
    }
};

template <class T, class S, int ACTIVATION>
__device__ void conv_forward(real *out, const real *x, const real *w, const real *b, int n, team t)
{
    by_rows<S::TAPS> kernels = {w};
    unrolled<S> images = {x};
    put_conv_output<S, ACTIVATION> put = {out, b};
    gemm<T, 1>(kernels, images, put, S::F, n * S::PIXELS, S::TAPS, t);
}

/* ---- dx (c, (r,iy,ix)) = w' (c, (f,ky,kx)) dz, each pixel from the outputs whose windows saw it ---- */

template <class S>
struct kernels_by_channel {
    enum { ALONG_K = 1 };
    const real *w;
    __device__ const real *at(int c, int k) const { return w + (k / S::AREA * S::C + c) * S::AREA + k % S::AREA; }
};

template <class S>
struct outputs_that_saw {
    enum { ALONG_K = 0 };
    const real *dz;
    __device__ const real *at(int input, int k) const
    {
        int r = input / S::IN, p = input % S::IN, f = k / S::AREA, tap = k % S::AREA;
        int y = p / S::IW + S::TOP - tap / S::K, x = p % S::IW + S::LEFT - tap % S::K;
        if (y < 0 || x < 0 || y % S::STRIDE || x % S::STRIDE || y / S::STRIDE >= S::OH || x / S::STRIDE >= S::OW)
            return 0;
        return dz + ((size_t)r * S::F + f) * S::PIXELS + y / S::STRIDE * S::OW + x / S::STRIDE;
    }
};

template <class S, int BELOW>
struct put_conv_dx {
    real *dx;
    const real *x;
    __device__ void put(int c, int input, real value, int) const
    {
        size_t e = ((size_t)(input / S::IN) * S::C + c) * S::IN + input % S::IN;
        dx[e] = BELOW == LINEAR ? value : value * slope<BELOW>(x[e]);
    }
};

template <class T, class S, int BELOW>
__device__ void conv_backward_input(real *dx, const real *dz, const real *w, const real *x, int n, team t)
{
    kernels_by_channel<S> kernels = {w};
    outputs_that_saw<S> outputs = {dz};
    put_conv_dx<S, BELOW> put = {dx, x};
    gemm<T, 1>(kernels, outputs, put, S::C, n * S::IN, S::F * S::AREA, t);
}

/* ---- dw (f, tap) = dz (f, (r,p)) unrolled', db = sums of dz: a further tap that always sees 1 ---- */

template <class S>
struct outputs_by_filter {
    enum { ALONG_K = 1 };
    const real *dz;
    __device__ const real *at(int f, int output) const
    {
        return dz + ((size_t)(output / S::PIXELS) * S::F + f) * S::PIXELS + output % S::PIXELS;
    }
};

template <class S>
struct unrolled_and_ones {
    enum { ALONG_K = 1 };
    const real *x;
    __device__ const real *at(int tap, int output) const
    {
        return tap < S::TAPS ? pixel<S>(x, tap, output) : &one;
    }
};

template <class T, int SPLITS, class S>
__device__ void conv_backward_parameters(real *g, const real *dz, const real *x, int n, team t)
{
    outputs_by_filter<S> filters = {dz};
    unrolled_and_ones<S> images = {x};
    put_gradient<S::TAPS, S::F> gradient = {g};
    gemm<T, SPLITS>(filters, images, gradient, S::F, S::TAPS + 1, n * S::PIXELS, t);
}

/* out (n,F,PIXELS) = f(out + b), where a library has convolved */
template <int F, int PIXELS, int ACTIVATION>
__device__ void conv_finish(real *out, const real *b, int n, team t)
{
    for (int e = t.first(); e < n * F * PIXELS; e += t.stride())
        out[e] = activate<ACTIVATION>(out[e] + b[e / PIXELS % F]);
}
