/* Buffers of the core whose entries are freed in order. */
#ifndef CV_CORE_QUEUES_H
#define CV_CORE_QUEUES_H

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The operation that is to blame for a delay, its cause (enum cv_core_cause), and when it was issued. */
typedef struct {
    uint64_t since;
    uint32_t operation, cause;
} blame;

typedef struct {
    uint64_t free_at;
    blame why; /* not earlier */
} queue_entry;

/* A ring of the cycles at which its last `size` entries become free. */
typedef struct {
    queue_entry *entry, *end, *next;
    uint32_t size;
} queue;

static inline int queue_new(queue *q, uint32_t size)
{
    q->size = size;
    q->next = q->entry = calloc(size, sizeof *q->entry);
    q->end = q->entry ? q->entry + size : NULL;
    return q->entry != NULL;
}

/* The cycle from which there is room for one more. */
static inline uint64_t queue_room(const queue *q) { return q->next->free_at; }

/* Another entry, of a buffer that is never to blame. */
static inline void queue_put_cycle(queue *q, uint64_t free_at)
{
    assert(q->next < q->end);
    q->next->free_at = free_at;
    if (++q->next == q->end)
        q->next = q->entry;
}

static inline void queue_put(queue *q, uint64_t free_at, blame why)
{
    q->next->why = why;
    queue_put_cycle(q, free_at);
}

#endif
