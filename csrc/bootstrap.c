/* bootstrap.c - sums and areas over resampled rows: one pass over the rows for each resample. */
#include "common.h"
#include "bootstrap.h"
#include <math.h>
#include <string.h>

/* One of n rows: 64 random bits are a fraction of 2^64. */
static int64_t one_of(int64_t n, uint32_t high, uint32_t low)
{
    return (int64_t)((unsigned __int128)((uint64_t)high << 32 | low) * (uint64_t)n >> 64);
}

/* times[i] = how often resample number r has row i; the row is counted at place[i] where there are places. */
static void draw(uint32_t *times, int64_t rows, const int32_t *place, uint32_t seed, uint32_t stream,
                 int64_t r)
{
    memset(times, 0, (size_t)rows * sizeof *times);
    for (int64_t i = 0; i < rows; i += 2) {
        uint32_t word[4];
        philox(word, seed, (uint32_t)(i / 2), (uint32_t)(i / 2 >> 32), stream, (uint32_t)r);
        int64_t one = one_of(rows, word[0], word[1]), other = one_of(rows, word[2], word[3]);
        times[place ? place[one] : one]++;
        if (i + 1 < rows)
            times[place ? place[other] : other]++;
    }
}

void bootstrap_sums(double *out, const bootstrap_rows *data, int64_t first, int64_t count, uint32_t seed,
                    uint32_t stream, uint32_t *times)
{
    int columns = data->columns, groups = data->groups;
    int64_t width = columns + data->bin_count;
    memset(out, 0, (size_t)(count * width) * sizeof *out);
    for (int64_t r = first; r < first + count; r++, out += width) {
        draw(times, data->rows, NULL, seed, stream, r);
        for (int64_t i = 0; i < data->rows; i++) {
            double weight = times[i] * data->weights[i];
            if (weight == 0)
                continue;
            for (int c = 0; c < columns; c++)
                out[c] += weight * data->values[i * columns + c];
            for (int g = 0; g < groups; g++)
                if (data->bins[i * groups + g] >= 0)
                    out[columns + data->bins[i * groups + g]] += weight;
        }
    }
}

void bootstrap_areas(double *out, const bootstrap_ranks *ranks, int64_t first, int64_t count, uint32_t seed,
                     uint32_t stream, uint32_t *times)
{
    for (int64_t r = first; r < first + count; r++, out += 2) {
        double positives = 0, negatives = 0;            /* above the scores at hand */
        double p = 0, n = 0;                            /* of the scores at hand, which are equal */
        double pairs = 0, precisions = 0;               /* doubled: a tie adds 1, not a half */
        draw(times, ranks->rows, ranks->place, seed, stream, r);
        for (int64_t k = 0; k < ranks->rows; k++) {
            p += times[k] * ranks->positive[k];
            n += times[k] * ranks->negative[k];
            if (!ranks->last[k])
                continue;
            pairs += n * (2 * positives + p);
            positives += p;
            negatives += n;
            if (p > 0)
                precisions += p * positives / (positives + negatives);
            p = n = 0;
        }
        int both = positives > 0 && negatives > 0;
        out[0] = both ? pairs / (2 * positives * negatives) : NAN;
        out[1] = both ? precisions / positives : NAN;
    }
}
