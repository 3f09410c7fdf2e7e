/* pad.cu - zeros around an image: (C,IH,IW) in the middle of (C,OH,OW), n images; a thread a
 * value. */

template <int IH, int IW, int OH, int OW, int TOP, int LEFT, int C, int ACTIVATION>
__device__ void pad_forward(real *out, const real *x, int n, block_range range)
{
    for (int e = range.first(); e < n * C * OH * OW; e += range.stride()) {
        int y = e % (OH * OW) / OW - TOP, column = e % OW - LEFT;
        bool inside = (unsigned)y < IH && (unsigned)column < IW;
        out[e] = activate<ACTIVATION>(
            inside ? x[(size_t)(e / (OH * OW)) * (IH * IW) + y * IW + column] : 0);
    }
}

template <int IH, int IW, int OH, int OW, int TOP, int LEFT, int C, int BELOW>
__device__ void pad_backward(real *dx, const real *dz, const real *x, int n, block_range range)
{
    for (int e = range.first(); e < n * C * IH * IW; e += range.stride()) {
        int y = e % (IH * IW) / IW + TOP, column = e % IW + LEFT;
        dx[e] = dz[(size_t)(e / (IH * IW)) * (OH * OW) + y * OW + column] * derivative<BELOW>(x[e]);
    }
}
