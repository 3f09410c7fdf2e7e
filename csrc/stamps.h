/* stamps.h - where the profile of a batch keeps the time of each step: nn_profile in nn.h names
 * them in this order. */
#ifndef NN_STAMPS_H
#define NN_STAMPS_H

enum { STAMP_BEGIN, STAMP_GATHERED, STAMPS_BEFORE_LAYERS };

/* Of a network of `count` layers; i counts from the first layer. */
static inline int stamp_forward(int i) { return STAMPS_BEFORE_LAYERS + i; }
static inline int stamp_loss(int count) { return stamp_forward(count); }
static inline int stamp_gradients(int count, int i)
{ return stamp_loss(count) + 1 + 2 * (count - 1 - i); }
static inline int stamp_update(int count, int i) { return stamp_gradients(count, i) + 1; }
static inline int stamp_summed(int count) { return stamp_loss(count) + 1 + 2 * count; }
static inline int stamp_stepped(int count) { return stamp_summed(count) + 1; }
static inline int stamp_sent(int count) { return stamp_summed(count) + 2; }
static inline int stamp_end(int count) { return stamp_summed(count) + 3; }
static inline int stamps_in_all(int count) { return stamp_end(count) + 1; }
#endif
