/* vector_math.h - exp, sigmoid, tanh, softplus, sine, cosine and the normal distribution of
 * vectors. */
#ifndef NN_VECTOR_MATH_H
#define NN_VECTOR_MATH_H
#include "vector.h"

INLINE vec polynomial(vec x, const real *coefficients, int count)
{
    vec sum = splat(coefficients[0]);
    #pragma GCC unroll 24
    for (int i = 1; i < count; i++)
        sum = sum * x + coefficients[i];
    return sum;
}
#define POLYNOMIAL(x, ...)                                                                         \
    polynomial(x, (const real[]){__VA_ARGS__}, sizeof((real[]){__VA_ARGS__}) / sizeof(real))

/* x = n ln 2 + r, |r| <= ln 2 / 2: returns r, and 2^(n + lift) in *power. What is added to round
 * n leaves n + lift and the exponent's bias in the lowest bits, which are an exponent's field as
 * soon as they are moved there; `lift` must keep it within its bounds. */
INLINE vec reduce_v(vec x, int lift, vec *power)
{
#ifdef REAL_IS_FLOAT
    const real ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f,
               shift = 0x1.8p23f + 127 + (real)lift;
    const int mantissa = 23;
#else
    const real ln2_high = 0x1.62e42fee00000p-1, ln2_low = 0x1.a39ef35793c76p-33,
               shift = 0x1.8p52 + 1023 + (real)lift;
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
    vec p = POLYNOMIAL(r, 1.381430930e-3f, 8.368856492e-3f, 4.166840161e-2f, 1.666651948e-1f,
                       4.999999337e-1f);
#else
    vec p = POLYNOMIAL(r, 1 / 6227020800.0, 1 / 479001600.0, 1 / 39916800.0, 1 / 3628800.0,
                       1 / 362880.0, 1 / 40320.0, 1 / 5040.0, 1 / 720.0, 1 / 120.0, 1 / 24.0,
                       1 / 6.0, 0.5);
#endif
    return (p * r) * r + r;
}

#ifdef REAL_IS_FLOAT
/* exp(LEAST_EXPONENT) is 0, and its power, lifted, still a number */
enum { LIFT = 24, LEAST_EXPONENT = -104 };
#else
enum { LIFT = 54, LEAST_EXPONENT = -746 };
#endif
static const real lifted = (real)((int64_t)1 << LIFT);

/* exp of a number that is not positive, which is all that is asked for here. The power is taken
 * back by a multiplication, so that results down to the smallest subnormal number come out
 * right. A NaN stays one. */
INLINE vec exp_v(vec x)
{
    vec power, r = reduce_v(pick(x < LEAST_EXPONENT, splat(LEAST_EXPONENT), x), LIFT, &power);
    return (reduced_expm1_v(r) + 1) * power * (1 / lifted);
}

/* exp of any number, infinite where it is beyond the type. */
INLINE vec exp_any_v(vec x)
{
    const real infinite = sizeof(real) == 4 ? 89 : 710;         /* its exp is */
    vec power, r = reduce_v(pick(x > infinite, splat(infinite), positive_part(x)), -1, &power);
    return pick(x > 0, (reduced_expm1_v(r) + 1) * power * 2, exp_v(x));
}

/* 1 / (1 + e), e = exp(-z), both sides of the fraction divided by 2^LIFT so that it serves where
 * e is as large as it gets. Less than -LIFT need no -z be: 1 + e is 1. The order of the sums
 * keeps the result within 2 units in the last place. */
INLINE vec lifted_one_plus_exp_v(vec z)
{
    vec x = pick(z < LEAST_EXPONENT, splat(-LEAST_EXPONENT), -z), power;
    vec r = reduce_v(pick(x < -LIFT, splat(-LIFT), x), -LIFT, &power);
    return (reduced_expm1_v(r) * power + 1 / lifted) + power;
}

INLINE vec sigmoid_v(vec z) { return 1 / lifted / lifted_one_plus_exp_v(z); }

/* z sigmoid(z) with one rounding less. Near 0 the lifted numerator would be subnormal. */
INLINE vec silu_v(vec z)
{
    vec value =
        pick(size_of(z) < (real)1e-20, (real)0.5 * z, z * (1 / lifted) / lifted_one_plus_exp_v(z));
    return pick(z < LEAST_EXPONENT, (vec){}, value);
}

/* log(1 + e) for 0 <= e <= 1, as 2 atanh(s), s = e / (2 + e): its series in s^2 <= 1/9. Since 2
 * s = e - e s, the result is e less a correction, and keeps e's digits where e is small. */
INLINE vec log1p_v(vec e)
{
    vec s = e / (2 + e), q = s * s;
#ifdef REAL_IS_FLOAT
    vec p =
        POLYNOMIAL(q, 1 / 17.f, 1 / 15.f, 1 / 13.f, 1 / 11.f, 1 / 9.f, 1 / 7.f, 1 / 5.f, 1 / 3.f);
#else
    vec p = POLYNOMIAL(q, 1 / 35.0, 1 / 33.0, 1 / 31.0, 1 / 29.0, 1 / 27.0, 1 / 25.0, 1 / 23.0,
                       1 / 21.0, 1 / 19.0, 1 / 17.0, 1 / 15.0, 1 / 13.0, 1 / 11.0, 1 / 9.0, 1 / 7.0,
                       1 / 5.0, 1 / 3.0);
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
    vec near =
        size + size * (q * POLYNOMIAL(q, -5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
                                      1.33314422036e-1f, -3.33332819422e-1f));
#else
    vec near =
        size + size * (q * (POLYNOMIAL(q, -9.64399179425052238628e-1, -9.92877231001918586564e1,
                                       -1.61468768441708447952e3) /
                            POLYNOMIAL(q, 1.0, 1.12811678491632931402e2, 2.23548839060100448583e3,
                                       4.84406305325125486048e3)));
#endif
    return (vec)((ivec)pick(size < (real)0.625, near, far) | (ivec)sign_of(x));
}

