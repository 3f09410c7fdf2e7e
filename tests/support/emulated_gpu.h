/* emulated_gpu.h - kernels as C++ on the processor: each thread of a block is a fibre, and
 * fibres run in an order drawn at random from one barrier to the next, so that a barrier that is
 * missing shows. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#define __device__
#define __global__
#define __launch_bounds__(...)

struct three { unsigned x, y, z; };
static three threadIdx, blockIdx, blockDim, gridDim;

enum state { READY, AT_BLOCK, AT_WARP, DONE };
enum { STACK = 64 << 10 };
/* threads of a block or warp that have not ended; those at its barrier */
struct group { int live, waiting; };
struct block_of_threads {
    three place;
    group all;
    std::vector<group> warps;
    std::vector<uint64_t> lanes;
    char *memory;
};
struct fibre {
    ucontext_t context;
    state is;
    unsigned number;
    block_of_threads *block;
    std::unique_ptr<char[]> stack;
};

static ucontext_t scheduler;
static fibre *now;
static void (*body)(void *);
static void *body_arguments;

static void enter(fibre *f)
{
    now = f, threadIdx.x = f->number, blockIdx = f->block->place;
    swapcontext(&scheduler, &f->context);
}
static void leave(state is) { now->is = is, swapcontext(&now->context, &scheduler); }
static void pause_thread() { leave(READY); }
static void __syncthreads() { leave(AT_BLOCK); }
static void start() { body(body_arguments), leave(DONE); }

#define SPIN pause_thread()
#define BLOCK_MEMORY (now->block->memory)

template <class T>
T __shfl_xor_sync(unsigned, T v, int other)
{
    uint64_t *lanes = &now->block->lanes[now->number / 32 * 32];
    memcpy(&lanes[now->number % 32], &v, sizeof v);
    leave(AT_WARP);
    memcpy(&v, &lanes[(now->number % 32) ^ other], sizeof v);
    leave(AT_WARP);
    return v;
}
static void __syncwarp() { leave(AT_WARP); }
static unsigned __ballot_sync(unsigned, bool mine)
{
    unsigned mask = mine ? 1u << now->number % 32 : 0;
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

static void release(std::vector<fibre> &fibres, block_of_threads *block, int warp)
{
    group &g = warp < 0 ? block->all : block->warps[warp];
    if (!g.live || g.waiting < g.live)
        return;
    g.waiting = 0;
    for (fibre &f : fibres)
        if (f.block == block && f.is == (warp < 0 ? AT_BLOCK : AT_WARP) &&
            (warp < 0 || (int)f.number / 32 == warp))
            f.is = READY;
}

/* All threads of some blocks, until all have ended; 0, or 1 if none can go on. */
static int run_blocks(std::vector<block_of_threads> &blocks, unsigned threads, std::mt19937 &random)
{
    std::vector<fibre> fibres(blocks.size() * threads);
    for (size_t i = 0; i < fibres.size(); i++) {
        fibre &f = fibres[i];
        f.is = READY, f.number = i % threads, f.block = &blocks[i / threads],
        f.stack.reset(new char[STACK]);
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = f.stack.get(), f.context.uc_stack.ss_size = STACK,
        f.context.uc_link = NULL;
        makecontext(&f.context, start, 0);
    }
    for (;;) {
        std::vector<fibre *> ready;
        bool stuck = false;             /* if none is ready, though not all have ended */
        for (fibre &f : fibres) {
            if (f.is == READY)
                ready.push_back(&f);
            stuck |= f.is != DONE;
        }
        if (ready.empty())
            return stuck;
        std::shuffle(ready.begin(), ready.end(), random);
        for (fibre *f : ready) {
            enter(f);
            group &all = f->block->all, &warp = f->block->warps[f->number / 32];
            all.waiting += f->is == AT_BLOCK, warp.waiting += f->is == AT_WARP;
            all.live -= f->is == DONE, warp.live -= f->is == DONE;
            if (f->is != READY)
                release(fibres, f->block, f->number / 32), release(fibres, f->block, -1);
        }
    }
}

static int run_grid(const unsigned *grid, unsigned threads, size_t shared, int together,
                    unsigned seed)
{
    std::mt19937 random(seed);
    gridDim.x = grid[0], gridDim.y = grid[1], gridDim.z = 1, blockDim.x = threads,
    blockDim.y = blockDim.z = 1;
    unsigned each = together ? grid[0] : 1;
    for (unsigned y = 0; y < grid[1]; y++)
        for (unsigned x = 0; x < grid[0]; x += each) {
            std::vector<block_of_threads> blocks(each);
            for (unsigned b = 0; b < each; b++) {
                group warp = {32, 0};
                blocks[b].place = {x + b, y, 0}, blocks[b].all = {(int)threads, 0};
                blocks[b].warps.assign(threads / 32, warp), blocks[b].lanes.resize(threads);
                blocks[b].memory = (char *)aligned_alloc(64, (shared + 63) / 64 * 64 + 64);
                memset(blocks[b].memory, 0xFF, shared);         /* NaN: nobody may count on zeros */
            }
            int stuck = run_blocks(blocks, threads, random);
            for (block_of_threads &block : blocks)
                free(block.memory);
            if (stuck)
                return 1;
        }
    return 0;
}

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
