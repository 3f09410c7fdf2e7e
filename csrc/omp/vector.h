/* vector.h - vectors of VECTOR reals, as GCC and clang offer them on any processor, and elementary functions. */
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
typedef real vec_anywhere __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));

#define INLINE static inline __attribute__((always_inline))
#define APART static __attribute__((noinline))  /* has all registers to itself */

INLINE vec load(const real *from) { return *(const vec_anywhere *)from; }
INLINE void store(real *to, vec v) { *(vec_anywhere *)to = v; }
INLINE vec splat(real x) { return x - (vec){}; }
INLINE vec pick(ivec mask, vec yes, vec no) { return (vec)((mask & (ivec)yes) | (~mask & (ivec)no)); }
INLINE vec larger(vec a, vec b) { return pick(a > b, a, b); }
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

INLINE vec polynomial(vec x, const real *coefficients, int count)
{
    vec sum = splat(coefficients[0]);
    #pragma GCC unroll 20
    for (int i = 1; i < count; i++)
        sum = sum * x + coefficients[i];
    return sum;
}
#define POLYNOMIAL(x, ...) polynomial(x, (const real[]){__VA_ARGS__}, sizeof((real[]){__VA_ARGS__}) / sizeof(real))

/* x = n ln 2 + r, |r| <= ln 2 / 2: returns r, and 2^(n + lift) in *power. What is added to round n leaves n + lift and
 * the exponent's bias in the lowest bits, which are an exponent's field as soon as they are moved there; `lift` must
 * keep it within its bounds. */
INLINE vec reduce_v(vec x, int lift, vec *power)
{
#ifdef REAL_IS_FLOAT
    const real ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f, shift = 0x1.8p23f + 127 + (real)lift;
    const int mantissa = 23;
#else
    const real ln2_high = 0x1.62e42fee00000p-1, ln2_low = 0x1.a39ef35793c76p-33, shift = 0x1.8p52 + 1023 + (real)lift;
    const int mantissa = 52;
#endif
    vec shifted = x * (real)1.4426950408889634 + shift, n = shifted - shift;
    *power = (vec)((ivec)shifted << mantissa);
    return (x - n * ln2_high) - n * ln2_low;
}

/* exp(r) - 1, |r| <= ln 2 / 2 */
INLINE vec reduced_expm1_v(vec r)
{
#ifdef REAL_IS_FLOAT
    vec p = POLYNOMIAL(r, 1.381430930e-3f, 8.368856492e-3f, 4.166840161e-2f, 1.666651948e-1f, 4.999999337e-1f);
#else
    vec p = POLYNOMIAL(r, 1 / 6227020800.0, 1 / 479001600.0, 1 / 39916800.0, 1 / 3628800.0, 1 / 362880.0,
                       1 / 40320.0, 1 / 5040.0, 1 / 720.0, 1 / 120.0, 1 / 24.0, 1 / 6.0, 0.5);
#endif
    return (p * r) * r + r;
}

#ifdef REAL_IS_FLOAT
enum { LIFT = 24, LEAST_EXPONENT = -104 };      /* exp(LEAST_EXPONENT) is 0, and its power, lifted, still a number */
#else
enum { LIFT = 54, LEAST_EXPONENT = -746 };
#endif
static const real lifted = (real)((int64_t)1 << LIFT);

/* exp of a number that is not positive, which is all that is asked for here. The power is taken back by a
 * multiplication, so that results down to the smallest subnormal number come out right. A NaN stays one. */
INLINE vec exp_v(vec x)
{
    vec power, r = reduce_v(pick(x < LEAST_EXPONENT, splat(LEAST_EXPONENT), x), LIFT, &power);
    return (reduced_expm1_v(r) + 1) * power * (1 / lifted);
}

/* 1 / (1 + e), e = exp(-z), both sides of the fraction divided by 2^LIFT so that it serves where e is as large as it
 * gets. Less than -LIFT need no -z be: 1 + e is 1. The order of the sums keeps the result within 2 units in the last
 * place. */
INLINE vec sigmoid_v(vec z)
{
    const real one = 1 / lifted;
    vec x = pick(z < LEAST_EXPONENT, splat(-LEAST_EXPONENT), -z), power;
    vec r = reduce_v(pick(x < -LIFT, splat(-LIFT), x), -LIFT, &power);
    return one / ((reduced_expm1_v(r) * power + one) + power);
}

/* log(1 + e) for 0 <= e <= 1, as 2 atanh(s), s = e / (2 + e): its series in s^2 <= 1/9. Since 2 s = e - e s,
 * the result is e less a correction, and keeps e's digits where e is small. */
INLINE vec log1p_v(vec e)
{
    vec s = e / (2 + e), q = s * s;
#ifdef REAL_IS_FLOAT
    vec p = POLYNOMIAL(q, 1 / 17.f, 1 / 15.f, 1 / 13.f, 1 / 11.f, 1 / 9.f, 1 / 7.f, 1 / 5.f, 1 / 3.f);
#else
    vec p = POLYNOMIAL(q, 1 / 35.0, 1 / 33.0, 1 / 31.0, 1 / 29.0, 1 / 27.0, 1 / 25.0, 1 / 23.0, 1 / 21.0,
                       1 / 19.0, 1 / 17.0, 1 / 15.0, 1 / 13.0, 1 / 11.0, 1 / 9.0, 1 / 7.0, 1 / 5.0, 1 / 3.0);
#endif
    return e - s * (e - 2 * (q * p));
}

