/* transpose.h - transposing in registers and of whole matrices, interleaving and its inverse. */
#ifndef NN_TRANSPOSE_H
#define NN_TRANSPOSE_H
#include "vector.h"

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
/* the same within each 16 bytes, QUAD values, of two vectors; and every other 16 bytes of both */
#ifdef REAL_IS_FLOAT
#define QUAD 4
#define PAIRS(at) at, VECTOR + at, at + 1, VECTOR + at + 1
#define WHOLE(at) at, at + 1, at + 2, at + 3
#else
#define QUAD 2
#define PAIRS(at) at, VECTOR + at
#define WHOLE(at) at, at + 1
#endif
#if VECTOR_BYTES == 64
#define FIRST_PAIRS PAIRS(0), PAIRS(QUAD), PAIRS(2 * QUAD), PAIRS(3 * QUAD)
#define SECOND_PAIRS PAIRS(QUAD / 2), PAIRS(3 * QUAD / 2), PAIRS(5 * QUAD / 2), PAIRS(7 * QUAD / 2)
#define EVEN_QUADS WHOLE(0), WHOLE(2 * QUAD), WHOLE(4 * QUAD), WHOLE(6 * QUAD)
#define ODD_QUADS WHOLE(QUAD), WHOLE(3 * QUAD), WHOLE(5 * QUAD), WHOLE(7 * QUAD)
#elif VECTOR_BYTES == 32
#define FIRST_PAIRS PAIRS(0), PAIRS(QUAD)
#define SECOND_PAIRS PAIRS(QUAD / 2), PAIRS(3 * QUAD / 2)
#define EVEN_QUADS WHOLE(0), WHOLE(2 * QUAD)
#define ODD_QUADS WHOLE(QUAD), WHOLE(3 * QUAD)
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

/* Interleaves a vector of each of c runs, c a power of 2: values at the same index become neighbours. */
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

#if VECTOR == 16
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#elif VECTOR == 8
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ODD 1, 3, 5, 7, 9, 11, 13, 15
#elif VECTOR == 4
#define EVEN 0, 2, 4, 6
#define ODD 1, 3, 5, 7
#else
#define EVEN 0, 2
#define ODD 1, 3
#endif

/* Undoes weave: c vectors of whole pixels become a vector of each plane. */
INLINE void unweave(const int c, vec v[])
{
    #pragma GCC unroll 3
    for (int width = c; width > 1; width /= 2) {
        vec next[MOST_WOVEN];
        #pragma GCC unroll 4
        for (int i = 0; i < c / 2; i++) {
            next[i] = INTERLEAVE(v[2 * i], v[2 * i + 1], EVEN);
            next[i + c / 2] = INTERLEAVE(v[2 * i], v[2 * i + 1], ODD);
        }
        #pragma GCC unroll 8
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
INLINE void transpose_in_registers(vec row[VECTOR])
{
#ifdef REAL_IS_FLOAT
    EXCHANGE(row, 2, FIRST_PAIRS, SECOND_PAIRS)
#endif
    EXCHANGE(row, 1, FIRST_PAIRS, SECOND_PAIRS)
#if VECTOR_BYTES >= 32
    EXCHANGE(row, QUAD, EVEN_QUADS, ODD_QUADS)
#endif
#if VECTOR_BYTES == 64
    EXCHANGE(row, 2 * QUAD, EVEN_QUADS, ODD_QUADS)
#endif
}

/* VECTOR x VECTOR numbers: to[j][i] = from[i][j]. */
INLINE void transpose_block(real *to, int64_t to_row, const real *from, int64_t from_row)
{
    vec row[VECTOR];
    #pragma GCC unroll 16
    for (int i = 0; i < VECTOR; i++)
        row[i] = load(from + i * from_row);
    transpose_in_registers(row);
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
