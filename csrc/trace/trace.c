/* Life of a decoder and what it tells about itself. */
#include "trace.h"

#include "grow.h"

#include <stdlib.h>
#include <string.h>

cv_trace *cv_trace_new(void) { return calloc(1, sizeof(cv_trace)); }

void cv_trace_free(cv_trace *trace)
{
    if (!trace)
        return;
    for (size_t i = 0; i < trace->register_capacity; i++) /* the unused ones are NULL */
        free(trace->registers[i]);
    free(trace->registers);
    free(trace->hot_sites);
    free(trace->hot_segments);
    free(trace->features);
    free(trace->site_segment);
    free(trace->site_line);
    free(trace->pending);
    free(trace->sinks);
    for (size_t i = 0; i < trace->range_count; i++)
        free(trace->ranges[i].path);
    free(trace->ranges);
    for (int i = 0; i < 3; i++)
        free(trace->unpacked[i]);
    for (int kind = 0; kind < CV_RECORDED_KINDS; kind++)
        free(trace->recorded[kind].bytes);
    free(trace->system.bytes);
    free(trace->units);
    free(trace->coarse.bytes);
    cv_address_free(&trace->coarse_writer);
    cv_address_free(&trace->writer);
    cv_address_free(&trace->reader);
    cv_definitions_free(&trace->definitions);
    cv_objects_free(&trace->objects);
    free(trace);
}

cv_status cv_hot_reserve(cv_trace *trace)
{
    CV_RESERVE(trace->hot_sites, trace->hot_site_capacity, trace->definitions.site_count);
    CV_RESERVE(trace->features, trace->feature_capacity, trace->definitions.site_count);
    CV_RESERVE(trace->site_segment, trace->site_segment_capacity, trace->definitions.site_count);
    CV_RESERVE(trace->site_line, trace->site_line_capacity, trace->definitions.site_count);
    CV_RESERVE(trace->hot_segments, trace->hot_segment_capacity, trace->definitions.segment_count);
    size_t before = trace->register_capacity;
    CV_RESERVE(trace->registers, trace->register_capacity, trace->definitions.segment_count);
    if (trace->register_capacity > before)
        memset(trace->registers + before, 0, (trace->register_capacity - before) * sizeof *trace->registers);
    return CV_OK;
}

cv_status cv_trace_add_sink(cv_trace *trace, cv_batch_sink sink, void *context)
{
    CV_RESERVE(trace->sinks, trace->sink_capacity, trace->sink_count + 1);
    trace->sinks[trace->sink_count].eat = sink;
    trace->sinks[trace->sink_count++].context = context;
    return CV_OK;
}

void cv_trace_warmup(cv_trace *trace, int on) { trace->warmup = on; }

void cv_trace_stale(cv_trace *trace, uint64_t references) { trace->stale = references; }

const char *cv_trace_error(const cv_trace *trace, uint64_t *position)
{
    *position = trace->error_position;
    return trace->error;
}

const cv_trace_totals *cv_trace_totals_of(const cv_trace *trace) { return &trace->totals; }

/* What the decoder has of something: where it is, and how much. */
#define TOLD(WHAT, TYPE, ARRAY, COUNT)                               \
    size_t cv_trace_##WHAT(const cv_trace *trace, const TYPE **WHAT) \
    {                                                                \
        *WHAT = trace->ARRAY;                                        \
        return trace->COUNT;                                         \
    }
TOLD(system, uint8_t, system.bytes, system.count)
TOLD(modules, struct cv_wire_module, definitions.modules, definitions.module_count)
TOLD(segments, struct cv_wire_segment, definitions.segments, definitions.segment_count)
TOLD(instructions, struct cv_wire_instruction, definitions.instructions, definitions.instruction_count)
TOLD(sites, struct cv_wire_site, definitions.sites, definitions.site_count)
TOLD(code, uint8_t, definitions.code, definitions.code_count)
TOLD(features, cv_site_features, features, definitions.site_count)
TOLD(objects, cv_object, objects.all, objects.count)
TOLD(pairs, cv_pair, objects.pairs, objects.pair_count)
TOLD(units, cv_recorded_unit, units, unit_count)

const char *cv_trace_module_path(const cv_trace *trace, size_t module)
{
    return module < trace->definitions.module_count ? trace->definitions.path_text + trace->definitions.paths[module] : "";
}

size_t cv_trace_visits(const cv_trace *trace, uint64_t *visits, size_t capacity)
{
    size_t count = trace->definitions.segment_count;
    for (size_t i = 0; i < count && i < capacity; i++)
        visits[i] = trace->hot_segments[i].visits;
    return count;
}

const uint8_t *cv_trace_distinct(const cv_trace *trace, size_t segment)
{
    return segment < trace->definitions.segment_count ? trace->registers[segment] : NULL;
}

void cv_trace_flows(const cv_trace *trace, cv_flow *flow)
{
    const cv_flows *flows = &trace->definitions.flows;
    *flow = (cv_flow){flows->segments, flows->sites, flows->registers, flows->segment_count};
}
