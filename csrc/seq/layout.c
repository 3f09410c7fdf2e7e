/* layout.c - images stay as the caller gives them, channel by channel. */
#include "../core.h"
#include <string.h>

static void image_in(real *to, const real *from, const int32_t shape[3])
{
    memcpy(to, from, (size_t)values(shape) * sizeof(real));
}

static void image_in_bytes(real *to, const uint8_t *from, const int32_t shape[3])
{
    for (int64_t k = 0; k < values(shape); k++)
        to[k] = (real)(BYTE_SCALE * from[k]);
}

static void image_out(real *to, const real *from, const int32_t shape[3])
{
    memcpy(to, from, (size_t)values(shape) * sizeof(real));
}
