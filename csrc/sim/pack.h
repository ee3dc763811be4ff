/* The lag filter, and making records. Included with two functions defined for the instruction set:
 *
 *   uint32_t differing8(job, i, lag)     bit j: reference i + j touches another line than i + j - lag, or writes where that reads
 *   uint64_t *emit8(job, i, keep, out)   append the records of those references i + j whose bit is set in keep
 *
 * A window of `lag` references that repeats the `lag` references before it, with no first write, changes nothing in an LRU cache of
 * at least `lag` ways: all its lines are there, and serving them in the same order leaves them in the same order. */
#include "simd.h"

ALWAYS uint64_t record_of(cv_pack_job *job, size_t i)
{
    uint64_t line = job->address[i] >> job->line_shift;
    if (line >> REGION_BITS >= REGIONS_DIRECT) {
        cv_status status = cv_regions_translate(job->regions, line, &line);
        if (status != CV_OK)
            job->status = status;
    }
    return (line & LINE_MASK) | (job->write[i] ? FLAG : 0) | (uint64_t)job->label[i] << LABEL_SHIFT;
}

ALWAYS uint32_t differing8(const cv_pack_job *job, size_t i, unsigned lag);
ALWAYS uint64_t *emit8(cv_pack_job *job, size_t i, uint32_t keep, uint64_t *out);

/* Fetch from memory what the next batch needs while this one is worked on. A prefetch beyond an array's end does nothing. */
ALWAYS void prefetch_next(const cv_pack_job *job, size_t i, size_t step)
{
    for (size_t j = i; j < i + step; j += 8)
        __builtin_prefetch(job->address + j + BATCH, 0, 2);
    if (i % CACHE_LINE < step)
        __builtin_prefetch(job->write + i + BATCH, 0, 2);
}

ALWAYS size_t pack_all(cv_pack_job *job, uint64_t *records)
{
    uint64_t *out = records;
    size_t i = job->begin;
    for (; i + 8 <= job->end; i += 8) {
        prefetch_next(job, i, 8);
        out = emit8(job, i, 0xff, out);
    }
    for (; i < job->end; i++)
        *out++ = record_of(job, i);
    return (size_t)(out - records);
}

ALWAYS size_t pack_lag(cv_pack_job *job, const unsigned lag, uint64_t *records)
{
    const unsigned groups = lag % 3 == 0 ? 3 : 1, step = 8 * groups; /* whole windows */
    const uint32_t window = (1u << lag) - 1;
    uint32_t starts = 0;
    for (unsigned bit = 0; bit < step; bit += lag)
        starts |= 1u << bit;
    uint64_t *out = records;
    size_t i = job->begin;
    for (; i < job->end && i + job->history < job->begin + lag; i++)
        *out++ = record_of(job, i);
    for (; i + step <= job->end; i += step) {
        prefetch_next(job, i, step);
        uint32_t differing = 0;
        for (unsigned g = 0; g < groups; g++)
            differing |= differing8(job, i + 8 * g, lag) << (8 * g);
        if (differing == 0)
            continue;
        uint32_t broken = differing;
        for (unsigned shift = 1; shift < lag; shift++)
            broken |= differing >> shift;
        uint32_t keep = (broken & starts) * window;
        for (unsigned g = 0; g < groups; g++)
            out = emit8(job, i + 8 * g, (keep >> (8 * g)) & 0xff, out);
    }
    for (; i < job->end; i++)
        *out++ = record_of(job, i);
    return (size_t)(out - records);
}

ALWAYS size_t pack(cv_pack_job *job, unsigned lag, uint64_t *records)
{
    switch (lag) {
    case 0: return pack_all(job, records);
    case 1: return pack_lag(job, 1, records);
    case 2: return pack_lag(job, 2, records);
    case 3: return pack_lag(job, 3, records);
    case 4: return pack_lag(job, 4, records);
    case 6: return pack_lag(job, 6, records);
    default: return pack_lag(job, 8, records);
    }
}
