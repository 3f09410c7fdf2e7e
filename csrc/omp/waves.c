/* waves.c - a number's waves and the gradients of their frequencies, a vector of waves at a
 * time. */
#include "../core.h"
#include "vector_math.h"

static void encode_waves(real *sines, real *cosines, real v, const real *frequencies, int32_t waves)
{
    for (int32_t i = 0; i < waves; i += VECTOR) {
        vec sine, cosine;
        sine_cosine_v(turns_left_v(load(frequencies + i), splat(v)), &sine, &cosine);
        store_some(sines + i, sine, waves - i);
        store_some(cosines + i, cosine, waves - i);
    }
}

static void add_turns(real *sums, real v, const real *dz, const real *out, int32_t from, int32_t to,
                      int32_t waves)
{
    real angle = (real)(2 * M_PI) * v;
    for (int32_t i = from; i < to; i += VECTOR) {
        vec change = load(dz + i) * load(out + waves + i) - load(dz + waves + i) * load(out + i);
        store_some(sums + i, load_lanes(sums + i, to - i) + angle * change, to - i);
    }
}
