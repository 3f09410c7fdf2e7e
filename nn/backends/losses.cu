/* losses.cu - the rows' losses of an epoch, added up batch by batch, so that few numbers go to the host. */

/* sums[i] = the sum of batch first + i's row losses; a block a batch, in the same order in every run */
extern "C" __global__ void batch_losses(double *sums, const double *row_loss, int64 batch, int64 count, int64 first)
{
    double *part = (double *)BLOCK_MEMORY;
    int64 begin = (first + blockIdx.x) * batch, end = min(begin + batch, count);
    double sum = 0;
    for (int64 r = begin + threadIdx.x; r < end; r += THREADS)
        sum += row_loss[r];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        sums[blockIdx.x] = part[0];
}
