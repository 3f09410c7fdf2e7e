/* row_loss.cu - the losses of a network's rows added up, so that one number goes to the host */

/* totals[k] = the sum of the row losses of network k, one after the other as the host adds them (summed in epoch.py): a
 * block a network, whose threads fetch what the first of them adds. -0 stays what it is, the sum of no other numbers. */
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
