/* loss_sums.cu - the rows' losses added up on the GPU, so that few numbers go to the host. Of
 * several networks each has a row of the grid, and of the sums. */

/* sums[i] = the sum of batch first + i's row losses, i below `batches`, in the same order in
 * every run: a warp a batch, as a block of THREADS threads would add them up */
extern "C" __global__ void batch_losses(double *sums, const control *where, int64 first,
                                        int64 batches)
{
    const control c = where[blockIdx.y];
    int64 index = (blockIdx.x * THREADS + threadIdx.x) / 32;
    if (index >= batches)
        return;
    const batch b = batch_of(c, (first + index) * c.batch, first + index);
    double sum[SHARES] = {};
    for (int begin = threadIdx.x % 32; begin < b.n; begin += THREADS)
        #pragma unroll
        for (int s = 0; s < SHARES; s++)
            sum[s] += begin + s * 32 < b.n ? c.row_loss[b.row + begin + s * 32] : 0;
    #pragma unroll
    for (int half = SHARES / 2; half; half /= 2)
        #pragma unroll
        for (int s = 0; s < half; s++)
            sum[s] += sum[s + half];
    for (int half = 16; half; half /= 2)
        sum[0] += __shfl_xor_sync(0xffffffffu, sum[0], half);
    if (threadIdx.x % 32 == 0)
        sums[blockIdx.y * batches + index] = sum[0];
}

/* totals[k] += the sums of network k, one after the other; a thread a network */
extern "C" __global__ void add_batch_losses(double *totals, const double *sums, int64 networks,
                                            int64 batches)
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

/* totals[k] = the sum of the row losses of network k, one after the other as the host adds them
 * (summed in epoch.py): a block a network, whose threads fetch what the first of them adds. -0
 * stays what it is, the sum of no other numbers. */
extern "C" __global__ void add_row_losses(double *totals, const control *where)
{
    const control c = where[blockIdx.y];
    double *some = (double *)BLOCK_MEMORY, total = -0.0;
    for (int64 first = 0; first < c.count; first += THREADS) {
        int64 left = c.count - first;
        int n = left < THREADS ? (int)left : THREADS;
        if (threadIdx.x < n)
            some[threadIdx.x] = c.row_loss[first + threadIdx.x];
        __syncthreads();
        #pragma unroll 8
        for (int r = 0; r < n && threadIdx.x == 0; r++)
            total += some[r];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        totals[blockIdx.y] = total;
}
