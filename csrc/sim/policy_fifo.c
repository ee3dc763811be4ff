/* First in, first out: use does not matter. The state is the way that was filled longest ago. */
#define NAME(x) fifo_##x
#include "policy.h"

static inline void fifo_hit(cv_level *l, uint64_t set, uint32_t way) {
    (void)l, (void)set, (void)way;
}

static inline void fifo_fill(cv_level *l, uint64_t set, uint32_t way) { l->state[set] = (way + 1) % l->ways; }

static inline uint32_t fifo_victim(cv_level *l, uint64_t set) { return (uint32_t)l->state[set]; }

size_t cv_policy_fifo(cv_level *l, const uint64_t *in, size_t n, uint64_t *out) { return fifo_run(l, in, n, out); }
