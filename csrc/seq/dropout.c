/* dropout.c - rows of ../plain.c, value by value. */
#include "../core.h"

static int64_t dropout_scratch(const nn_layer *spec, int64_t n)
{
    (void)spec, (void)n;
    return 0;
}

static void dropout_row(const layer *l, real *to, const real *from, int64_t r, const batch *b)
{
    const double threshold = l->spec.rate * 0x1p32;
    const real scale = (real)(1 / (1 - l->spec.rate));
    int64_t e = (b->first_row + r) * l->inputs;
    uint32_t word[4];
    for (int64_t k = 0; k < l->inputs; k++, e++) {
        if (k == 0 || e % 4 == 0)
            philox(word, b->seed, (uint32_t)(e / 4), (uint32_t)(e / 4 >> 32), (uint32_t)b->step,
                   (uint32_t)l->index);
        to[k] = word[e % 4] >= threshold ? from[k] * scale : 0;
    }
}