INLINE vec softplus_v(vec z) { return positive_part(z) + log1p_v(exp_v(minus_size_of(z))); }

/* Near 0 a polynomial (Cephes), elsewhere (1 - e) / (1 + e) with e = exp(-2 |x|). */
INLINE vec tanh_v(vec x)
{
    vec size = size_of(x), q = x * x, e = exp_v(-2 * size);
    vec far = (1 - e) / (1 + e);
#ifdef REAL_IS_FLOAT
    vec near = size + size * (q * POLYNOMIAL(q, -5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
                                             1.33314422036e-1f, -3.33332819422e-1f));
#else
    vec near = size + size * (q * (POLYNOMIAL(q, -9.64399179425052238628e-1, -9.92877231001918586564e1,
                                              -1.61468768441708447952e3)
                                   / POLYNOMIAL(q, 1.0, 1.12811678491632931402e2, 2.23548839060100448583e3,
                                                4.84406305325125486048e3)));
#endif
    return (vec)((ivec)pick(size < (real)0.625, near, far) | (ivec)sign_of(x));
}

/* a = f(z), one vector; softmax is not of this kind. */
INLINE vec activation_v(int activation, vec z)
{
    switch (activation) {
    case NN_SIGMOID: return sigmoid_v(z);
    case NN_TANH: return tanh_v(z);
    case NN_RELU: return pick(z <= 0, (vec){}, z);      /* a NaN stays one */
    case NN_LRELU: return pick(z > 0, z, (real)0.01 * z);
    case NN_SOFTPLUS: return softplus_v(z);
    default: return z;
    }
}

/* A call with the activation as a constant, so that a loop in it does not ask at every vector; not for softmax. */
#define FOR_ACTIVATION(activation, call, ...) \
    switch (activation) { \
    case NN_SIGMOID: call(NN_SIGMOID, __VA_ARGS__); break; \
    case NN_TANH: call(NN_TANH, __VA_ARGS__); break; \
    case NN_RELU: call(NN_RELU, __VA_ARGS__); break; \
    case NN_LRELU: call(NN_LRELU, __VA_ARGS__); break; \
    case NN_SOFTPLUS: call(NN_SOFTPLUS, __VA_ARGS__); break; \
    default: call(NN_LINEAR, __VA_ARGS__); \
    }

/* f'(z) from a = f(z), times d. */
INLINE vec slope_v(int activation, vec a, vec d)
{
    switch (activation) {
    case NN_SIGMOID: return d * (a * (1 - a));
    case NN_TANH: return d * (1 - a * a);
    case NN_RELU: return (vec)((a > 0) & (ivec)d);
    case NN_LRELU: return pick(a > 0, d, (real)0.01 * d);
    case NN_SOFTPLUS: return d * (1 - exp_v(-a));
    default: return d;
    }
}

/* The optimiser's constants in the number type at hand: small ones, since 1 - 0.00015 or 0.999 as a float would be
 * off by as much as a thousand steps can make visible. */
typedef struct {
    int optimizer;
    real rate, inv_rows, momentum, gain1, gain2, epsilon, root_scale, decay;    /* gain: 1 - beta */
} step_constants;

INLINE step_constants step_of(const update *u, int decays)
{
    return (step_constants){
        u->optimizer, (real)u->rate, (real)u->inv_rows, (real)u->momentum, (real)(1 - u->beta1),
        (real)(1 - u->beta2), (real)u->epsilon, (real)u->root_scale, (real)(decays ? u->decay : 0),
    };
}

/* One step of VECTOR weights at w with the summed gradient g. */
INLINE void step_v(real *w, vec g, real *m, real *v, const step_constants *s)
{
    vec change;
    if (s->optimizer == NN_ADAM) {
        vec mean = g * s->inv_rows;
        vec first = load(m) + s->gain1 * (mean - load(m));
        vec second = load(v) + s->gain2 * (mean * mean - load(v));
        store(m, first);
        store(v, second);
        change = s->rate * first / (root(second) * s->root_scale + s->epsilon);
    } else if (s->momentum != 0) {
        vec velocity = s->momentum * load(m) + g * s->inv_rows;
        store(m, velocity);
        change = s->rate * velocity;
    } else {
        change = s->rate * g;
    }
    store(w, load(w) - (s->decay * load(w) + change));
}

/* ---- transposing ---- */

