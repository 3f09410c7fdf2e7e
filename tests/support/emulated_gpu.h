/* emulated_gpu.h - kernels as C++ on the processor: each thread of a block is a fibre, and
 * fibres run in an order drawn at random from one barrier to the next, so that a barrier that is
 * missing shows. emulated_gpu.cpp runs the fibres: it is compiled once, this with each kernel. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utility>

#define __device__
#define __global__
#define __launch_bounds__(...)

struct three { unsigned x, y, z; };
extern three threadIdx, blockIdx, blockDim, gridDim;

enum state { READY, AT_BLOCK, AT_WARP, DONE };
/* The fibre that runs goes to another; what its block and its warp share. */
void leave(state is);
char *block_memory();
uint64_t *warp_lanes();
/* What every fibre does; all blocks of a grid, 0, or 1 if no thread can go on. */
extern void (*body)(void *);
extern void *body_arguments;
int run_grid(const unsigned *grid, unsigned threads, size_t shared, int together, unsigned seed);

static void __syncthreads() { leave(AT_BLOCK); }

#define SPIN leave(READY)
#define BLOCK_MEMORY (block_memory())

template <class T>
T __shfl_xor_sync(unsigned, T v, int other)
{
    uint64_t *lanes = warp_lanes();
    unsigned lane = threadIdx.x % 32;
    memcpy(&lanes[lane], &v, sizeof v);
    leave(AT_WARP);
    memcpy(&v, &lanes[lane ^ other], sizeof v);
    leave(AT_WARP);
    return v;
}
static void __syncwarp() { leave(AT_WARP); }
static unsigned __ballot_sync(unsigned, bool mine)
{
    unsigned mask = mine ? 1u << threadIdx.x % 32 : 0;
    for (int other = 1; other < 32; other *= 2)
        mask |= __shfl_xor_sync(0xffffffffu, mask, other);
    return mask;
}
static int __popc(unsigned v) { return __builtin_popcount(v); }
static float __fmul_rn(float a, float b) { return a * b; }
static double __dmul_rn(double a, double b) { return a * b; }
static double __dadd_rn(double a, double b) { return a + b; }
static void sincospi(double x, double *sine, double *cosine)
{ *sine = sin(M_PI * x), *cosine = cos(M_PI * x); }
static void sincospif(float x, float *sine, float *cosine)
{ *sine = sin(M_PI * x), *cosine = cos(M_PI * x); }
static unsigned __umulhi(unsigned a, unsigned b) { return (uint64_t)a * b >> 32; }
static uint64_t __umul64hi(uint64_t a, uint64_t b) { return (unsigned __int128)a * b >> 64; }
static void __threadfence() {}
static unsigned atomicAdd(unsigned *p, unsigned v) { return (*p += v) - v; }
template <class T> T min(T a, T b) { return b < a ? b : a; }
template <class T> T max(T a, T b) { return a < b ? b : a; }

template <class... A, size_t... I>
void call(void (*kernel)(A...), void **arguments, std::index_sequence<I...>)
{ kernel(*(A *)arguments[I]...); }

template <class... A>
int launch(void (*kernel)(A...), const unsigned *grid, unsigned threads, size_t shared,
           int together, unsigned seed, void **arguments)
{
    static void (*kernel_now)(A...);
    kernel_now = kernel, body_arguments = arguments;
    body = [](void *a) { call(kernel_now, (void **)a, std::index_sequence_for<A...>()); };
    return run_grid(grid, threads, shared, together, seed);
}
