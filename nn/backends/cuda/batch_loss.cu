/* batch_loss.cu - the rows' losses of an epoch, added up batch by batch, so that few numbers go to the host. */

/* sums[i] = the sum of batch first + i's row losses; a block a batch, in the same order in every run. Of several networks
 * each has a row of the grid, and of sums. */
extern "C" __global__ void batch_losses(double *sums, const control *where, int64 first)
{
    const control c = where[blockIdx.y];
    const batch b = batch_of(c, (first + blockIdx.x) * c.batch, first + blockIdx.x);
    double *thread_sums = (double *)BLOCK_MEMORY, sum = 0;
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
        sums[(size_t)blockIdx.y * gridDim.x + blockIdx.x] = thread_sums[0];
}
