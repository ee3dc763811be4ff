/* What was decoded, in the form of the trace file's chunks. */
#include "grow.h"
#include "trace.h"

#include <string.h>

#define CHUNK_BYTES ((size_t)1 << 20)   /* encoded */
#define CHUNK_WORDS ((uint64_t)1 << 18) /* of the wire: bounds what a reader must unpack at once */

cv_status cv_bytes_reserve(cv_bytes *bytes, size_t needed)
{
    CV_RESERVE(bytes->bytes, bytes->capacity, needed);
    return CV_OK;
}

/* Where the last unit begins in what was recorded of a kind. */
static size_t unit_begin(const cv_trace *trace, int kind)
{
    const cv_recorded_unit *unit = &trace->units[trace->unit_count - 1];
    return (size_t)(kind == CV_RECORDED_SETS ? unit->sets : unit->addresses);
}

static int is_unit_empty(const cv_trace *trace, int kind) { return trace->recorded[kind].count == unit_begin(trace, kind); }

/* Make room for records of some words, heads included; all definitions are known to the writer afterwards. */
static cv_status begin(cv_trace *trace, int kind, size_t words, uint8_t **to)
{
    words += 3; /* for CV_WIRE_PASSED, CV_WIRE_EVENTS and a unit's CV_WIRE_THREAD */
    cv_bytes *out = &trace->recorded[kind];
    cv_status status = CV_OK;
    if (trace->writer.segment_count != trace->definitions.segment_count)
        status = cv_address_know(&trace->writer, &trace->definitions);
    if (!status)
        status = cv_bytes_reserve(out, out->count + words * CV_ADDRESS_BYTES);
    if (status)
        return status;
    *to = out->bytes + out->count;
    trace->chunk_words += words;
    if (trace->recording == CV_RECORD_UNITS && trace->now.thread && is_unit_empty(trace, kind))
        *to = cv_address_put_control(*to, CV_WIRE_THREAD, trace->now.thread);
    if (trace->passed)
        *to = cv_address_put_control(*to, CV_WIRE_PASSED, trace->passed);
    if (trace->objects.unmarked)
        *to = cv_address_put_control(*to, CV_WIRE_EVENTS, trace->objects.unmarked);
    trace->passed = trace->objects.unmarked = 0;
    return CV_OK;
}

static void end(cv_trace *trace, int kind, const uint8_t *to)
{
    cv_bytes *out = &trace->recorded[kind];
    out->count = (size_t)(to - out->bytes);
}

static int kind_of_sets(const cv_trace *trace) { return trace->recording == CV_RECORD_UNITS ? CV_RECORDED_SETS : CV_RECORDED_ADDRESSES; }

cv_status cv_recorder_visits(cv_trace *trace, uint32_t segment, const uint64_t *words, size_t count, size_t visits)
{
    uint8_t *to;
    cv_status status = begin(trace, CV_RECORDED_ADDRESSES, visits * (count + 1), &to);
    if (!status)
        end(trace, CV_RECORDED_ADDRESSES, cv_address_put_visits(&trace->writer, to, segment, words, count, visits));
    return status;
}

cv_status cv_recorder_sampled(cv_trace *trace, uint32_t site, uint64_t line)
{
    uint8_t *to;
    cv_status status = begin(trace, kind_of_sets(trace), 2, &to);
    if (!status)
        end(trace, kind_of_sets(trace), cv_address_put_sampled(&trace->writer, to, site, line));
    return status;
}

static cv_status put_control(cv_trace *trace, int kind, const uint64_t *words, size_t count)
{
    uint8_t *to;
    cv_status status = begin(trace, kind, count + 1, &to);
    if (status)
        return status;
    to = cv_address_put_control(to, words[0] >> 56 & 63, words[0] & ((UINT64_C(1) << 56) - 1));
    for (size_t i = 1; i < count; i++)
        to = cv_address_put_word(to, words[i]);
    end(trace, kind, to);
    return CV_OK;
}

static cv_status begin_unit(cv_trace *trace, uint64_t interval)
{
    CV_RESERVE(trace->units, trace->unit_capacity, trace->unit_count + 1);
    trace->units[trace->unit_count++] =
        (cv_recorded_unit){interval, trace->recorded[CV_RECORDED_ADDRESSES].count, trace->recorded[CV_RECORDED_SETS].count};
    cv_address_begin(&trace->writer);
    return CV_OK;
}

/* Units know their thread from their beginning: a switch before it need not be reported. */
static cv_status put_in_units(cv_trace *trace, unsigned kind, const uint64_t *words, size_t count)
{
    if (kind == CV_WIRE_INTERVAL)
        return begin_unit(trace, words[0] & ((UINT64_C(1) << 56) - 1));
    if (kind != CV_WIRE_THREAD)
        return put_control(trace, kind == CV_WIRE_SETS_LOST ? CV_RECORDED_SETS : CV_RECORDED_ADDRESSES, words, count);
    cv_status status = CV_OK;
    if (!is_unit_empty(trace, CV_RECORDED_ADDRESSES))
        status = put_control(trace, CV_RECORDED_ADDRESSES, words, count);
    if (!status && !is_unit_empty(trace, CV_RECORDED_SETS))
        status = put_control(trace, CV_RECORDED_SETS, words, count);
    return status;
}

cv_status cv_recorder_control(cv_trace *trace, const uint64_t *words, size_t count)
{
    if (trace->recording == CV_RECORD_UNITS)
        return put_in_units(trace, words[0] >> 56 & 63, words, count);
    return put_control(trace, CV_RECORDED_ADDRESSES, words, count);
}

cv_status cv_recorder_event(cv_trace *trace, const cv_event *event)
{
    cv_bytes *out = &trace->recorded[CV_RECORDED_EVENTS];
    cv_status status = cv_bytes_reserve(out, out->count + CV_EVENT_BYTES);
    if (status)
        return status;
    out->count = (size_t)(cv_event_put(&trace->objects, out->bytes + out->count, event) - out->bytes);
    trace->objects.unmarked++;
    return CV_OK;
}

void cv_trace_record(cv_trace *trace, int how)
{
    trace->recording = how == CV_RECORD_UNITS && begin_unit(trace, 0) ? CV_RECORD_ALL : (enum cv_recording)how;
    cv_address_begin(&trace->writer);
}

const uint8_t *cv_trace_recorded(const cv_trace *trace, int kind, size_t *size)
{
    *size = 0;
    if (kind < 0 || kind >= CV_RECORDED_KINDS)
        return NULL;
    *size = trace->recorded[kind].count;
    return trace->recorded[kind].bytes;
}

int cv_trace_chunk_full(const cv_trace *trace)
{
    return trace->recorded[CV_RECORDED_ADDRESSES].count >= CHUNK_BYTES || trace->recorded[CV_RECORDED_SETS].count >= CHUNK_BYTES ||
           trace->recorded[CV_RECORDED_SEGMENTS].count >= CHUNK_BYTES || trace->recorded[CV_RECORDED_EVENTS].count >= CHUNK_BYTES ||
           trace->chunk_words >= CHUNK_WORDS;
}

void cv_trace_taken(cv_trace *trace)
{
    for (int kind = 0; kind < CV_RECORDED_KINDS; kind++)
        trace->recorded[kind].count = 0;
    trace->chunk_words = trace->objects.last_object = trace->objects.last_address = 0;
    if (trace->unit_count) {
        trace->units[0] = (cv_recorded_unit){.interval = trace->units[trace->unit_count - 1].interval};
        trace->unit_count = 1;
    }
    cv_address_begin(&trace->writer);
}
