/* Exact LRU one tag at a time. Included with TAG (the type), TAG_DIRTY (its highest bit) and NAME(x) defined. */
#include "level.h"

/* Move `tag` to the front of the row; false, and the word that fell out, when it was not there. */
static inline bool NAME(touch)(TAG *row, uint32_t ways, TAG tag, TAG dirty, TAG *victim)
{
    TAG moved = tag | dirty;
    for (uint32_t i = 0; i < ways; i++) {
        TAG word = row[i];
        row[i] = moved;
        if ((word & (TAG)~TAG_DIRTY) == tag) {
            row[0] |= word & TAG_DIRTY;
            return true;
        }
        moved = word;
    }
    *victim = moved;
    return false;
}

static inline __attribute__((always_inline)) size_t NAME(run)(cv_level *l, const uint64_t *in, size_t n, uint64_t *out, const bool first,
                                                              const bool power_of_two)
{
    const uint64_t *start = out;
    for (size_t i = 0; i < n; i++) {
        uint64_t record = in[i];
        cv_place p = cv_place_of(l, record & LINE_MASK, power_of_two);
        bool flag = record & FLAG;
        TAG victim = 0;
        if (NAME(touch)((TAG *)l->rows + p.set * l->stride, l->ways, (TAG)p.tag, flag ? TAG_DIRTY : 0, &victim))
            continue;
        if (first || !flag)
            *out++ = record & ~FLAG;
        if (victim & TAG_DIRTY)
            *out++ = (record & ~LINE_MASK) | FLAG | cv_line_of(l, p.set, victim & (TAG)~TAG_DIRTY, power_of_two);
    }
    return (size_t)(out - start);
}

static size_t NAME(first)(cv_level *l, const uint64_t *in, size_t n, uint64_t *out) { return NAME(run)(l, in, n, out, true, true); }
static size_t NAME(deeper)(cv_level *l, const uint64_t *in, size_t n, uint64_t *out) { return NAME(run)(l, in, n, out, false, true); }
static size_t NAME(first_any)(cv_level *l, const uint64_t *in, size_t n, uint64_t *out) { return NAME(run)(l, in, n, out, true, false); }
static size_t NAME(deeper_any)(cv_level *l, const uint64_t *in, size_t n, uint64_t *out) { return NAME(run)(l, in, n, out, false, false); }

static void NAME(choose)(cv_level *l)
{
    l->stride = l->ways;
    if (l->power_of_two)
        l->run = l->first ? NAME(first) : NAME(deeper);
    else
        l->run = l->first ? NAME(first_any) : NAME(deeper_any);
    l->run_hits = l->run;
}
