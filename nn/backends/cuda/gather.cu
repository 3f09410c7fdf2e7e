/* gather.cu - rows of the data set into the batch. */

/* x (n, WIDTH): the batch's rows, bytes scaled to [0, 1] */
template <int WIDTH, int BYTES>
__device__ void gather(real *x, const control &c, const batch &b, block_range range)
{
    for (int e = range.first(); e < b.n * WIDTH; e += range.stride()) {
        int64 from = data_row(c, b, e / WIDTH) * WIDTH + e % WIDTH;
        x[e] = BYTES ? (real)(((const unsigned char *)c.x)[from] * (1.0 / 255)) : ((const real *)c.x)[from];
    }
}

/* out (count, WIDTH), from the batch's first row on: what the host asked for */
template <int WIDTH>
__device__ void keep_rows(const real *from, const control &c, const batch &b, block_range range)
{
    for (int e = range.first(); e < b.n * WIDTH; e += range.stride())
        c.out[b.row * WIDTH + e] = from[e];
}
