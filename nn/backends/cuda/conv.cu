/* conv.cu - convolution as a matrix product, without ever storing the unrolled images: the
 * product asks for value (k, n) of the unrolled matrix and gets the address of the pixel. Images
 * (C,IH,IW), F kernels (C,K,K), not flipped.
 */

template <int C_, int IH_, int IW_, int F_, int OH_, int OW_, int K_, int STRIDE_, int TOP_,
          int LEFT_>
struct conv_shape {
    enum {
        C = C_,
        IH = IH_,
        IW = IW_,
        F = F_,
        OH = OH_,
        OW = OW_,
        K = K_,
        STRIDE = STRIDE_,
        TOP = TOP_,
        LEFT = LEFT_
    };
    enum { AREA = K * K, TAPS = C * AREA, PIXELS = OH * OW, IN = IH * IW };
    /* no window reaches over the image's edge */
    enum {
        INSIDE = TOP == 0 && LEFT == 0 && (OH - 1) * STRIDE + K <= IH && (OW - 1) * STRIDE + K <= IW
    };
};

/* The window of output (r,oy,ox): its image, and where its corner is on it. */
template <class S>
struct window {
    const real *image;
    int y, x;
    __device__ static window of(const real *images, int output)
    {
        int r = output / S::PIXELS, p = output % S::PIXELS;
        const real *image = images + (size_t)r * (S::C * S::IN);
        return window{image, p / S::OW * S::STRIDE - S::TOP, p % S::OW * S::STRIDE - S::LEFT};
    }
    /* the pixel under tap (c,ky,kx); NULL outside the image */
    __device__ const real *pixel(int c, int ky, int kx) const
    {
        int iy = y + ky, ix = x + kx;
        if (!S::INSIDE && ((unsigned)iy >= S::IH || (unsigned)ix >= S::IW))
            return 0;
        return image + c * S::IN + iy * S::IW + ix;
    }
};

/* ---- out (f, (r,p)) = w (f, tap) unrolled (tap, (r,p)) + b ---- */

template <class S>
struct unrolled {
    enum { ALONG_K = 0, VECTOR = 1 };
    typedef window<S> place;
    const real *x;
    __device__ place find(int output) const { return place::of(x, output); }
    __device__ const real *at(place w, int tap) const
    {
        return w.pixel(tap / S::AREA, tap % S::AREA / S::K, tap % S::AREA % S::K);
    }
};

template <class S, int ACTIVATION>
struct put_conv_output {
    enum { VECTOR = S::PIXELS % WHOLE == 0 };
    real *out;
    const real *b;
    __device__ int last(int size) const { return size; }
    enum { EXTRA = 1 };
    __device__ const real *extra(int f, int) const { return b + f; }
    __device__ real value(real sum, real bias) const { return activate<ACTIVATION>(sum + bias); }
    __device__ real *place(int f, int output, int) const
    {
        return out + ((size_t)(output / S::PIXELS) * S::F + f) * S::PIXELS + output % S::PIXELS;
    }
};

template <class T, class S, int ALIGNED, int ACTIVATION>
__device__ void conv_forward(real *out, const real *x, const real *w, const real *b, int n,
                             block_range range)
{
    by_rows<S::TAPS, ALIGNED> kernels = {w};
    unrolled<S> images = {x};
    put_conv_output<S, ACTIVATION> put = {out, b};
    gemm<T, 1>(kernels, images, put, S::F, n * S::PIXELS, S::TAPS, range);
}

/* ---- dx (c, (r,iy,ix)) = w' (c, (f,ky,kx)) dz, each pixel from the outputs whose windows saw
 * it ---- */

template <class S>
struct kernels_by_channel {
    enum { ALONG_K = 1, VECTOR = 1 };
    typedef address place;
    const real *w;
    __device__ place find(int c) const { return place{w + c * S::AREA}; }
    __device__ const real *at(place a, int k) const
    { return a.p + k / S::AREA * (S::C * S::AREA) + k % S::AREA; }
};

template <class S>
struct outputs_that_saw {
    enum { ALONG_K = 0, VECTOR = 1 };
    struct place {
        const real *dz;
        int y, x;
    };
    const real *dz;
    __device__ place find(int input) const
    {
        int r = input / S::IN, p = input % S::IN;
        return place{dz + (size_t)r * (S::F * S::PIXELS), p / S::IW + S::TOP, p % S::IW + S::LEFT};
    }
    __device__ const real *at(place a, int k) const
    {
        int f = k / S::AREA, tap = k % S::AREA, y = a.y - tap / S::K, x = a.x - tap % S::K;
        if (y < 0 || x < 0 || y % S::STRIDE || x % S::STRIDE || y / S::STRIDE >= S::OH ||
            x / S::STRIDE >= S::OW)
            return 0;
        return a.dz + f * S::PIXELS + y / S::STRIDE * S::OW + x / S::STRIDE;
    }
};

template <class S, int BELOW>
struct put_conv_dx {
    enum { VECTOR = S::IN % WHOLE == 0 };
    real *dx;
    const real *x;
    __device__ int last(int size) const { return size; }
    __device__ size_t number(int c, int input) const
    {
        return ((size_t)(input / S::IN) * S::C + c) * S::IN + input % S::IN;
    }
    enum { EXTRA = BELOW != LINEAR };
    __device__ const real *extra(int c, int input) const { return x + number(c, input); }
    __device__ real value(real sum, real below) const { return sum * derivative<BELOW>(below); }
    __device__ real *place(int c, int input, int) const { return dx + number(c, input); }
};

template <class T, class S, int BELOW>
__device__ void conv_backward_input(real *dx, const real *dz, const real *w, const real *x, int n,
                                    block_range range)
{
    kernels_by_channel<S> kernels = {w};
    outputs_that_saw<S> outputs = {dz};
    put_conv_dx<S, BELOW> put = {dx, x};
    gemm<T, 1>(kernels, outputs, put, S::C, n * S::IN, S::F * S::AREA, range);
}

/* ---- dw (f, tap) = dz (f, (r,p)) unrolled', db = sums of dz: a further tap that always sees 1
 * ---- */

template <class S>
struct outputs_by_filter {
    enum { ALONG_K = 1, VECTOR = beside(S::PIXELS) };
    typedef address place;
    const real *dz;
    __device__ place find(int f) const { return place{dz + f * S::PIXELS}; }
    __device__ const real *at(place a, int output) const
    {
        return a.p + (size_t)(output / S::PIXELS) * (S::F * S::PIXELS) + output % S::PIXELS;
    }
};

template <class S>
struct unrolled_and_ones {
    enum { ALONG_K = 1, VECTOR = 1 };
    struct place {
        int c, ky, kx;                  /* c is negative for the ones */
    };
    const real *x;
    __device__ place find(int tap) const
    {
        return place{tap < S::TAPS ? tap / S::AREA : -1, tap % S::AREA / S::K,
                     tap % S::AREA % S::K};
    }
    __device__ const real *at(place a, int output) const
    {
        return a.c < 0 ? one.v : window<S>::of(x, output).pixel(a.c, a.ky, a.kx);
    }
};

template <class T, int SPLITS, class S>
__device__ void conv_backward_parameters(real *g, const real *dz, const real *x, int n,
                                         block_range range)
{
    outputs_by_filter<S> filters = {dz};
    unrolled_and_ones<S> images = {x};
    put_gradient<S::TAPS, S::F> gradient = {g};
    gemm<T, SPLITS>(filters, images, gradient, S::F, S::TAPS + 1, n * S::PIXELS, range);
}
