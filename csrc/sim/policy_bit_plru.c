/* Bit pseudo-LRU (also called MRU or NRU): a bit a way, set on use; when the last one would be set, the others are cleared. The victim is
 * the lowest way whose bit is clear. */
#define NAME(x) bit_plru_##x
#include "policy.h"

static inline void bit_plru_hit(cv_level *l, uint64_t set, uint32_t way)
{
    uint64_t all = l->ways == 64 ? UINT64_MAX : (UINT64_C(1) << l->ways) - 1, own = UINT64_C(1) << way;
    uint64_t state = l->state[set] | own;
    l->state[set] = state == all ? own : state;
}

static inline void bit_plru_fill(cv_level *l, uint64_t set, uint32_t way) { bit_plru_hit(l, set, way); }

static inline uint32_t bit_plru_victim(cv_level *l, uint64_t set)
{
    uint32_t way = (uint32_t)__builtin_ctzll(~l->state[set]);
    return way < l->ways ? way : 0; /* a level of one way */
}

POLICY(cv_policy_bit_plru, bit_plru, 0);
