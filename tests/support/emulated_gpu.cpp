/* emulated_gpu.cpp - the fibres of emulated_gpu.h: in an order drawn at random. */
#include "emulated_gpu.h"
#include <ucontext.h>
#include <algorithm>
#include <memory>
#include <random>
#include <vector>

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
void (*body)(void *);
void *body_arguments;
three threadIdx, blockIdx, blockDim, gridDim;

static void enter(fibre *f)
{
    now = f, threadIdx.x = f->number, blockIdx = f->block->place;
    swapcontext(&scheduler, &f->context);
}
void leave(state is) { now->is = is, swapcontext(&now->context, &scheduler); }
char *block_memory() { return now->block->memory; }
uint64_t *warp_lanes() { return &now->block->lanes[now->number / 32 * 32]; }
static void start() { body(body_arguments), leave(DONE); }

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

int run_grid(const unsigned *grid, unsigned threads, size_t shared, int together, unsigned seed)
{
    std::mt19937 random(seed);
    gridDim.x = grid[0], gridDim.y = grid[1], gridDim.z = 1, blockDim.x = threads,
    blockDim.y = blockDim.z = 1;
    unsigned each = together ? grid[0] : 1;
    for (unsigned y = 0; y < grid[1]; y++)
        for (unsigned x = 0; x < grid[0]; x += each) {
            std::vector<block_of_threads> blocks(each);
            for (unsigned b = 0; b < each; b++) {
                group warp = {std::min(32, (int)threads), 0};
                blocks[b].place = {x + b, y, 0}, blocks[b].all = {(int)threads, 0};
                blocks[b].warps.assign((threads + 31) / 32, warp), blocks[b].lanes.resize(threads);
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
