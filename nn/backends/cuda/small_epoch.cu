/* small_epoch.cu - the kernel that trains a small network for whole epochs. What it calls of the
 * network at hand small.py has written in front of it: the sizes in struct plan, and the calls for
 * its layers, import_parameters, forward ...
 *
 * A step is a batch, or the next parts of one. Row numbers of a step are fetched two steps ahead,
 * its data one step ahead: two of each are in shared memory, that of even steps and that of odd
 * ones.
 */

__device__ inline batch batch_at(const control &c, int64 index, int step)
{
    int64 number = index + step / plan::CHUNKS;
    return batch_of(c, number * c.batch, number);
}

__device__ inline part_rows rows_at(int step)
{
    part_rows rows = {plan::BLOCKS > 1 ? (int)blockIdx.x : step % plan::CHUNKS * plan::SLOTS};
    return rows;
}

/* Starts fetching the data of a step, whose row numbers are there. */
__device__ inline void fetch_step(real *memory, const control &c, int odd)
{
    const int64 *numbers = (const int64 *)(memory + plan::NUMBERS) + (odd ? plan::PADDED : 0);
    real *x = memory + (odd ? plan::X1 : plan::X0);
    void *y = memory + (odd ? plan::Y1 : plan::Y0);
    fetch_data<L0, plan::OUTPUTS, plan::BYTES, plan::LABELS>(x, y, numbers, c);
}

extern "C" __global__ void __launch_bounds__(THREADS, plan::RESIDENT)
epoch(const control *where, int64 index, int64 batches)
{
    const control c = where[blockIdx.y];
    real *memory = (real *)BLOCK_MEMORY;
    int64 *numbers = (int64 *)(memory + plan::NUMBERS);
    unsigned target = 0;
    fill(memory, plan::VALUES, 0);
    __syncthreads();
    fill_ones_of_layers(memory);
    import_parameters(memory, c);
    batch b = batch_at(c, index, 0), next = batch_at(c, index, 1);
    fetch_rows<plan::PADDED>(numbers, c, b, rows_at(0));
    fetch_rows<plan::PADDED>(numbers + plan::PADDED, c, next, rows_at(1));
    copy_group();
    copy_wait<0>();
    __syncthreads();
    fetch_update(memory + plan::U0, b);
    fetch_step(memory, c, 0);
    for (int step = 0; step < (int)batches * plan::CHUNKS && b.n; step++) {
        const int odd = step & 1;
        const part_rows rows = rows_at(step);
        const real *x = memory + (odd ? plan::X1 : plan::X0);
        const void *y = memory + (odd ? plan::Y1 : plan::Y0);
        const batch later = batch_at(c, index, step + 2);
        copy_wait<0>();
        __syncthreads();
        fetch_update(memory + (odd ? plan::U0 : plan::U1), next);
        fetch_step(memory, c, !odd);
        fetch_rows<plan::PADDED>(numbers + odd * plan::PADDED, c, later, rows_at(step + 2));
        copy_group();
        forward(memory, x, y, c, b, rows);
        backward_inputs(memory, x);
        const update u = *(const update *)(memory + (odd ? plan::U1 : plan::U0));
        backward_parameters(memory, x, c, rows, u);
        if (plan::BLOCKS > 1) {         /* else the next step begins with a barrier */
            grid_barrier(c.arrivals, target);
            update_parameters(memory, c, u);
            grid_barrier(c.arrivals, target);
            import_parameters(memory, c);
            __syncthreads();
        }
        b = next, next = later;
    }
    copy_wait<0>();
    __syncthreads();
    if (plan::BLOCKS == 1)              /* several have stepped them in global memory */
        export_parameters(memory, c);
}
