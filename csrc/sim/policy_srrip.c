/* Static re-reference interval prediction: a new line is expected to come back after a long interval (2), a used one soon (0); the
 * victim is the lowest way at the farthest (3), ageing all until there is one. */
#define NAME(x) srrip_##x
#include "policy.h"
#include "rrip.h"

static inline void srrip_hit(cv_level *l, uint64_t set, uint32_t way) { l->ages[set * l->ways + way] = SOON; }

static inline void srrip_fill(cv_level *l, uint64_t set, uint32_t way) { l->ages[set * l->ways + way] = LONG; }

static inline uint32_t srrip_victim(cv_level *l, uint64_t set) { return rrip_victim(l, set); }

POLICY(cv_policy_srrip, srrip, CV_POLICY_AGES);
