/* Exact LRU with 64-bit tags, portable: the reference implementation, and the only one for tags that do not fit in 31 bits.
 *
 * A row holds the tags of a set, most recent first, so that the victim is the last one. Assumes write-back and write-allocate. */
#include "level.h"

/* Move `tag` to the front of the row; returns the word that fell out, or EMPTY when the tag was there. */
static inline bool touch(uint64_t *row, uint32_t ways, uint64_t tag, uint64_t dirty, uint64_t *victim) {
    uint64_t moved = tag | dirty;
    for (uint32_t i = 0; i < ways; i++) {
        uint64_t word = row[i];
        row[i] = moved;
        if ((word & ~WIDE_DIRTY) == tag) {
            row[0] |= word & WIDE_DIRTY;
            return true;
        }
        moved = word;
    }
    *victim = moved;
    return false;
}

static inline size_t run(level *l, const uint64_t *in, size_t n, uint64_t *out, const bool first) {
    const uint64_t *start = out;
    for (size_t i = 0; i < n; i++) {
        uint64_t record = in[i], victim = 0;
        place p = level_place(l, record & LINE_MASK);
        bool flag = record & FLAG;
        if (touch(l->rows + p.set * l->ways, l->ways, p.tag, flag ? WIDE_DIRTY : 0, &victim))
            continue;
        if (first || !flag)
            *out++ = record & ~FLAG;
        if (victim & WIDE_DIRTY)
            *out++ = (record & ~LINE_MASK) | FLAG | level_line(l, p.set, victim & ~WIDE_DIRTY);
    }
    return (size_t)(out - start);
}

static size_t run_first(level *l, const uint64_t *in, size_t n, uint64_t *out) { return run(l, in, n, out, true); }
static size_t run_deeper(level *l, const uint64_t *in, size_t n, uint64_t *out) { return run(l, in, n, out, false); }

level_run cv_lru_wide(bool first) { return first ? run_first : run_deeper; }
