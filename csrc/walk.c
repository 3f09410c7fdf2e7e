/* walk.c - from rows of a table to other rows by a column a step: the outputs of the first
 * layer, whose sums change by what that column adds to them.
 * uses: nn_aux.c (activation_forward)
 */
#include "core.h"

int64_t FN(walk)(real *restrict out, int64_t *restrict places, const real *own, const real *others,
                 const int32_t *order, const uint8_t *differ, const nn_walk *walk)
{
    const int64_t width = walk->width, table = (walk->columns + 1) * width;
    uint8_t inside[walk->columns];
    double sums[width];
    int64_t made = 0;
    for (int64_t w = 0; w < walk->walks; w++) {
        const real *last = own + w / walk->others * table,
                   *first = others + w % walk->others * table;
        const int32_t *columns = order + w % walk->others * walk->steps;
        const int64_t before = made;
        memset(inside, 0, sizeof inside);
        for (int64_t k = 0; k < width; k++)
            sums[k] = (double)first[k];
        for (int64_t step = 0; step < walk->steps; step++) {
            const int32_t column = columns[step];
            if (differ[w * walk->columns + column]) {
                const real *added = last + (column + 1) * width,
                           *gone = first + (column + 1) * width;
                real *to = out + 2 * made++ * width, *opposite = to + width;
                const double sign = inside[column] ? -1 : 1;
                inside[column] ^= 1;
                for (int64_t k = 0; k < width; k++) {
                    sums[k] += sign * ((double)added[k] - (double)gone[k]);
                    to[k] = (real)sums[k];
                    opposite[k] = (real)((double)last[k] + (double)first[k] - sums[k]);
                }
            }
            *places++ = made > before ? made - 1 : -1 - w;
        }
        activation_forward(out + 2 * before * width, walk->activation, 0, 1,
                           2 * (made - before) * width);
    }
    return made;
}
