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

/* A ring of the cycles at which its last `size` entries become free, and why not earlier. */
typedef struct {
    uint64_t *free_at;
    blame *why;
    uint32_t size, next;
} queue;

static inline int queue_new(queue *q, uint32_t size)
{
    q->size = size;
    q->next = 0;
    q->free_at = calloc(size, sizeof *q->free_at);
    q->why = calloc(size, sizeof *q->why);
    return q->free_at && q->why;
}

/* The cycle from which there is room for one more. */
static inline uint64_t queue_room(const queue *q) { return q->free_at[q->next]; }

static inline void queue_put(queue *q, uint64_t free_at, blame why)
{
    assert(q->next < q->size);
    q->free_at[q->next] = free_at;
    q->why[q->next] = why;
    if (++q->next == q->size)
        q->next = 0;
}

#endif
