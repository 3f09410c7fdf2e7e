/* walk.c - from one row of a table to another by a column a step: the outputs of the first layer, whose sums change by
 * what that column adds to them.
 * uses: nn_aux.c (activation_forward)
 */
#include "core.h"

enum { STEPS_AT_A_TIME = 16 };          /* through the activation: sums that were just written are slow to read */

/* Writes f(the sums of some steps) to the caller's rows; returns where the next ones go. */
static real *take_steps(real *to, real *sums, int64_t steps, const nn_walk *walk)
{
    activation_forward(sums, walk->activation, 0, steps, walk->width);
    take_rows(to, walk->width, sums, row_stride(walk->width), steps, walk->width);
    return to + steps * walk->width;
}

/* One walk from the row `other`; see walk in nn.h. */
static void walk_to(real *to, const real *own, const real *other, const int32_t *order, const uint8_t *changes,
                    const nn_walk *walk)
{
    const int64_t width = walk->width, stride = row_stride(width);
    real sums[STEPS_AT_A_TIME * stride];
    uint8_t inside[walk->columns];
    double z[width];
    int64_t kept = 0;
    memset(sums, 0, sizeof sums);
    memset(inside, 0, sizeof inside);
    for (int64_t k = 0; k < width; k++)
        z[k] = (double)other[k];
    for (int64_t step = 0; step < walk->steps; step++) {
        int32_t column = order[step];
        const real *added = own + (column + 1) * width, *gone = other + (column + 1) * width;
        if (!changes[step])
            continue;
        double sign = inside[column] ? -1 : 1;
        inside[column] ^= 1;
        for (int64_t k = 0; k < width; k++) {
            z[k] += sign * ((double)added[k] - (double)gone[k]);
            sums[kept * stride + k] = (real)z[k];
        }
        if (++kept == STEPS_AT_A_TIME)
            to = take_steps(to, sums, kept, walk), kept = 0;
    }
    take_steps(to, sums, kept, walk);
}

void FN(walk)(real *out, const real *own, const real *others, const int32_t *order, const uint8_t *changes,
              const int64_t *places, const nn_walk *walk, int threads)
{
    threads = nn_begin((int)max_i64(1, min_i64(threads, walk->walks)), 1);
    #pragma omp parallel for num_threads(threads)
    for (int64_t w = 0; w < walk->walks; w++)
        walk_to(out + places[w] * walk->width, own, others + w % walk->count * (walk->columns + 1) * walk->width,
                order + w * walk->steps, changes + w * walk->steps, walk);
    nn_end(threads);
}
