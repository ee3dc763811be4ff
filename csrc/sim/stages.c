/* The levels after a front. What leaves a level depends on its geometry, its policy and what comes in, so hierarchies that begin with
 * equal levels share these: each is simulated once, and what leaves it goes to every level that follows it in some hierarchy.
 *
 * The levels stand in the order of a walk that goes down first: after a level come those that get their records from it, each followed
 * by its own. So the records that leave the levels of one depth need one place only. */
#include "level.h"

static bool equal(const cv_level *l, const cv_sim_level *g)
{
    const uint32_t parts = g->parts && !g->own ? g->parts : 1, adjacent = g->adjacent ? g->adjacent : 1;
    return l->sets == g->sets && l->ways == g->ways && l->policy == g->policy && l->own == (g->own != 0) && l->parts == parts &&
           l->frames == (g->frames != 0) && (parts == 1 || l->adjacent == adjacent);
}

/* First stage from `at` on that is not as deep. */
static uint32_t end_of(const cv_front *f, uint32_t at, uint32_t depth)
{
    while (at < f->n_stages && f->stages[at].depth >= depth)
        at++;
    return at;
}

/* Insert a level before stage `at`. */
static cv_status insert(cv_front *f, uint32_t at, uint32_t depth, const cv_sim_level *geometry)
{
    if (!f->out[depth]) /* at most the misses of the batch and, for each level so far, one dirty line per record that it got */
        f->out[depth] = malloc(((depth + 2) * BATCH + PREFETCH) * sizeof *f->out[depth]);
    cv_level *level = calloc(1, sizeof *level);
    if (!f->out[depth] || !level) {
        free(level);
        return CV_ERROR_MEMORY;
    }
    memmove(f->stages + at + 1, f->stages + at, (f->n_stages - at) * sizeof *f->stages);
    f->stages[at] = (cv_stage){level, depth};
    f->n_stages++;
    cv_status status = cv_level_new(level, geometry, depth == 0, f->simd);
    return status == CV_OK ? cv_level_prepare(level, &f->regions, 0) : status;
}

cv_status cv_stages_add(cv_hierarchy *h, const cv_sim_level *levels)
{
    cv_front *f = h->front;
    uint32_t at = 0;
    for (uint32_t k = 0; k < h->n_levels; k++) {
        const uint32_t end = end_of(f, at, k);
        while (at < end && (f->stages[at].depth != k || !equal(f->stages[at].level, &levels[k])))
            at++;
        cv_status status = at == end ? insert(f, at, k, &levels[k]) : CV_OK;
        if (status != CV_OK)
            return status;
        h->levels[k] = f->stages[at++].level;
    }
    return CV_OK;
}

/* Charge the records that leave a level to the owners of their references. */
static cv_status count(cv_front *f, cv_level *l, const uint32_t *owner, const uint64_t *out, size_t n)
{
    if (f->warm)
        return CV_OK;
    if (cv_tally_expect(&l->all.counts, n) != CV_OK)
        return CV_ERROR_MEMORY;
    f->simd->charge(&l->all.counts, owner, out, n);
    return CV_OK;
}

#define LOOK_AHEAD 64 /* records whose sets are looked at together */

/* Has the set of a record an empty way? These are the last ones of a row. */
static bool has_room(const cv_level *l, uint64_t record)
{
    const uint64_t set = cv_any_place_of(l, record & LINE_MASK).set;
    if (l->wide || l->policy != CV_SIM_LRU)
        return (((const uint64_t *)l->rows)[set * l->ways + l->ways - 1] & ~WIDE_DIRTY) == WIDE_EMPTY;
    return (((const uint32_t *)l->rows)[set * l->stride + l->ways - 1] & ~DIRTY) == EMPTY;
}

/* One record after another where a set has room: most of the misses there are not known to be some (cv_sim_gaps). */
static cv_status run_with_gaps(cv_front *f, cv_level *l, const uint64_t *in, size_t n, const uint32_t *owner, uint64_t *out, size_t *left)
{
    if (cv_tally_reserve(&l->all.unknown, l->all.counts.used / 2) != CV_OK || cv_tally_expect(&l->all.unknown, n) != CV_OK)
        return CV_ERROR_MEMORY;
    for (size_t at = 0; at < n;) {
        const size_t end = at + LOOK_AHEAD < n ? at + LOOK_AHEAD : n;
        bool room = false;
        for (size_t i = at; i < end; i++)
            room |= has_room(l, in[i]);
        if (!room) {
            *left += l->run(l, in + at, end - at, out + *left);
            at = end;
        }
        for (; at < end; at++) {
            const bool fills = (l->first || !(in[at] & FLAG)) && has_room(l, in[at]);
            const size_t more = l->run(l, in + at, 1, out + *left);
            const uint64_t label = in[at] >> LABEL_SHIFT;
            if (fills && more && l->all.fills++ % f->gaps)
                l->all.unknown.lanes[owner ? owner[label] : label][0]++;
            *left += more;
        }
    }
    return CV_OK;
}

cv_status cv_stages_run(cv_front *f, const uint64_t *records, size_t n, const uint32_t *owner, bool hits)
{
    size_t left[CV_SIM_MAX_LEVELS]; /* records in f->out */
    for (uint32_t s = 0; s < f->n_stages; s++) {
        cv_level *l = f->stages[s].level;
        const uint32_t depth = f->stages[s].depth;
        const uint64_t *in = depth ? f->out[depth - 1] : records;
        const size_t got = depth ? left[depth - 1] : n;
        uint64_t *out = f->out[depth];
        left[depth] = 0;
        if (got == 0)
            continue;
        cv_status status = cv_level_prepare(l, &f->regions, f->line_end);
        if (status != CV_OK)
            return status;
        if (f->gaps && !f->warm)
            status = run_with_gaps(f, l, in, got, owner, out, &left[depth]);
        else
            left[depth] = (hits ? l->run_hits : l->run)(l, in, got, out);
        if (status != CV_OK)
            return status;
        assert(left[depth] <= (depth + 2) * (size_t)BATCH);
        memset(out + left[depth], 0, PREFETCH * sizeof *out);
        if (count(f, l, owner, out, left[depth]) != CV_OK)
            return CV_ERROR_MEMORY;
    }
    return CV_OK;
}

cv_status cv_stages_switch(cv_front *f, uint32_t from, uint32_t to)
{
    cv_status status = CV_OK;
    for (uint32_t s = 0; s < f->n_stages && status == CV_OK; s++) {
        cv_level *l = f->stages[s].level;
        const uint32_t here = l->own ? from : from / l->adjacent % l->parts, there = l->own ? to : to / l->adjacent % l->parts;
        if (here != there)
            status = cv_level_switch(l, here, there, f->simd);
    }
    f->filter_in_use = false; /* it knows what was last in the sets of the other thread */
    return status;
}

void cv_stages_free(cv_front *f)
{
    for (uint32_t s = 0; s < f->n_stages; s++) {
        cv_level_free(f->stages[s].level);
        free(f->stages[s].level);
    }
    free(f->stages);
    for (uint32_t depth = 0; depth < CV_SIM_MAX_LEVELS; depth++)
        free(f->out[depth]);
}
