/* Exact LRU on rows of tags that are a few vectors in recency order: what is the same for every instruction set. Included with
 *
 *   LANES             tags of a vector
 *   AHEAD             records to prefetch for
 *   VECTORS(X)        X(n) for the numbers of vectors that a row may have, rising by doubling from 1
 *   word_of(l, record)              tag and dirty bit of a record, where the sets are a power of two
 *   written_back(l, record, victim) record of a victim of the record's set, likewise
 *   touch(tags, vectors, word, ways, ways_mask)  moves a word to the front of its row, with the dirty bit that it had; where it was
 *                                                found as a mask of places, 0 for a miss
 *
 * Assumes write-back and write-allocate. */
#ifndef CV_SIM_LRU_VECTOR_H
#define CV_SIM_LRU_VECTOR_H

#include "level.h"
#include "simd.h"

typedef struct {
    uint64_t set;
    uint32_t word;
} cv_target;

ALWAYS uint64_t set_of(const cv_level *l, uint64_t record, const bool power_of_two)
{
    return power_of_two ? record & (l->sets - 1) : cv_place_of(l, record & LINE_MASK, false).set;
}

ALWAYS cv_target target_of(const cv_level *l, uint64_t record, const bool power_of_two)
{
    if (power_of_two)
        return (cv_target){record & (l->sets - 1), word_of(l, record)};
    cv_place p = cv_place_of(l, record & LINE_MASK, false);
    return (cv_target){p.set, (uint32_t)p.tag | (record & FLAG ? DIRTY : 0)};
}

ALWAYS void prefetch_row(const cv_level *l, uint64_t record, const int vectors, const bool power_of_two)
{
    const char *row = (const char *)((const uint32_t *)l->rows + set_of(l, record, power_of_two) * (uint64_t)(LANES * vectors));
    for (size_t at = 0; at < LANES * (size_t)vectors * sizeof(uint32_t); at += CACHE_LINE)
        __builtin_prefetch(row + at);
}

/* `ahead`: records to prefetch for; `hits`: branch on a hit, for streams that mostly hit. */
ALWAYS size_t run(cv_level *level, const uint64_t *in, size_t n, uint64_t *out, const int vectors, const bool first,
                  const bool power_of_two, const int ahead, const bool hits)
{
    const cv_level l = *level; /* in registers: the records that are written could otherwise be its fields */
    const uint64_t *start = out, ways_mask = l.ways == 64 ? UINT64_MAX : (UINT64_C(1) << l.ways) - 1;
    for (size_t i = 0; i < n; i++) {
        if (ahead)
            prefetch_row(&l, in[i + (size_t)ahead], vectors, power_of_two);
        uint64_t record = in[i];
        cv_target t = target_of(&l, record, power_of_two);
        uint32_t *tags = (uint32_t *)l.rows + t.set * (uint64_t)(LANES * vectors), victim = tags[l.ways - 1];
        uint64_t found = touch(tags, vectors, t.word, l.ways, ways_mask);
        if (hits && found)
            continue;
        uint64_t miss = found == 0;
        *out = first ? record & ~FLAG : record; /* without the flag where it counts */
        out += first ? miss : miss & ~(record >> LINE_BITS);
        *out = power_of_two ? written_back(&l, record, victim) : cv_write_back(&l, record, t.set, victim, false);
        out += miss & (victim >> 31);
    }
    return (size_t)(out - start);
}

/* One function for each combination of constants. */
#define RUN(name, vectors, ...)                                                              \
    static size_t name##_##vectors(cv_level *l, const uint64_t *in, size_t n, uint64_t *out) \
    {                                                                                        \
        return run(l, in, n, out, vectors, __VA_ARGS__);                                     \
    }
#define RUNS(vectors)                               \
    RUN(first, vectors, true, true, 0, false)       \
    RUN(hits, vectors, true, true, 0, true)         \
    RUN(deeper, vectors, false, true, AHEAD, false) \
    RUN(first_any, vectors, true, false, 0, true)   \
    RUN(deeper_any, vectors, false, false, AHEAD, false)
VECTORS(RUNS)

#define CHOICE(vectors) {first_##vectors, hits_##vectors, deeper_##vectors, first_any_##vectors, deeper_any_##vectors},
static const struct {
    cv_level_run first, hits, deeper, first_any, deeper_any;
} CHOICES[] = {VECTORS(CHOICE)};

ALWAYS void choose(cv_level *l)
{
    int c = 0;
    while ((uint32_t)LANES << c < l->ways)
        c++;
    l->stride = LANES << c;
    if (l->power_of_two) {
        l->run = l->first ? CHOICES[c].first : CHOICES[c].deeper;
        l->run_hits = l->first ? CHOICES[c].hits : CHOICES[c].deeper;
    } else {
        l->run = l->run_hits = l->first ? CHOICES[c].first_any : CHOICES[c].deeper_any;
    }
}

#endif