#if VECTOR == 16
#define LOW_HALVES 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_HALVES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif VECTOR == 8
#define LOW_HALVES 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_HALVES 4, 12, 5, 13, 6, 14, 7, 15
#elif VECTOR == 4
#define LOW_HALVES 0, 4, 1, 5
#define HIGH_HALVES 2, 6, 3, 7
#else
#define LOW_HALVES 0, 2
#define HIGH_HALVES 1, 3
#endif
/* the same within each 16 bytes, PART values, of two vectors; and every other 16 bytes of both */
#ifdef REAL_IS_FLOAT
#define PART 4
#define PAIRS(at) at, VECTOR + at, at + 1, VECTOR + at + 1
#define WHOLE(at) at, at + 1, at + 2, at + 3
#else
#define PART 2
#define PAIRS(at) at, VECTOR + at
#define WHOLE(at) at, at + 1
#endif
#if VECTOR_BYTES == 64
#define FIRST_PAIRS PAIRS(0), PAIRS(PART), PAIRS(2 * PART), PAIRS(3 * PART)
#define SECOND_PAIRS PAIRS(PART / 2), PAIRS(3 * PART / 2), PAIRS(5 * PART / 2), PAIRS(7 * PART / 2)
#define EVEN_PARTS WHOLE(0), WHOLE(2 * PART), WHOLE(4 * PART), WHOLE(6 * PART)
#define ODD_PARTS WHOLE(PART), WHOLE(3 * PART), WHOLE(5 * PART), WHOLE(7 * PART)
#elif VECTOR_BYTES == 32
#define FIRST_PAIRS PAIRS(0), PAIRS(PART)
#define SECOND_PAIRS PAIRS(PART / 2), PAIRS(3 * PART / 2)
#define EVEN_PARTS WHOLE(0), WHOLE(2 * PART)
#define ODD_PARTS WHOLE(PART), WHOLE(3 * PART)
#else
#define FIRST_PAIRS LOW_HALVES
#define SECOND_PAIRS HIGH_HALVES
#endif
#if defined(__clang__) || __GNUC__ >= 12
#define INTERLEAVE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define INTERLEAVE(a, b, ...) __builtin_shuffle(a, b, (ivec){__VA_ARGS__})
#endif
enum { MOST_WOVEN = VECTOR > 8 ? VECTOR : 8 };

/* A vector of each of c runs, c a power of 2, becomes c vectors in which what stood at one place stands together. */
INLINE void weave(const int c, vec v[])
{
    #pragma GCC unroll 4
    for (int width = c; width > 1; width /= 2) {
        vec next[MOST_WOVEN];
        #pragma GCC unroll 16
        for (int i = 0; i < c / 2; i++) {
            next[2 * i] = INTERLEAVE(v[i], v[i + c / 2], LOW_HALVES);
            next[2 * i + 1] = INTERLEAVE(v[i], v[i + c / 2], HIGH_HALVES);
        }
        #pragma GCC unroll 16
        for (int i = 0; i < c; i++)
            v[i] = next[i];
    }
}

/* Rows `apart` from each other exchange half of what they have. */
#define EXCHANGE(row, apart, first, second) \
    _Pragma("GCC unroll 16") \
    for (int i = 0; i < VECTOR; i++) \
        if (!(i & (apart))) { \
            vec a = row[i], b = row[i + (apart)]; \
            row[i] = INTERLEAVE(a, b, first), row[i + (apart)] = INTERLEAVE(a, b, second); \
        }

/* row[j][i] = row[i][j]: within every 16 bytes, then these as a whole. Processors do that as fast as they can move
 * values at all, and some while they multiply; weave takes them twice as long. */
INLINE void turn(vec row[VECTOR])
{
#ifdef REAL_IS_FLOAT
    EXCHANGE(row, 2, FIRST_PAIRS, SECOND_PAIRS)
#endif
    EXCHANGE(row, 1, FIRST_PAIRS, SECOND_PAIRS)
#if VECTOR_BYTES >= 32
    EXCHANGE(row, PART, EVEN_PARTS, ODD_PARTS)
#endif
#if VECTOR_BYTES == 64
    EXCHANGE(row, 2 * PART, EVEN_PARTS, ODD_PARTS)
#endif
}

/* VECTOR x VECTOR numbers: to[j][i] = from[i][j]. */
INLINE void transpose_block(real *to, int64_t to_row, const real *from, int64_t from_row)
{
    vec row[VECTOR];
    #pragma GCC unroll 16
    for (int i = 0; i < VECTOR; i++)
        row[i] = load(from + i * from_row);
    turn(row);
    #pragma GCC unroll 16
    for (int i = 0; i < VECTOR; i++)
        store(to + i * to_row, row[i]);
}

/* to (n, m) = from (m, n) transposed; few rows, or columns, one by one */
static void transpose(real *to, int64_t to_row, const real *from, int64_t from_row, int64_t m, int64_t n)
{
    if (m < VECTOR) {
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                to[j * to_row + i] = from[i * from_row + j];
    } else if (n < VECTOR) {
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = 0; i < m; i++)
                to[j * to_row + i] = from[i * from_row + j];
    } else {
        for (int64_t i = 0; i < m; i += VECTOR)         /* the last blocks overlap those before */
            for (int64_t j = 0; j < n; j += VECTOR) {
                int64_t row = min_i64(i, m - VECTOR), column = min_i64(j, n - VECTOR);
                transpose_block(to + column * to_row + row, to_row, from + row * from_row + column, from_row);
            }
    }
}
#endif
