/* quantiles.c - several quantiles of one target, in both builds: the activation NN_STEPS, which
 * only the last layer has, and the loss behind it. The first output is z, each further one is the
 * one before and softplus(z), so that they cannot cross. */
#include "core.h"
#include <math.h>

static double step_up(double z) { return fmax(z, 0) + log1p(exp(-fabs(z))); }
static double step_slope(double z) { return 1 / (1 + exp(-z)); }

/* A row of z becomes its quantiles. */
static void steps(real *a, int64_t width)
{
    for (int64_t k = 1; k < width; k++)
        a[k] = (real)(a[k - 1] + step_up(a[k]));
}

static double quantile_at(const real *z, int64_t k, double below)
{ return k ? (double)(real)(below + step_up(z[k])) : (double)z[k]; }

static double pinball_slope(double difference, double share)
{ return (difference > 0) * (1 - share) - (difference < 0) * share; }

/* A row of z becomes dz; returns its loss. A step moves all quantiles from its own one on. */
static double quantiles_row(real *z, const real *y, const nn_loss_settings *loss, int64_t width)
{
    double sum = 0, slopes = 0, a = 0;
    for (int64_t k = 0; k < width; k++) {
        double slope;
        a = quantile_at(z, k, a);
        slope = pinball_slope(a - y[k], loss->constants[k]);
        sum += slope * (a - y[k]), slopes += slope;
    }
    a = 0;
    for (int64_t k = 0; k < width; k++) {
        double of_z = k ? step_slope(z[k]) : 1;
        a = quantile_at(z, k, a);
        z[k] = (real)(slopes * of_z / (double)width);
        slopes -= pinball_slope(a - y[k], loss->constants[k]);
    }
    return sum / (double)width;
}
