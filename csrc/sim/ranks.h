/* An order of the ways of a set: a byte for each way that says how many others come before it. */
#ifndef CV_SIM_RANKS_H
#define CV_SIM_RANKS_H

#include "sim.h"

static inline void rank_first(cv_level *l, uint64_t set, uint32_t way)
{
    uint8_t *ranks = l->ages + set * l->ways, own = ranks[way];
    if (own == 0)
        return;
    for (uint32_t i = 0; i < l->ways; i++)
        ranks[i] = (uint8_t)(ranks[i] + (ranks[i] < own));
    ranks[way] = 0;
}

static inline uint32_t rank_last(const cv_level *l, uint64_t set)
{
    const uint8_t *ranks = l->ages + set * l->ways;
    uint32_t way = 0;
    while (way + 1 < l->ways && ranks[way] != l->ways - 1)
        way++;
    assert(ranks[way] == l->ways - 1); /* the ranks are the numbers 0 .. ways - 1 */
    return way;
}

#endif
