/* Least recently used, as the detailed engine keeps it: the ways of a set by rank, 0 for the one used last. The fast engine keeps whole
 * rows in this order instead (lru_*.c). */
#include "policies.h"
#include "ranks.h"

static void lru_use(cv_level *l, uint64_t set, uint32_t way) { rank_first(l, set, way); }

static uint32_t lru_victim(cv_level *l, uint64_t set) { return rank_last(l, set); }

const cv_policy cv_policy_lru = {NULL, lru_use, lru_use, lru_victim, CV_POLICY_RANKS};
