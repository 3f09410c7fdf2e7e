/* gather.cu - rows of the data set into the batch. */

/* x (n, WIDTH): the batch's rows, bytes scaled to [0, 1] */
template <int WIDTH, int BYTES>
__device__ void gather(real *x, const control &c, const batch &b, block_range range)
{
    for (int e = range.first(); e < b.n * WIDTH; e += range.stride()) {
        int64 from = data_row(c, b, e / WIDTH) * WIDTH + e % WIDTH;
        x[e] = BYTES ? (real)(((const unsigned char *)c.x)[from] * (1.0 / 255))
                     : ((const real *)c.x)[from];
    }
}

/* A number of -MOST .. MOST; of 32 random bits, a fraction of 2^32. */
template <int MOST> __device__ inline int drawn_shift(unsigned bits)
{ return (int)__umulhi(bits, 2 * MOST + 1) - MOST; }

/* The same of images, which are moved by the rule of the C core's pass.c. */
template <int CHANNELS, int HEIGHT, int WIDTH, int BYTES, int DOWN, int RIGHT, int MIRROR>
__device__ void gather_moved(real *x, const control &c, const batch &b, block_range range)
{
    enum { VALUES = CHANNELS * HEIGHT * WIDTH };
    for (int e = range.first(); e < b.n * VALUES; e += range.stride()) {
        int64 row = b.first + e / VALUES;
        unsigned word[4];
        philox(word, b.seed, (unsigned)row, (unsigned)(row >> 32), b.step, 0xFFFFFFFFu);
        int line = e % VALUES / WIDTH, down = line % HEIGHT - drawn_shift<DOWN>(word[0]);
        int right = min(max(e % WIDTH - drawn_shift<RIGHT>(word[1]), 0), WIDTH - 1);
        int64 from = data_row(c, b, e / VALUES) * CHANNELS + line / HEIGHT;
        from = (from * HEIGHT + min(max(down, 0), HEIGHT - 1)) * WIDTH;
        from += MIRROR && word[2] >> 31 ? WIDTH - 1 - right : right;
        x[e] = BYTES ? (real)(((const unsigned char *)c.x)[from] * (1.0 / 255))
                     : ((const real *)c.x)[from];
    }
}

/* x (n, WIDTH): the batch's rows from records of ROW_BYTES bytes (nn/core/records.py): numbers,
 * then codes of 4, 2 and 1 bytes. Each value's address is a multiple of its size. */
template <int ROW_BYTES, int NUMBERS, int CODES4, int CODES2, int CODES1>
__device__ void gather_records(real *x, const control &c, const batch &b, block_range range)
{
    enum {
        AT4 = NUMBERS * (int)sizeof(real),
        AT2 = AT4 + 4 * CODES4,
        AT1 = AT2 + 2 * CODES2,
        END = AT1 + CODES1
    };
    enum { FIRST2 = NUMBERS + CODES4, FIRST1 = FIRST2 + CODES2, WIDTH = FIRST1 + CODES1 };
    static_assert((int)END <= ROW_BYTES && ROW_BYTES % (int)sizeof(real) == 0,
                  "records.py lays out other records");
    for (int e = range.first(); e < b.n * WIDTH; e += range.stride()) {
        const char *record = (const char *)c.x + data_row(c, b, e / WIDTH) * ROW_BYTES;
        int i = e % WIDTH;
        if (i < NUMBERS)
            x[e] = ((const real *)record)[i];
        else if (i < FIRST2)
            x[e] = (real)((const unsigned *)(record + AT4))[i - NUMBERS];
        else if (i < FIRST1)
            x[e] = (real)((const unsigned short *)(record + AT2))[i - FIRST2];
        else
            x[e] = (real)((const unsigned char *)(record + AT1))[i - FIRST1];
    }
}

/* out (count, WIDTH), from the batch's first row on: what the host asked for */
template <int WIDTH>
__device__ void keep_rows(const real *from, const control &c, const batch &b, block_range range)
{
    for (int e = range.first(); e < b.n * WIDTH; e += range.stride())
        c.out[b.row * WIDTH + e] = from[e];
}
