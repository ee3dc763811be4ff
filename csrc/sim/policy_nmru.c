/* Not most recently used: a random way among all but the one used last. The state holds that way in its low byte and above it how many
 * lines the set has given up, which the choice is hashed from. */
#define NAME(x) nmru_##x
#include "policy.h"

static inline void nmru_hit(cv_level *l, uint64_t set, uint32_t way) { l->state[set] = (l->state[set] & ~UINT64_C(255)) | way; }

static inline void nmru_fill(cv_level *l, uint64_t set, uint32_t way) { nmru_hit(l, set, way); }

static inline uint32_t nmru_victim(cv_level *l, uint64_t set)
{
    if (l->ways == 1)
        return 0;
    l->state[set] += 256;
    uint32_t last = (uint32_t)(l->state[set] & 255);
    uint32_t way = (uint32_t)(cv_policy_hash(l, set, l->state[set] >> 8) % (l->ways - 1));
    return way + (way >= last);
}

POLICY(cv_policy_nmru, nmru, 0);
