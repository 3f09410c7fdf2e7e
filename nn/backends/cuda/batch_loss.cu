/* batch_loss.cu - the rows' losses of an epoch, added up batch by batch, so that few numbers go to the host. Of several
 * networks each has a row of the grid, and of the sums. */

/* sums[i] = the sum of batch first + i's row losses, i below `batches`, in the same order in every run: a block a batch,
 * or with NARROW batches, of up to 32 rows, a warp a batch, which gives the same bits. */
extern "C" __global__ void batch_losses(double *sums, const control *where, int64 first, int64 batches)
{
    const control c = where[blockIdx.y];
    double sum = 0;
#ifdef NARROW
    int64 index = (blockIdx.x * THREADS + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (index >= batches)
        return;
    const batch b = batch_of(c, (first + index) * c.batch, first + index);
    if (lane < b.n)
        sum += c.row_loss[b.row + lane];
    for (int half = 16; half; half /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, half);
    if (lane == 0)
        sums[blockIdx.y * batches + index] = sum;
#else
    const batch b = batch_of(c, (first + blockIdx.x) * c.batch, first + blockIdx.x);
    double *thread_sums = (double *)BLOCK_MEMORY;
    for (int r = threadIdx.x; r < b.n; r += THREADS)
        sum += c.row_loss[b.row + r];
    thread_sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half; half /= 2) {
        if (threadIdx.x < half)
            thread_sums[threadIdx.x] += thread_sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        sums[blockIdx.y * batches + blockIdx.x] = thread_sums[0];
#endif
}

/* totals[k] += the sums of network k, one after the other; a thread a network */
extern "C" __global__ void add_batch_losses(double *totals, const double *sums, int64 networks, int64 batches)
{
    int64 k = blockIdx.x * THREADS + threadIdx.x;
    if (k >= networks)
        return;
    double total = totals[k];
    #pragma unroll 8
    for (int64 i = 0; i < batches; i++)
        total += sums[k * batches + i];
    totals[k] = total;
}
