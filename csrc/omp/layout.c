/* layout.c - images are channels-last inside: the channels of a pixel lie together. */
#include "../core.h"
#include "transpose.h"

/* Images of one channel or of one pixel look the same either way. */
static int same_layout(const int32_t shape[3])
{ return shape[0] == 1 || (int64_t)shape[1] * shape[2] == 1; }

/* Three channels, as pictures have: a constant lets the compiler make vectors of it. */
static void three_in(real *restrict to, const real *restrict from, int64_t pixels)
{
    for (int64_t p = 0; p < pixels; p++)
        for (int64_t c = 0; c < 3; c++)
            to[3 * p + c] = from[c * pixels + p];
}

static void image_in(real *to, const real *from, const int32_t shape[3])
{
    int64_t channels = shape[0], pixels = (int64_t)shape[1] * shape[2];
    if (same_layout(shape))
        copy_values(to, from, values(shape));
    else if (channels == 3)
        three_in(to, from, pixels);
    else
        transpose(to, channels, from, pixels, channels, pixels);
}

static void image_in_bytes(real *to, const uint8_t *from, const int32_t shape[3])
{
    int64_t channels = shape[0], pixels = (int64_t)shape[1] * shape[2];
    for (int64_t c = 0; c < channels; c++, to++, from += pixels)
        for (int64_t p = 0; p < pixels; p++)
            to[p * channels] = (real)(BYTE_SCALE * from[p]);
}

static void image_out(real *to, const real *from, const int32_t shape[3])
{
    int64_t channels = shape[0], pixels = (int64_t)shape[1] * shape[2];
    if (same_layout(shape))
        copy_values(to, from, values(shape));
    else
        transpose(to, pixels, from, channels, pixels, channels);
}
