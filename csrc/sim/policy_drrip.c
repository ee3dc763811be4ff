/* Dynamic re-reference interval prediction: SRRIP and its bimodal variant duel (same paper as rrip.h). Of each 32 sets the first always
 * fills as SRRIP does (interval 2) and the seventeenth as BRRIP does (3, and 2 every 32nd time); a counter of ten bits over the fills
 * of those sets says which of the two the other sets follow. The counter makes sets depend on each other. */
#define NAME(x) drrip_##x
#include "policy.h"
#include "rrip.h"

enum { CONSTITUENCY = 32, BRRIP_LEADER = 16, BIMODAL = 32, SELECTOR_FIRST = -512, SELECTOR_LAST = 511 };

static inline void drrip_hit(cv_level *l, uint64_t set, uint32_t way) { l->ages[set * l->ways + way] = SOON; }

/* True when the set fills as BRRIP; counts a fill, which is a miss, of a leader. */
static inline bool drrip_is_bimodal(cv_level *l, uint64_t set)
{
    uint64_t place = set % CONSTITUENCY;
    if (place == 0) {
        l->selector += l->selector < SELECTOR_LAST;
        return false;
    }
    if (place == BRRIP_LEADER) {
        l->selector -= l->selector > SELECTOR_FIRST;
        return true;
    }
    return l->selector > 0;
}

static inline void drrip_fill(cv_level *l, uint64_t set, uint32_t way)
{
    uint8_t interval = LONG;
    if (drrip_is_bimodal(l, set))
        interval = l->bimodal++ % BIMODAL == BIMODAL - 1 ? LONG : DISTANT;
    l->ages[set * l->ways + way] = interval;
}

static inline uint32_t drrip_victim(cv_level *l, uint64_t set) { return rrip_victim(l, set); }

POLICY(cv_policy_drrip, drrip, CV_POLICY_AGES);
