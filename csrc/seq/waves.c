/* waves.c - a number's waves and the gradients of their frequencies, one wave at a time, in
 * double. */
#include "../core.h"
#include <math.h>

/* Whole turns are taken away from the product before it is rounded. */
static void encode_waves(real *sines, real *cosines, real v, const real *frequencies, int32_t waves)
{
    for (int32_t i = 0; i < waves; i++) {
        double f = (double)frequencies[i], turns = f * (double)v;
        double angle = fabs(turns) >= FRACTIONLESS ? 0 : 2 * M_PI * fma(f, (double)v, -rint(turns));
        sines[i] = (real)sin(angle), cosines[i] = (real)cos(angle);
    }
}

static void add_turns(double *sums, real v, const real *dz, const real *out, int32_t from,
                      int32_t to, int32_t waves)
{
    double angle = 2 * M_PI * v;
    for (int32_t i = from; i < to; i++)
        sums[i] += angle * ((double)dz[i] * out[waves + i] - (double)dz[waves + i] * out[i]);
}
