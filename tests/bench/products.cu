/* products.cu - a matrix product on the GPU in four steps, and a convolution as such a product:
 * to read before gemm.cu and conv.cu of nn/backends/cuda, which do the same faster.
 *
 * c (m,n) = a (m,k) b (k,n), rows one after the other in memory. `real` is float or double, TILE
 * a number, both given to the compiler. A block's threads are numbered along x alone.
 * BLOCK_MEMORY is the shared memory of a block.
 */
typedef long long whole;

/* Step 1: one block, a thread for each value of c. Each thread reads a row of a and a column of b
 * from the GPU's memory: every value of a is read n times, every value of b m times. A block has
 * at most 1,024 threads, so 50 x 50 values are too many. */
extern "C" __global__ void product_1(real *c, const real *a, const real *b, whole m, whole n,
                                     whole k)
{
    whole row = threadIdx.x / n, column = threadIdx.x % n;
    if (row >= m)
        return;
    real sum = 0;
    for (whole i = 0; i < k; i++)
        sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}

/* Step 2: the same from shared memory. The threads copy a and b together, and wait for each
 * other; then every value comes from the GPU's memory once. Both must fit the memory of a block,
 * (m + n) k values in some 48 KB. */
extern "C" __global__ void product_2(real *c, const real *a, const real *b, whole m, whole n,
                                     whole k)
{
    real *shared_a = (real *)BLOCK_MEMORY, *shared_b = shared_a + m * k;
    for (whole i = threadIdx.x; i < m * k; i += blockDim.x)
        shared_a[i] = a[i];
    for (whole i = threadIdx.x; i < k * n; i += blockDim.x)
        shared_b[i] = b[i];
    __syncthreads();
    whole row = threadIdx.x / n, column = threadIdx.x % n;
    if (row >= m)
        return;
    real sum = 0;
    for (whole i = 0; i < k; i++)
        sum += shared_a[row * k + i] * shared_b[i * n + column];
    c[row * n + column] = sum;
}

/* Step 3: any size. c is cut into tiles of TILE x TILE values, a block each, and a thread for each
 * value; those of the last tiles that lie outside of c do nothing. Without shared memory: TILE
 * threads read the same values of a, and hope for a cache. */
extern "C" __global__ void product_3(real *c, const real *a, const real *b, whole m, whole n,
                                     whole k)
{
    whole row = (whole)blockIdx.y * TILE + threadIdx.x / TILE;
    whole column = (whole)blockIdx.x * TILE + threadIdx.x % TILE;
    if (row >= m || column >= n)
        return;
    real sum = 0;
    for (whole i = 0; i < k; i++)
        sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}

/* Step 4: tiles with shared memory. A block walks along k in steps of TILE: its threads copy a
 * tile of a and one of b (2 TILE TILE values), wait, each adds TILE products to its sum, and they
 * wait again before the next tiles take the place of these. A value comes from the GPU's memory
 * once for each tile, TILE times less often than in step 3; outside of a and b it is 0. */
extern "C" __global__ void product_4(real *c, const real *a, const real *b, whole m, whole n,
                                     whole k)
{
    real *tile_a = (real *)BLOCK_MEMORY, *tile_b = tile_a + TILE * TILE;
    int y = threadIdx.x / TILE, x = threadIdx.x % TILE;
    whole row = (whole)blockIdx.y * TILE + y, column = (whole)blockIdx.x * TILE + x;
    real sum = 0;
    for (whole first = 0; first < k; first += TILE) {
        bool in_a = row < m && first + x < k, in_b = first + y < k && column < n;
        tile_a[y * TILE + x] = in_a ? a[row * k + first + x] : 0;
        tile_b[y * TILE + x] = in_b ? b[(first + y) * n + column] : 0;
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            sum += tile_a[y * TILE + i] * tile_b[i * TILE + x];
        __syncthreads();
    }
    if (row < m && column < n)
        c[row * n + column] = sum;
}

/* A convolution as a product (im2col): the image x (channels, height, width) becomes a matrix of
 * channels kernel kernel rows and out_height out_width columns, each column all values that one
 * place of the output is computed from, zeros of the padding among them. Then y (filters, places)
 * = weights (filters, channels kernel kernel) times this matrix, by step 4.
 *
 * The matrix holds channels kernel^2 out_height out_width values where the image has channels
 * height width: with outputs as large as inputs kernel^2 times as many, 9 for 3 x 3, and 16 / 9
 * for an image of 3 x 3 and a kernel of 2 x 2 without padding. So one matrix is filled again for
 * each image of a batch, and all filters share it. conv.cu stores no matrix at all: it finds the
 * place of each value when it needs it. */
extern "C" __global__ void unroll(real *matrix, const real *x, whole channels, whole height,
                                  whole width, whole kernel, whole padding)
{
    whole out_height = height + 2 * padding - kernel + 1;
    whole out_width = width + 2 * padding - kernel + 1, places = out_height * out_width;
    whole values = channels * kernel * kernel * places;
    for (whole i = (whole)blockIdx.x * blockDim.x + threadIdx.x; i < values;
         i += (whole)gridDim.x * blockDim.x) {
        whole row = i / places, place = i % places, in_kernel = row % (kernel * kernel);
        whole h = place / out_width + in_kernel / kernel - padding;
        whole w = place % out_width + in_kernel % kernel - padding;
        bool inside = h >= 0 && h < height && w >= 0 && w < width;
        matrix[i] = inside ? x[(row / (kernel * kernel) * height + h) * width + w] : 0;
    }
}
