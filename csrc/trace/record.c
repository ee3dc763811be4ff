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

/* Make room for records of some words, heads included; all definitions are known to the writer afterwards. */
static cv_status begin(cv_trace *trace, size_t words, uint8_t **to)
{
    words += 2; /* for CV_WIRE_PASSED and CV_WIRE_EVENTS */
    cv_bytes *out = &trace->recorded[CV_RECORDED_ADDRESSES];
    cv_status status = CV_OK;
    if (trace->writer.segment_count != trace->definitions.segment_count)
        status = cv_address_know(&trace->writer, &trace->definitions);
    if (!status)
        status = cv_bytes_reserve(out, out->count + words * CV_ADDRESS_BYTES);
    if (status)
        return status;
    *to = out->bytes + out->count;
    trace->chunk_words += words;
    if (trace->passed)
        *to = cv_address_put_control(*to, CV_WIRE_PASSED, trace->passed);
    if (trace->objects.unmarked)
        *to = cv_address_put_control(*to, CV_WIRE_EVENTS, trace->objects.unmarked);
    trace->passed = trace->objects.unmarked = 0;
    return CV_OK;
}

static void end(cv_trace *trace, const uint8_t *to)
{
    cv_bytes *out = &trace->recorded[CV_RECORDED_ADDRESSES];
    out->count = (size_t)(to - out->bytes);
}

cv_status cv_recorder_visits(cv_trace *trace, uint32_t segment, const uint64_t *words, size_t count, size_t visits)
{
    uint8_t *to;
    cv_status status = begin(trace, visits * (count + 1), &to);
    if (!status)
        end(trace, cv_address_put_visits(&trace->writer, to, segment, words, count, visits));
    return status;
}

cv_status cv_recorder_sampled(cv_trace *trace, uint32_t site, uint64_t line)
{
    uint8_t *to;
    cv_status status = begin(trace, 2, &to);
    if (!status)
        end(trace, cv_address_put_sampled(&trace->writer, to, site, line));
    return status;
}

cv_status cv_recorder_control(cv_trace *trace, const uint64_t *words, size_t count)
{
    uint8_t *to;
    cv_status status = begin(trace, count + 1, &to);
    if (status)
        return status;
    to = cv_address_put_control(to, words[0] >> 56 & 63, words[0] & ((UINT64_C(1) << 56) - 1));
    for (size_t i = 1; i < count; i++)
        to = cv_address_put_word(to, words[i]);
    end(trace, to);
    return CV_OK;
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

void cv_trace_record(cv_trace *trace, int on)
{
    trace->recording = on;
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
    return trace->recorded[CV_RECORDED_ADDRESSES].count >= CHUNK_BYTES || trace->recorded[CV_RECORDED_SEGMENTS].count >= CHUNK_BYTES ||
           trace->recorded[CV_RECORDED_EVENTS].count >= CHUNK_BYTES || trace->chunk_words >= CHUNK_WORDS;
}

void cv_trace_taken(cv_trace *trace)
{
    for (int kind = 0; kind < CV_RECORDED_KINDS; kind++)
        trace->recorded[kind].count = 0;
    trace->chunk_words = trace->objects.last_object = trace->objects.last_address = 0;
    cv_address_begin(&trace->writer);
}
