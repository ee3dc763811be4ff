/* Where a line lives in a level: set and tag, and back. Shared by the implementations of a level. */
#ifndef CV_SIM_LEVEL_H
#define CV_SIM_LEVEL_H

#include "sim.h"

#define WIDE_DIRTY (UINT64_C(1) << 63)
#define WIDE_EMPTY (WIDE_DIRTY - 1) /* no line has this tag */

typedef struct {
    uint64_t set, tag;
} place;

static inline place level_place(const level *l, uint64_t line) {
    if (l->power_of_two)
        return (place){line & (l->sets - 1), line >> l->shift};
    uint64_t x = line + l->offsets[line >> REGION_BITS];
    uint64_t q = (uint64_t)(((unsigned __int128)x * l->magic) >> 64);
    uint64_t set = x - q * l->sets;
    /* For x up to 2^48 the rounded-up reciprocal can give one too much. */
    uint64_t above = (uint64_t)((int64_t)set >> 63);
    return (place){set + (above & l->sets), q + above};
}

static inline uint64_t level_line(const level *l, uint64_t set, uint64_t tag) {
    if (l->power_of_two)
        return (tag << l->shift) | set;
    uint64_t x = tag * l->sets + set;
    return x - l->offsets[x >> REGION_BITS];
}

#endif
