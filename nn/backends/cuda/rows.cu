/* rows.cu - rows that another library has on the GPU, as the network reads them, and its outputs as
 * predictions: the arithmetic of nn/data/scaling.py, one rounding after the other.
 *
 * standing.py writes the types GIVEN of the rows, READ_AS that the network reads columns in and
 * PREDICTION in front, and what is scaled.
 */

struct places { /* in the computer's memory: other rows in each call */
    const GIVEN *rows;
    PREDICTION *predictions;
    int64 is_refused; /* for a number that is not finite */
};

/* x (rows, inputs) = (rows - shift) / scale, of each input */
extern "C" __global__ void read_rows(places *where, real *x, const double *shift,
                                     const double *scale, int inputs, int values)
{
    const GIVEN *rows = where->rows;
    for (int e = blockIdx.x * THREADS + threadIdx.x; e < values; e += gridDim.x * THREADS) {
        READ_AS number = (READ_AS)rows[e];
        if (!isfinite(number))
            where->is_refused = 1;
        if (SCALES_INPUTS)
            x[e] = (real)(((double)number - shift[e % inputs]) / scale[e % inputs]);
        else
            x[e] = (real)number;
    }
}

/* predictions (rows, outputs) = out * scale + shift, of each output, from low to high */
extern "C" __global__ void write_predictions(places *where, const real *out, const double *shift,
                                             const double *scale, const double *low,
                                             const double *high, int outputs, int values)
{
    PREDICTION *predictions = where->predictions;
    for (int e = blockIdx.x * THREADS + threadIdx.x; e < values; e += gridDim.x * THREADS) {
        double value = out[e];
        int target = e % outputs;
        if (SCALES_OUTPUTS)
            value = __dadd_rn(__dmul_rn(value, scale[target]), shift[target]);
        if (CLIPS)
            value = value < low[target] ? low[target] : value > high[target] ? high[target] : value;
        predictions[e] = (PREDICTION)value;
        if (!isfinite(predictions[e]))
            where->is_refused = 1;
    }
}
