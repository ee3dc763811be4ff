/* Static re-reference interval prediction with two bits and hit priority (Jaleel et al., ISCA 2010): a new line is expected to come back
 * after a long interval (2), a used one soon (0); the victim is the lowest way at the farthest (3), ageing all until there is one. */
#define NAME(x) srrip_##x
#include "policy.h"

enum { SOON = 0, LONG = 2, DISTANT = 3 };

static inline void srrip_hit(cv_level *l, uint64_t set, uint32_t way) { l->ages[set * l->ways + way] = SOON; }

static inline void srrip_fill(cv_level *l, uint64_t set, uint32_t way) { l->ages[set * l->ways + way] = LONG; }

static inline uint32_t srrip_victim(cv_level *l, uint64_t set) {
    uint8_t *ages = l->ages + set * l->ways, oldest = 0;
    for (uint32_t way = 0; way < l->ways; way++)
        oldest = ages[way] > oldest ? ages[way] : oldest;
    uint32_t victim = UINT32_MAX;
    for (uint32_t way = 0; way < l->ways; way++) {
        ages[way] = (uint8_t)(ages[way] + DISTANT - oldest);
        if (ages[way] == DISTANT && victim == UINT32_MAX)
            victim = way;
    }
    return victim;
}

size_t cv_policy_srrip(cv_level *l, const uint64_t *in, size_t n, uint64_t *out) { return srrip_run(l, in, n, out); }
