/* The scheduler: instructions that were issued and wait for their operands or for a port.
 *
 * Each is bound to one of its ports when it is issued, to the one with the fewest that wait there, and keeps to it: cores do not ask which
 * port will be free once the operands are there, so that one may queue beside an idle one (docs/theory.md, "Core time"). */
#ifndef CV_CORE_SCHEDULER_H
#define CV_CORE_SCHEDULER_H

#include "ports.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SCHEDULER_PORTS 32 /* the last one stands for none */
#define SCHEDULER_NONE (SCHEDULER_PORTS - 1)
/* Cycles from issue until an instruction that waits for nothing has left, which the walk leaves out otherwise: uiCA has five, and one more
 * to count them. */
#define DISPATCH_CYCLES 6

typedef struct {
    uint64_t *leave; /* a binary heap, the first to leave on top: cycle * SCHEDULER_PORTS + port */
    uint32_t size, count;
    uint32_t bound[SCHEDULER_PORTS]; /* those that wait, by port */
} scheduler;

static inline int scheduler_new(scheduler *s, uint32_t size)
{
    s->size = size;
    s->count = 0;
    s->leave = calloc(size, sizeof *s->leave);
    return s->leave != NULL;
}

static inline void scheduler_clear(scheduler *s)
{
    s->count = 0;
    memset(s->bound, 0, sizeof s->bound);
}

static inline void scheduler_pop(scheduler *s)
{
    assert(s->count > 0 && s->bound[s->leave[0] % SCHEDULER_PORTS] > 0);
    s->bound[s->leave[0] % SCHEDULER_PORTS]--;
    const uint64_t last = s->leave[--s->count];
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < s->count; at = child) {
        if (child + 1 < s->count && s->leave[child + 1] < s->leave[child])
            child++;
        if (s->leave[child] >= last)
            break;
        s->leave[at] = s->leave[child];
    }
    s->leave[at] = last;
}

/* An instruction starts at `cycle`, on `port` or without one. */
static inline void scheduler_put(scheduler *s, uint64_t cycle, uint32_t port)
{
    assert(s->count < s->size && port < SCHEDULER_PORTS && cycle < UINT64_MAX / SCHEDULER_PORTS - DISPATCH_CYCLES);
    const uint64_t leave = (cycle + DISPATCH_CYCLES) * SCHEDULER_PORTS + port;
    uint32_t at = s->count++;
    for (; at && s->leave[(at - 1) / 2] > leave; at = (at - 1) / 2)
        s->leave[at] = s->leave[(at - 1) / 2];
    s->leave[at] = leave;
    s->bound[port]++;
}

/* The first cycle from `cycle` on in which there is room. */
static inline uint64_t scheduler_room(scheduler *s, uint64_t cycle)
{
    while (s->count && s->leave[0] / SCHEDULER_PORTS <= cycle)
        scheduler_pop(s);
    if (s->count < s->size)
        return cycle;
    cycle = s->leave[0] / SCHEDULER_PORTS;
    scheduler_pop(s);
    return cycle;
}

/* The port of a mask that the fewest wait for; among equals the first. */
static inline uint32_t scheduler_bind(const scheduler *s, uint32_t ports) { return ports_least(ports, s->bound); }

#endif
