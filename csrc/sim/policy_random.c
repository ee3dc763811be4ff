/* A random way, from a hash of the seed, the set and how many lines it has given up: the same in every run, however the stream is cut or
 * shared out. */
#define NAME(x) random_##x
#include "policy.h"

static inline void random_hit(cv_level *l, uint64_t set, uint32_t way) { (void)l, (void)set, (void)way; }

static inline void random_fill(cv_level *l, uint64_t set, uint32_t way) { (void)l, (void)set, (void)way; }

static inline uint32_t random_victim(cv_level *l, uint64_t set) { return (uint32_t)(cv_policy_hash(l, set, ++l->state[set]) % l->ways); }

POLICY(cv_policy_random, random, 0);
