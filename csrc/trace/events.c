/* Events of data objects as they are kept in files (docs/formats/cvt.md). */
#include "../common/interrupt.h"
#include "grow.h"
#include "objects.h"
#include "varint.h"

uint8_t *cv_event_put(cv_objects *objects, uint8_t *to, const cv_event *event)
{
    const uint64_t *w = event->word;
    *to++ = (uint8_t)event->kind;
    if (event->kind == CV_WIRE_LOADED)
        return cv_varint_put(cv_varint_put(to, w[0]), w[1]);
    if (event->kind == CV_WIRE_PLACED) {
        to = cv_varint_put(to, cv_zigzag(w[0] - objects->last_object));
        objects->last_object = *w++;
    }
    to = cv_varint_put(to, cv_zigzag(w[0] - objects->last_address));
    objects->last_address = w[0];
    if (event->kind == CV_WIRE_MOVED)
        to = cv_varint_put(to, cv_zigzag(w[1] - w[0])), w++;
    return event->kind == CV_WIRE_FREED ? to : cv_varint_put(to, w[1]);
}

/* Read numbers of an event; differences become what they stand for. Returns NULL when the bytes end before. */
static const uint8_t *get(cv_event *event, const uint8_t *at, const uint8_t *end, uint64_t *last_object, uint64_t *last_address)
{
    unsigned words = cv_event_words(event->kind);
    for (unsigned i = 0; i < words && at; i++)
        at = cv_varint_get(at, end, &event->word[i]);
    if (!at || event->kind == CV_WIRE_LOADED)
        return at;
    uint64_t *w = event->word;
    if (event->kind == CV_WIRE_PLACED) {
        *w = *last_object += cv_unzigzag(*w);
        w++;
    }
    *w = *last_address += cv_unzigzag(*w);
    if (event->kind == CV_WIRE_MOVED)
        w[1] = w[0] + cv_unzigzag(w[1]);
    return at;
}

cv_status cv_events_get(cv_objects *objects, const uint8_t *bytes, size_t size, const char **why)
{
    const uint8_t *at = bytes, *end = bytes + size;
    uint64_t last_object = 0, last_address = 0;
    uint32_t steps = 0;
    cv_status status = CV_OK;
    if (objects->queue_first == objects->queue_count)
        objects->queue_first = objects->queue_count = 0;
    while (at < end && !status) {
        cv_event event = {.kind = *at++};
        if (!cv_event_words(event.kind))
            *why = "an event of data objects is of a kind that is not known";
        else if (!(at = get(&event, at, end, &last_object, &last_address)))
            *why = "an event of data objects is cut off";
        else
            *why = cv_event_check(objects, &event);
        if (*why)
            return CV_ERROR_FORMAT;
        CV_RESERVE(objects->queue, objects->queue_capacity, objects->queue_count + 1);
        objects->queue[objects->queue_count++] = event;
        status = cv_interrupt_look(&steps);
    }
    return status;
}
