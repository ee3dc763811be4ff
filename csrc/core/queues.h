/* Buffers of the core whose entries are freed in order. */
#ifndef CV_CORE_QUEUES_H
#define CV_CORE_QUEUES_H

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A ring of the cycles at which its last `size` entries become free. */
typedef struct {
    uint64_t *free_at;
    uint32_t size, next;
} queue;

static inline int queue_new(queue *q, uint32_t size)
{
    q->size = size;
    q->next = 0;
    q->free_at = calloc(size, sizeof *q->free_at);
    return q->free_at != NULL;
}

/* The cycle from which there is room for one more. */
static inline uint64_t queue_room(const queue *q) { return q->free_at[q->next]; }

static inline void queue_put(queue *q, uint64_t free_at)
{
    assert(q->next < q->size);
    q->free_at[q->next] = free_at;
    if (++q->next == q->size)
        q->next = 0;
}

#endif
