/* bootstrap.h: sums over resampled rows. Read by gcc (after <stdint.h>) and by cffi alike.
 *
 * Resample number r draws `rows` rows with replacement, by Philox with key `seed`, the given stream and lane r: it
 * depends on nothing else, so resamples may be shared out among threads in any way. A row of weight w that was drawn t
 * times counts t w. `times` (rows) is the caller's scratch.
 */

/* The terms of a row that are added up. */
typedef struct {
    int64_t rows;
    const double *weights;      /* (rows) */
    int columns;                /* values (rows, columns), NULL: none */
    const double *values;
    int groups;                 /* bins (rows, groups): which bins the row counts in, -1: none */
    const int32_t *bins;
    int64_t bin_count;
} bootstrap_rows;

/* For each resample first .. first + count - 1 a row of out: sums of the columns, then of the bins. */
void bootstrap_sums(double *out, const bootstrap_rows *data, int64_t first, int64_t count, uint32_t seed,
                    uint32_t stream, uint32_t *times);

/* Scores of two classes, as places in the order from the highest: row i stands at place[i]; last[k] is 1 where place k
 * is the last of equal scores; positive[k] and negative[k] are the weight at place k in either class. */
typedef struct {
    int64_t rows;
    const int32_t *place;
    const uint8_t *last;
    const double *positive, *negative;
} bootstrap_ranks;

/* For each resample (ROC-AUC, PR-AUC), NaN where a class is missing. */
void bootstrap_areas(double *out, const bootstrap_ranks *ranks, int64_t first, int64_t count, uint32_t seed,
                     uint32_t stream, uint32_t *times);
