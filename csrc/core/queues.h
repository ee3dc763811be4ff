/* Buffers of the core: rings that free their entries in order, and the scheduler, which frees them as they start. */
#ifndef CV_CORE_QUEUES_H
#define CV_CORE_QUEUES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A ring of the cycles at which its last `size` entries become free. */
typedef struct {
    uint64_t *free_at;
    uint32_t size, next;
} queue;

static inline int queue_new(queue *q, uint32_t size) {
    q->size = size;
    q->next = 0;
    q->free_at = calloc(size, sizeof *q->free_at);
    return q->free_at != NULL;
}

static inline void queue_clear(queue *q) { memset(q->free_at, 0, q->size * sizeof *q->free_at); }

/* The cycle from which there is room for one more. */
static inline uint64_t queue_room(const queue *q) { return q->free_at[q->next]; }

static inline void queue_put(queue *q, uint64_t free_at) {
    q->free_at[q->next] = free_at;
    if (++q->next == q->size)
        q->next = 0;
}

/* A binary heap of the cycles at which entries leave, the first on top. */
typedef struct {
    uint64_t *leave;
    uint32_t size, count;
} heap;

static inline int heap_new(heap *h, uint32_t size) {
    h->size = size;
    h->count = 0;
    h->leave = calloc(size, sizeof *h->leave);
    return h->leave != NULL;
}

static inline void heap_pop(heap *h) {
    const uint64_t last = h->leave[--h->count];
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < h->count; at = child) {
        if (child + 1 < h->count && h->leave[child + 1] < h->leave[child])
            child++;
        if (h->leave[child] >= last)
            break;
        h->leave[at] = h->leave[child];
    }
    h->leave[at] = last;
}

static inline void heap_push(heap *h, uint64_t leave) {
    uint32_t at = h->count++;
    for (; at && h->leave[(at - 1) / 2] > leave; at = (at - 1) / 2)
        h->leave[at] = h->leave[(at - 1) / 2];
    h->leave[at] = leave;
}

/* The first cycle from `cycle` on in which there is room. */
static inline uint64_t heap_room(heap *h, uint64_t cycle) {
    while (h->count && h->leave[0] <= cycle)
        heap_pop(h);
    if (h->count < h->size)
        return cycle;
    cycle = h->leave[0];
    heap_pop(h);
    return cycle;
}

#endif
