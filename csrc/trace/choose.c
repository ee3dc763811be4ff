/* Which segments are kept: a phase of all, or those of chosen blocks. */
#include "grow.h"
#include "trace.h"

#include <stdlib.h>
#include <string.h>

cv_status cv_trace_choose_phase(cv_trace *trace, uint32_t phase, uint32_t phases)
{
    if (!phases || phase >= phases)
        return CV_ERROR_ARGUMENT;
    trace->phase = phase;
    trace->phases = phases;
    return CV_OK;
}

cv_status cv_trace_choose_range(cv_trace *trace, const char *path, uint64_t begin, uint64_t end)
{
    CV_RESERVE(trace->ranges, trace->range_capacity, trace->range_count + 1);
    char *copy = strdup(path);
    if (!copy)
        return CV_ERROR_MEMORY;
    trace->ranges[trace->range_count++] = (cv_range){copy, begin, end};
    return CV_OK;
}

static int in_a_range(const cv_trace *trace, const struct cv_wire_segment *segment)
{
    const struct cv_wire_instruction *last = trace->definitions.instructions + trace->definitions.instruction_count - 1;
    uint64_t begin = segment->file_offset, end = begin + (segment->instructions ? last->offset + last->length : 1u);
    const char *path = cv_trace_module_path(trace, segment->module);
    for (size_t i = 0; i < trace->range_count; i++) {
        const cv_range *range = &trace->ranges[i];
        if (begin < range->end && range->begin < end && !strcmp(path, range->path))
            return 1;
    }
    return 0;
}

/* Of the segment that was defined last. */
int cv_chosen(const cv_trace *trace, const struct cv_wire_segment *segment)
{
    uint64_t hash = segment->file_offset * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    if (trace->phases && hash % trace->phases != trace->phase)
        return 0;
    return !trace->range_count || in_a_range(trace, segment);
}
