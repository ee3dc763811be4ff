/* Where a line lives in a level: set and tag, and back. Shared by the implementations of a level. */
#ifndef CV_SIM_LEVEL_H
#define CV_SIM_LEVEL_H

#include "mix.h"
#include "sim.h"

#define DIRTY UINT32_C(0x80000000)      /* in a 32-bit tag */
#define EMPTY (DIRTY - 1)               /* no line has this tag */
#define SHIFT_MAX (LINE_BITS - 31)      /* from there on 31 bits hold the rest of a line: a tag may repeat bits of the set */
#define PAGE_BITS 12                    /* log2 of the bytes of a page */
#define PAGES ((UINT64_C(1) << 49) - 1) /* as many are distinguished */
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

/* The frame that a page lies in: any, the same in every run. */
static inline uint64_t cv_frame_of(uint64_t page) { return cv_mixed((page & PAGES) + UINT64_C(0x9e3779b97f4a7c15)); }

/* The same two of any level, also of one whose pages lie in frames: there the tag is the page. */
static inline cv_place cv_any_place_of(const cv_level *l, uint64_t line)
{
    if (!l->page_shift)
        return cv_place_of(l, line, l->power_of_two);
    const uint64_t within = (UINT64_C(1) << l->page_shift) - 1, region = l->all.offsets[line >> REGION_BITS];
    const uint64_t true_line = region << REGION_BITS | (line & ((UINT64_C(1) << REGION_BITS) - 1));
    const uint64_t frame = cv_frame_of(true_line >> l->page_shift) << l->page_shift;
    return (cv_place){(frame | (line & within)) & (l->sets - 1), line >> l->page_shift};
}

static inline uint64_t cv_any_line_of(const cv_level *l, uint64_t set, uint64_t tag)
{
    if (!l->page_shift)
        return cv_line_of(l, set, tag, l->power_of_two);
    return tag << l->page_shift | (set & ((UINT64_C(1) << l->page_shift) - 1));
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
