/* The event queue: a 4-ary heap ordered by (time, serial number). Four children share a cache line or two, so a queue of 16,384
 * ranks is seven levels deep. */
#include "internal.h"

static inline bool before(const event *a, const event *b) { return a->time < b->time || (a->time == b->time && a->order < b->order); }

bool cv_queue_push(queue *q, double time, enum event_kind kind, uint32_t id)
{
    if (!CV_ROOM(q->heap, q->capacity, q->count))
        return false;
    event added = {time, q->serial++ << 3 | kind, id};
    size_t i = q->count++;
    while (i > 0) {
        size_t parent = (i - 1) / 4;
        if (!before(&added, &q->heap[parent]))
            break;
        q->heap[i] = q->heap[parent];
        i = parent;
    }
    q->heap[i] = added;
    return true;
}

event cv_queue_pop(queue *q)
{
    assert(q->count > 0);
    event top = q->heap[0], moved = q->heap[--q->count];
    size_t i = 0;
    for (;;) {
        size_t child = 4 * i + 1, last = child + 4 < q->count ? child + 4 : q->count, least = child;
        if (child >= q->count)
            break;
        for (size_t c = child + 1; c < last; c++)
            if (before(&q->heap[c], &q->heap[least]))
                least = c;
        if (!before(&q->heap[least], &moved))
            break;
        q->heap[i] = q->heap[least];
        i = least;
    }
    q->heap[i] = moved;
    q->processed++;
    return top;
}
