/* Re-reference intervals of two bits (Jaleel, Theobald, Steely and Emer, High performance cache replacement using re-reference interval
 * prediction, ISCA 2010), with hit priority: what SRRIP and DRRIP share. */
#ifndef CV_SIM_RRIP_H
#define CV_SIM_RRIP_H

#include "sim.h"

enum { SOON = 0, LONG = 2, DISTANT = 3 };

/* The lowest way at the farthest interval, ageing all until there is one. */
static inline uint32_t rrip_victim(cv_level *l, uint64_t set)
{
    uint8_t *ages = l->ages + set * l->ways, oldest = 0;
    for (uint32_t way = 0; way < l->ways; way++)
        oldest = ages[way] > oldest ? ages[way] : oldest;
    uint32_t victim = UINT32_MAX;
    for (uint32_t way = 0; way < l->ways; way++) {
        ages[way] = (uint8_t)(ages[way] + DISTANT - oldest);
        if (ages[way] == DISTANT && victim == UINT32_MAX)
            victim = way;
    }
    assert(oldest <= DISTANT && victim != UINT32_MAX);
    return victim;
}

#endif
