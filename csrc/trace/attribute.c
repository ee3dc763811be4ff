/* From events and references to pairs: when what is applied. */
#include "../common/interrupt.h"
#include "grow.h"
#include "trace.h"

cv_status cv_attribute(cv_trace *trace, int kind)
{
    cv_batch_arrays *batch = &trace->batch[kind];
    size_t from = batch->attributed;
    if (!trace->objects.on || from == batch->count)
        return CV_OK;
    batch->attributed = batch->count;
    return cv_objects_find(&trace->objects, trace->definitions.site_count, batch->address + from, batch->owner + from, batch->pair + from,
                           batch->count - from, kind == CV_BATCH_SETS);
}

static cv_status apply(cv_trace *trace, const cv_event *event)
{
    cv_status status = cv_attribute(trace, CV_BATCH_WINDOW);
    if (!status)
        status = cv_attribute(trace, CV_BATCH_SETS);
    return status ? status : cv_objects_apply(&trace->objects, event);
}

cv_status cv_event_record(cv_trace *trace, const uint64_t *words, size_t payload)
{
    cv_event event = {.kind = (uint32_t)(words[0] >> 32 & 0xffffff)};
    const char *why = NULL;
    if (!cv_event_words(event.kind) || cv_event_words(event.kind) != payload)
        why = "an event of data objects has another length than its kind";
    for (size_t i = 0; i < payload && !why; i++)
        event.word[i] = words[1 + i];
    if (!why)
        why = cv_event_check(&trace->objects, &event);
    if (why)
        return cv_trace_refuse(trace, why, trace->totals.words);
    cv_status status = trace->recording ? cv_recorder_event(trace, &event) : CV_OK;
    return status || !trace->objects.on ? status : apply(trace, &event);
}

cv_status cv_events_take(cv_trace *trace, uint64_t count)
{
    cv_objects *objects = &trace->objects;
    if (!objects->on)
        return CV_OK;
    if (count > objects->queue_count - objects->queue_first)
        return cv_trace_refuse(trace, "events of data objects are missing", trace->totals.words);
    cv_status status = CV_OK;
    uint32_t steps = 0;
    for (; count && !status; count--) {
        status = apply(trace, &objects->queue[objects->queue_first++]);
        if (!status)
            status = cv_interrupt_look(&steps);
    }
    return status;
}

cv_status cv_events_rest(cv_trace *trace) { return cv_events_take(trace, trace->objects.queue_count - trace->objects.queue_first); }

void cv_trace_attribute(cv_trace *trace, int owners)
{
    trace->objects.on = 1;
    trace->objects.owners = owners;
}

cv_status cv_trace_events(cv_trace *trace, const void *bytes, size_t size)
{
    const char *why = NULL;
    cv_status status = trace->error ? CV_ERROR_FORMAT : cv_events_get(&trace->objects, bytes, size, &why);
    return why ? cv_trace_refuse(trace, why, trace->totals.words) : status;
}

const char *cv_trace_object_text(const cv_trace *trace, size_t object)
{
    return object < trace->objects.count ? trace->objects.text + trace->objects.texts[object] : "";
}
