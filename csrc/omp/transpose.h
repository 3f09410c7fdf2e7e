/* transpose.h - transposing in registers and of whole matrices. */
#ifndef NN_TRANSPOSE_H
#define NN_TRANSPOSE_H
#include "vector.h"

/* the values of two vectors in turn, within each 16 bytes, QUAD values, of them; and every other
 * 16 bytes of both */
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
#define FIRST_PAIRS PAIRS(0)
#define SECOND_PAIRS PAIRS(QUAD / 2)
#endif
#if defined(__clang__) || __GNUC__ >= 12
#define INTERLEAVE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define INTERLEAVE(a, b, ...) __builtin_shuffle(a, b, (ivec){__VA_ARGS__})
#endif

/* Rows `apart` from each other exchange half of what they have. */
#define EXCHANGE(row, apart, first, second) \
    _Pragma("GCC unroll 16") \
    for (int i = 0; i < VECTOR; i++) \
        if (!(i & (apart))) { \
            vec a = row[i], b = row[i + (apart)]; \
            row[i] = INTERLEAVE(a, b, first), row[i + (apart)] = INTERLEAVE(a, b, second); \
        }

/* row[j][i] = row[i][j]: within every 16 bytes, then these as a whole. Processors do that as
 * fast as they can move values at all, and some while they multiply. */
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
static void transpose(real *to, int64_t to_row, const real *from, int64_t from_row, int64_t m,
                      int64_t n)
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
                transpose_block(to + column * to_row + row, to_row, from + row * from_row + column,
                                from_row);
            }
    }
}
#endif
