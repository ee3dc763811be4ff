/* Features of sites, from bursts only: what set sampling keeps has holes, so distances in it mean nothing.
 *
 * Distinct lines are estimated per segment with HyperLogLog (Flajolet et al. 2007); registers of several segments can be joined by
 * their maxima. A line that equals the site's previous one cannot change a register and is passed over.
 *
 * Patterns cost three times as much as decoding. Where a window is longer than a million references, a 32nd of it, in stretches of
 * 8192 references, tells the shares as well: more than the bursts of a sampled run show. */
#include "trace.h"

#define WHOLE_BATCHES 128 /* of a window: from then on patterns are looked at in one batch of EVERY */
#define EVERY 32

#include <stdlib.h>

void cv_trace_shares_alone(cv_trace *trace, uint64_t every)
{
    trace->shares_alone = 1;
    trace->look_every = every;
}

int cv_trace_looks_at(const cv_trace *trace, uint64_t window) { return trace->look_every <= 1 || window % trace->look_every == 0; }

static inline uint64_t mix(uint64_t x)
{
    x *= UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

static inline void count_distinct(uint8_t *registers, uint64_t line)
{
    uint64_t hash = mix(line);
    unsigned index = hash >> (64 - 9);
    unsigned rank = (unsigned)__builtin_clzll(hash << 9 | UINT64_C(1) << 8) + 1;
    if (registers[index] < rank)
        registers[index] = (uint8_t)rank;
}

_Static_assert(CV_TRACE_HLL_REGISTERS == 1 << 9, "the hash is split at 9 bits");

static cv_status add_distinct(cv_trace *trace, uint32_t site, uint64_t line)
{
    trace->site_line[site] = (uint32_t)line;
    uint8_t **registers = &trace->registers[trace->site_segment[site]];
    if (!*registers && !(*registers = calloc(1, CV_TRACE_HLL_REGISTERS)))
        return CV_ERROR_MEMORY;
    count_distinct(*registers, line);
    return CV_OK;
}

static cv_status add_lines(cv_trace *trace, const cv_batch_arrays *batch, size_t from, size_t to)
{
    const uint32_t *site_line = trace->site_line, *site = batch->owner;
    const uint64_t *address = batch->address;
    cv_status status = CV_OK;
    if (trace->shares_alone)
        return status;
    for (size_t i = from; i < to && !status; i++)
        if (site_line[site[i]] != (uint32_t)(address[i] >> 6))
            status = add_distinct(trace, site[i], address[i] >> 6);
    return status;
}

cv_status cv_features_lines(cv_trace *trace, cv_batch_arrays *batch, size_t run, size_t period)
{
    const uint64_t *address = batch->address;
    size_t to = batch->count, i = to - run + period;
    cv_status status = add_lines(trace, batch, batch->lined, i);
    if (trace->shares_alone)
        return status;
    for (; i + 8 <= to && !status; i += 8) {
        uint64_t moved = 0;
        for (size_t j = i; j < i + 8; j++)
            moved |= address[j] ^ address[j - period];
        if (moved >> 6) /* otherwise all lines are those of the visit before */
            status = add_lines(trace, batch, i, i + 8);
    }
    batch->lined = to;
    return status ? status : add_lines(trace, batch, i, to);
}

static inline void add_line(cv_trace *trace, cv_site_features *site, uint64_t line)
{
    const enum cv_line_state state = cv_streams_find(&trace->streams, line);
    site->coming += state == CV_LINE_COMING;
    if (state == CV_LINE_NEW) {
        cv_line_course course;
        const enum cv_line_class class = cv_streams_classify(&trace->streams, line, &course);
        site->lines[class]++;
        site->early += class != CV_LINE_RANDOM && course.early;
        site->between += course.between;
        site->alone += class == CV_LINE_SEQUENTIAL && course.alone;
    }
}

static void add_patterns(cv_trace *trace, const cv_batch_arrays *batch)
{
    uint64_t stretch = trace->stretch + 1; /* 0 stands for never */
    for (size_t i = 0; i < batch->count; i++) {
        uint64_t address = batch->address[i];
        cv_site_features *site = &trace->features[batch->owner[i]];
        int64_t distance = (int64_t)(address - site->last);
        unsigned known = site->stretch == stretch;
        unsigned unit = known & ((uint64_t)distance + 64 <= 128);
        unsigned strided = known & (distance == site->distance) & !unit;
        site->unit += unit;
        site->strided += strided;
        site->random += known & !unit & !strided;
        site->distance = known ? distance : 0;
        site->last = address;
        site->stretch = stretch;
        add_line(trace, site, address >> 6);
    }
}

cv_status cv_features_add(cv_trace *trace, const cv_batch_arrays *batch)
{
    uint64_t number = trace->window_batches++;
    if (cv_trace_looks_at(trace, trace->now.window) && (number < WHOLE_BATCHES || number % EVERY == 0))
        add_patterns(trace, batch);
    else
        trace->stretch++; /* what follows is no neighbor of what was */
    return add_lines(trace, batch, batch->lined, batch->count);
}
