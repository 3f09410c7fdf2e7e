/* matrix.c - the matrix product of the plain build: one sum after another, in index order, in
 * double. */
#include "../core.h"

int FN(matmul)(real *c, const real *a, const real *b, int64_t m, int64_t n, int64_t k,
               int a_transposed, int b_transposed, int threads)
{
    (void)threads;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += (double)(a_transposed ? a[p * m + i] : a[i * k + p])
                     * (b_transposed ? b[j * k + p] : b[p * n + j]);
            c[i * n + j] = (real)sum;
        }
    return 0;
}