/* exp(x) - 1 for x that is not positive. */
INLINE vec expm1_v(vec x)
{
    vec power, r = reduce_v(pick(x < LEAST_EXPONENT, splat(LEAST_EXPONENT), x), LIFT, &power);
    return reduced_expm1_v(r) * power * (1 / lifted) + (power * (1 / lifted) - 1);
}

/* f v turns without the whole ones: from -1/2 to 1/2. The product is not rounded first where the
 * processor multiplies and adds in one operation. The number that is added to round leaves no
 * bits for a fraction. */
INLINE vec turns_left_v(vec f, vec v)
{
    const real shift = 3 * (real)FRACTIONLESS;
    vec whole = (f * v + shift) - shift, left = f * v - whole;
    return pick(size_of(whole) >= (real)FRACTIONLESS, (vec){}, left);
}

/* sin(2 pi r) and cos(2 pi r), |r| <= 1/2. Beyond a quarter 1/2 - |r| has the same sine, and
 * minus the cosine. The polynomials are minimax, off by at most 5e-9 (4e-18). */
INLINE void sine_cosine_v(vec r, vec *sine, vec *cosine)
{
    ivec beyond = size_of(r) > (real)0.25, signs = beyond & (ivec)splat((real)-0.0);
    vec half = (vec)((ivec)splat((real)0.5) | (ivec)sign_of(r)), near = pick(beyond, half - r, r),
        q = near * near;
#ifdef REAL_IS_FLOAT
    *sine = near * POLYNOMIAL(q, 39.7109184f, -76.5749922f, 81.6022312f, -41.3416775f, 6.28318527f);
    vec size =
        POLYNOMIAL(q, -25.0067974f, 60.1482051f, -85.4538307f, 64.9393536f, -19.7392086f, 1.0f);
#else
    *sine =
        near * POLYNOMIAL(q, 0.10085633036793827674, -0.71772358005240099238, 3.8199270504679103805,
                          -15.094641620509320134, 42.058693923785214191, -76.705859752798497043,
                          81.605249276073406089, -41.341702240399756229, 6.2831853071795864753);
    vec size = POLYNOMIAL(q, 0.2720235639806754545, -1.7132389556311552238, 7.9034647260533095954,
                          -26.42625419538010874, 60.244641317372521654, -85.456817206058522093,
                          64.939394022664710867, -19.739208802178710338, 1.0);
#endif
    *cosine = (vec)((ivec)size ^ signs);
}

/* exp(-u^2 / 2) for 0 <= u <= NORMAL_END: the rounding error of u^2, found with u in two parts,
 * goes in afterwards. */
#ifdef REAL_IS_FLOAT
enum { NORMAL_END = 15, LOW_BITS = 12 };        /* exp(-NORMAL_END^2 / 2) is 0 */
#else
enum { NORMAL_END = 39, LOW_BITS = 27 };
#endif
INLINE vec exp_half_square_v(vec u)
{
    vec square = u * u, high = (vec)((ivec)u >> LOW_BITS << LOW_BITS), low = u - high;
    vec error = ((high * high - square) + 2 * high * low) + low * low;
    vec e = exp_v((real)-0.5 * square);
    return e - (real)0.5 * error * e;
}

INLINE vec normal_size_v(vec z)
{ return pick(size_of(z) > NORMAL_END, splat(NORMAL_END), size_of(z)); }

/* The density of the standard normal distribution. */
INLINE vec normal_density_v(vec z)
{ return exp_half_square_v(normal_size_v(z)) * (real)0.39894228040143267794; }

/* The share of the standard normal distribution below z. With u = |z| and t = 1 / (1 + c u) the
 * share beyond u is exp(-u^2 / 2) t h(t); h is a polynomial through erfc at the Chebyshev points
 * of t, off by at most 5e-9 (4e-17). */
INLINE vec normal_cdf_v(vec z)
{
    vec u = normal_size_v(z);
#ifdef REAL_IS_FLOAT
    vec t = 1 / (1 + (real)0.3 * u);
    vec h = POLYNOMIAL(t, -2.098466936e-2f, 1.144021119e-1f, -2.328354831e-1f, 1.979216441e-1f,
                       -8.448128252e-2f, 9.883084131e-2f, 7.748577065e-2f, 1.104231966e-1f,
                       1.195501183e-1f, 1.196877502e-1f);
#else
    vec t = 1 / (1 + (real)0.25 * u);
    vec h = POLYNOMIAL(t, -1.01223502134415245e-3, 1.10964718801845975e-2, -5.44062829135609575e-2,
                       1.54442451647484790e-1, -2.69917796971445161e-1, 2.67027721904809722e-1,
                       -4.92229037909128199e-2, -2.75482563525884853e-1, 4.77880503196977297e-1,
                       -4.67031051616186782e-1, 3.31785614012958678e-1, -1.75929461657092221e-1,
                       6.80096565489384869e-2, -3.07224183213096206e-2, 3.26969638365547467e-3,
                       5.86496337955664926e-3, 2.36160194790060257e-2, 4.32172561306731599e-2,
                       6.35061477689974213e-2, 8.10349656839141064e-2, 9.35021058572346633e-2,
                       9.97355698394688716e-2, 9.97355701038766198e-2);
#endif
    vec beyond = exp_half_square_v(u) * (t * h);
    return pick(z < 0, beyond, 1 - beyond);
}

INLINE vec gelu_v(vec z) { return pick(z < -NORMAL_END, (vec){}, z * normal_cdf_v(z)); }
#endif
