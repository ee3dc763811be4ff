/* Where a line lives in a level: set and tag, and back. Shared by the implementations of a level. */
#ifndef CV_SIM_LEVEL_H
#define CV_SIM_LEVEL_H

#include "sim.h"

#define DIRTY UINT32_C(0x80000000) /* in a 32-bit tag */
#define EMPTY (DIRTY - 1)          /* no line has this tag */
#define SHIFT_MAX (LINE_BITS - 31) /* from there on 31 bits hold the rest of a line: a tag may repeat bits of the set */
#define WIDE_DIRTY (UINT64_C(1) << 63)
#define WIDE_EMPTY (WIDE_DIRTY - 1)

typedef struct {
    uint64_t set, tag;
} cv_place;

/* `power_of_two` is l->power_of_two, given as a constant so that each loop keeps one of the two ways. */
static inline __attribute__((always_inline)) cv_place cv_place_of(const cv_level *l, uint64_t line, bool power_of_two)
{
    if (power_of_two)
        return (cv_place){line & (l->sets - 1), line >> l->shift};
    uint64_t x = line + l->all.offsets[line >> REGION_BITS];
    uint64_t q = (uint64_t)(((unsigned __int128)x * l->magic) >> 64);
    uint64_t set = x - q * l->sets;
    /* For x up to 2^48 the rounded-up reciprocal can give one too much. */
    uint64_t above = (uint64_t)((int64_t)set >> 63);
    set += above & l->sets;
    assert(set < l->sets);
    return (cv_place){set, q + above};
}

static inline __attribute__((always_inline)) uint64_t cv_line_of(const cv_level *l, uint64_t set, uint64_t tag, bool power_of_two)
{
    if (power_of_two)
        return (tag << l->shift) | set;
    uint64_t x = tag * l->sets + set;
    return x - l->all.offsets[x >> REGION_BITS];
}

/* The record that writes a victim (a 32-bit tag) of `record`'s set back; any word where the victim is not dirty. */
static inline __attribute__((always_inline)) uint64_t cv_write_back(const cv_level *l, uint64_t record, uint64_t set, uint32_t victim,
                                                                    bool power_of_two)
{
    if (power_of_two) /* everything but the tag is the record's own */
        return ((record | FLAG) & ~(LINE_MASK & ~(l->sets - 1))) | (uint64_t)(victim & ~DIRTY) << l->shift;
    /* The tag of an empty place would lead outside of the table of offsets. */
    uint32_t tag = victim & DIRTY ? victim & ~DIRTY : 0;
    return (record & ~LINE_MASK) | FLAG | cv_line_of(l, set, tag, false);
}

#endif
