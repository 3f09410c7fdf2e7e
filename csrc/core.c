/* core.c - the core for one number type: build.py compiles it once per type (and, for _omp, per
 * instruction set) with `real`, FN and VECTOR defined. All files are one translation unit, so
 * that the compiler inlines across them.
 *
 * The order matters: a file calls the static functions of the files above it; `uses:` in its
 * first comment names them. core.h declares the few that are called from above. Every file
 * includes core.h, so that an editor can read it.
 */
#include "core.h"
#include "layer_common.c"
#include "quantiles.c"

/* ---- the kernels: fast, or plain ---- */
#ifdef NN_FAST
#include "omp/nn_aux.c"
#include "omp/matrix_kernel.c"
#include "omp/matrix.c"
#include "omp/dense_narrow.c"
#include "omp/dense_scaled.c"
#include "omp/dense.c"
#include "omp/layout.c"
#include "omp/conv_direct.c"
#include "omp/conv_winograd.c"
#include "omp/conv_planes.c"
#include "omp/conv.c"
#include "omp/pool.c"
#include "omp/dropout.c"
#include "omp/waves.c"
#else
#include "seq/nn_aux.c"
#include "seq/matrix.c"
#include "seq/dense.c"
#include "seq/layout.c"
#include "seq/conv.c"
#include "seq/pool.c"
#include "seq/dropout.c"
#include "seq/waves.c"
#endif
#include "plain.c"
#include "embedding.c"

/* ---- a network, and one batch through it ---- */
#include "buffers.c"
#include "threads.c"
#include "net.c"
#include "ranks.c"
#include "pass.c"
#include "fused.c"
#include "micro_batch.c"
#include "train.c"
#include "route.c"
#include "test.c"
#include "pack.c"
#include "walk.c"
