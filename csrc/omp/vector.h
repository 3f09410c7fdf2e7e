/* vector.h - vectors of VECTOR reals, as GCC and clang offer them on any processor, load, store
 * and masks. */
#ifndef NN_VECTOR_H
#define NN_VECTOR_H
#include "../common.h"
#include <math.h>
#include <string.h>

#ifdef REAL_IS_FLOAT
typedef int32_t integer;
#else
typedef int64_t integer;
#endif
typedef real vec __attribute__((vector_size(VECTOR_BYTES)));
typedef integer ivec __attribute__((vector_size(VECTOR_BYTES)));
typedef real vec_anywhere
    __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));

#define INLINE static inline __attribute__((always_inline))
#define APART static __attribute__((noinline))

INLINE vec load(const real *from) { return *(const vec_anywhere *)from; }

/* A vector of which the first n lanes count: those after them, past the end of an image or of a
 * share, may be another thread's. The thread sanitizer sees what counts, and no more. */
INLINE vec load_lanes(const real *from, int64_t n)
{
#ifdef __SANITIZE_THREAD__
    vec v = {};
    for (int64_t i = 0; i < min_i64(n, VECTOR); i++)
        v[i] = from[i];
    return v;
#else
    (void)n;
    return load(from);
#endif
}

INLINE void store(real *to, vec v) { *(vec_anywhere *)to = v; }
INLINE vec splat(real x) { return x - (vec){}; }
INLINE vec pick(ivec mask, vec yes, vec no)
{ return (vec)((mask & (ivec)yes) | (~mask & (ivec)no)); }
INLINE vec positive_part(vec a) { return (vec)((a > (vec){}) & (ivec)a); }
INLINE vec size_of(vec a) { return (vec)((ivec)a & ~(ivec)splat((real)-0.0)); }
INLINE vec minus_size_of(vec a) { return (vec)((ivec)a | (ivec)splat((real)-0.0)); }
INLINE vec sign_of(vec a) { return (vec)((ivec)a & (ivec)splat((real)-0.0)); }

INLINE vec root(vec a)
{
    vec out;
    for (int i = 0; i < VECTOR; i++)
        out[i] = sizeof(real) == 4 ? (real)sqrtf((float)a[i]) : (real)sqrt((double)a[i]);
    return out;
}

/* As memcpy, which takes longer to be called than to copy a short row. */
INLINE void copy_values(real *to, const real *from, int64_t n)
{
    int64_t k = 0;
    for (; k + VECTOR <= n; k += VECTOR)
        store(to + k, load(from + k));
    if (n > VECTOR)
        store(to + n - VECTOR, load(from + n - VECTOR));
    else if (n == 1)
        *to = *from;
    else if (k < n)
        memcpy(to, from, (size_t)n * sizeof(real));
}

/* The first n values of v, at most all of them: in pieces of known sizes. */
INLINE void store_some(real *to, vec v, int64_t n)
{
    real part[VECTOR];
    int64_t k = 0;
    if (n >= VECTOR) {
        store(to, v);
        return;
    }
    store(part, v);
    #pragma GCC unroll 5
    for (int64_t width = VECTOR / 2; width > 0; width /= 2)
        if (n & width) {
            memcpy(to + k, part + k, (size_t)width * sizeof(real));
            k += width;
        }
}

/* The sum of a vector's elements, in halves: an order of its own, the same everywhere. */
INLINE real sum_of(vec a)
{
    real part[VECTOR];
    store(part, a);
    for (int width = VECTOR / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            part[i] += part[i + width];
    return part[0];
}
#endif
