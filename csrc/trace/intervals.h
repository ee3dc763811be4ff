/* Disjoint ranges of addresses, each with what is there. A treap (Aragon and Seidel 1989): ordered by address, and by random
 * priorities a heap, so that its depth is logarithmic however the ranges come. */
#ifndef CV_INTERVALS_H
#define CV_INTERVALS_H

#include "cv_status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t start, length; /* 0 bytes: not in use */
    uint32_t what;
    uint32_t priority;
    uint32_t left, right; /* nodes; 0: none */
} cv_interval;

typedef struct {
    cv_interval *nodes; /* the first stands for none and has 0 bytes; NULL at first */
    size_t count, capacity;
    uint32_t root, spare;
    uint64_t random;
} cv_intervals;

/* Called for each range, or part of one, that goes away. */
typedef void (*cv_interval_gone)(void *context, uint32_t what, uint64_t bytes);

void cv_intervals_free(cv_intervals *map);
/* From now on [start, start + length) is `what`, whatever was there; the range does not wrap around. */
cv_status cv_intervals_assign(cv_intervals *map, uint64_t start, uint64_t length, uint32_t what, cv_interval_gone gone, void *context);
cv_status cv_intervals_clear(cv_intervals *map, uint64_t start, uint64_t length, cv_interval_gone gone, void *context);
/* The last range that begins at or before an address, and the first after it; 0 where there is none. */
void cv_intervals_around(const cv_intervals *map, uint64_t address, uint32_t *before, uint32_t *after);

/* Does the range of a node (which may be 0, or may have changed since) hold the address? */
static inline int cv_interval_holds(const cv_interval *nodes, uint32_t node, uint64_t address)
{
    return address - nodes[node].start < nodes[node].length;
}

#endif
