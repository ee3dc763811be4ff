/* A level with another replacement policy than LRU. Included with NAME(x) defined, before the three functions of the policy:
 *
 *   void NAME(hit)(cv_level *l, uint64_t set, uint32_t way)      the line in `way` is used again
 *   void NAME(fill)(cv_level *l, uint64_t set, uint32_t way)     a new line was put into `way`
 *   uint32_t NAME(victim)(cv_level *l, uint64_t set)             which way of a full set to give up
 *
 * Empty ways are filled first, the lowest first. Lines stay in their ways; what a policy remembers of a set is in l->state[set] or,
 * per way, in l->ages. Assumes write-back and write-allocate, as all levels here. */
#include "level.h"
#include "policies.h"

/* The template's last line in a policy's file makes what the two engines use of it. */
#define POLICY(variable, name, memory_) const cv_policy variable = {name##_run, name##_hit, name##_fill, name##_victim, memory_}

static inline void NAME(hit)(cv_level *l, uint64_t set, uint32_t way);
static inline void NAME(fill)(cv_level *l, uint64_t set, uint32_t way);
static inline uint32_t NAME(victim)(cv_level *l, uint64_t set);

static inline uint64_t *NAME(find)(cv_level *l, uint64_t set, uint64_t tag, uint32_t *way, uint32_t *empty)
{
    uint64_t *row = (uint64_t *)l->rows + set * l->ways;
    *empty = UINT32_MAX;
    for (*way = 0; *way < l->ways; ++*way) {
        uint64_t held = row[*way] & ~WIDE_DIRTY;
        if (held == tag)
            return row;
        if (held == WIDE_EMPTY && *empty == UINT32_MAX)
            *empty = *way;
    }
    return row;
}

static size_t NAME(run)(cv_level *l, const uint64_t *in, size_t n, uint64_t *out)
{
    const uint64_t *start = out;
    for (size_t i = 0; i < n; i++) {
        uint64_t record = in[i], dirty = record & FLAG ? WIDE_DIRTY : 0;
        cv_place p = cv_any_place_of(l, record & LINE_MASK);
        uint32_t way, empty;
        uint64_t *row = NAME(find)(l, p.set, p.tag, &way, &empty);
        if (way < l->ways) {
            row[way] |= dirty;
            NAME(hit)(l, p.set, way);
            continue;
        }
        way = empty != UINT32_MAX ? empty : NAME(victim)(l, p.set);
        assert(way < l->ways);
        uint64_t victim = row[way];
        row[way] = p.tag | dirty;
        NAME(fill)(l, p.set, way);
        if (l->first || !dirty)
            *out++ = record & ~FLAG;
        if (victim & WIDE_DIRTY)
            *out++ = (record & ~LINE_MASK) | FLAG | cv_any_line_of(l, p.set, victim & ~WIDE_DIRTY);
    }
    return (size_t)(out - start);
}
