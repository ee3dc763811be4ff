/* First in, first out: use does not matter. The ways of a set by rank, 0 for the one filled last. */
#define NAME(x) fifo_##x
#include "policy.h"
#include "ranks.h"

static inline void fifo_hit(cv_level *l, uint64_t set, uint32_t way) { (void)l, (void)set, (void)way; }

static inline void fifo_fill(cv_level *l, uint64_t set, uint32_t way) { rank_first(l, set, way); }

static inline uint32_t fifo_victim(cv_level *l, uint64_t set) { return rank_last(l, set); }

POLICY(cv_policy_fifo, fifo, CV_POLICY_RANKS);
