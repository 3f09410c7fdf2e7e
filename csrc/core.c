/* core.c - the core for one number type: build.py compiles it once per type (and, for _omp, instruction set)
 * with `real`, FN and VECTOR defined. The fast build takes its own files where a faster algorithm differs. */
#include "core.h"
#ifdef NN_FAST
#include "omp/vector.h"
#include "omp/nn_aux.c"
#include "omp/matrix.c"
#include "omp/narrow.c"
#include "omp/dense.c"
#include "omp/layout.c"
#include "omp/windows.c"
#include "omp/winograd.c"
#include "omp/conv.c"
#include "omp/pool.c"
#include "omp/dropout.c"
#else
#include "nn_aux.c"
#include "matrix.c"
#include "dense.c"
#include "layout.c"
#include "conv.c"
#include "pool.c"
#include "dropout.c"
#endif
#include "pad.c"
#include "flatten.c"
#include "net.c"
#include "train.c"
#include "test.c"
