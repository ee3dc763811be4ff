/* The scheduler: instructions that were issued and wait for their operands or for a port.
 *
 * Each is bound to one of its ports when it is issued, to the one with the fewest that wait there, and keeps to it: cores do not ask which
 * port will be free once the operands are there, so that one may queue beside an idle one (docs/theory.md, "Core time"). Cores with
 * late_ports do ask, and bind none. */
#ifndef CV_CORE_SCHEDULER_H
#define CV_CORE_SCHEDULER_H

#include "ports.h"
#include "queues.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SCHEDULER_PORTS PORTS /* the last one stands for none */
#define SCHEDULER_NONE (SCHEDULER_PORTS - 1)
/* Cycles from issue until an instruction that waits for nothing has left, which the walk leaves out otherwise: uiCA has five, and one more
 * to count them. */
#define DISPATCH_CYCLES 6

#define WHEEL 2048 /* cycles ahead that have a bucket each; a power of two */

typedef struct {
    uint32_t next; /* 1 + the next of its bucket, or of those that are free; 0: none */
    blame why;
    uint8_t port;
} waiting_entry;

typedef struct {
    waiting_entry *entry;
    uint64_t *late; /* those that leave beyond the wheel: a binary heap, the first to leave on top: cycle * SCHEDULER_PORTS + port */
    uint32_t size, count, late_count;
    uint64_t past; /* all that left up to this cycle is gone */
    uint32_t bucket[WHEEL], spare;
    uint32_t bound[SCHEDULER_PORTS]; /* those that wait, by port (ports.h) */
} scheduler;

static inline void scheduler_clear(scheduler *s, uint64_t now)
{
    memset(s->bucket, 0, sizeof s->bucket);
    ports_count_none(s->bound);
    for (uint32_t i = 0; i < s->size; i++)
        s->entry[i].next = (uint32_t)(i + 1 < s->size ? i + 2 : 0);
    s->spare = 1;
    s->count = s->late_count = 0;
    s->past = now;
}

static inline int scheduler_new(scheduler *s, uint32_t size)
{
    s->size = size;
    s->entry = calloc(size, sizeof *s->entry);
    s->late = calloc(size, sizeof *s->late);
    return s->entry && s->late;
}

static inline void late_pop(scheduler *s)
{
    assert(s->late_count > 0 && s->bound[s->late[0] % SCHEDULER_PORTS] >= ONE_MORE);
    s->bound[s->late[0] % SCHEDULER_PORTS] -= ONE_MORE;
    const uint64_t last = s->late[--s->late_count];
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < s->late_count; at = child) {
        if (child + 1 < s->late_count && s->late[child + 1] < s->late[child])
            child++;
        if (s->late[child] >= last)
            break;
        s->late[at] = s->late[child];
    }
    s->late[at] = last;
    s->count--;
}

/* An instruction starts at `cycle`, on `port` or without one. */
static inline void scheduler_put(scheduler *s, uint64_t cycle, uint32_t port, blame why)
{
    assert(s->count < s->size && port < SCHEDULER_PORTS && cycle < UINT64_MAX / SCHEDULER_PORTS - DISPATCH_CYCLES);
    const uint64_t leaves = cycle + DISPATCH_CYCLES;
    s->count++;
    s->bound[port] += ONE_MORE;
    if (leaves - s->past < WHEEL) {
        waiting_entry *const one = &s->entry[s->spare - 1];
        uint32_t *const bucket = &s->bucket[leaves & (WHEEL - 1)];
        const uint32_t number = s->spare;
        s->spare = one->next;
        *one = (waiting_entry){*bucket, why, (uint8_t)port};
        *bucket = number;
        return;
    }
    const uint64_t key = leaves * SCHEDULER_PORTS + port;
    uint32_t at = s->late_count++;
    for (; at && s->late[(at - 1) / 2] > key; at = (at - 1) / 2)
        s->late[at] = s->late[(at - 1) / 2];
    s->late[at] = key;
}

/* Take the entry that a link leads to out of its bucket. */
static inline void wheel_take(scheduler *s, uint32_t *link)
{
    const uint32_t number = *link;
    waiting_entry *const one = &s->entry[number - 1];
    assert(s->bound[one->port] >= ONE_MORE);
    s->bound[one->port] -= ONE_MORE;
    *link = one->next;
    one->next = s->spare;
    s->spare = number;
    s->count--;
}

/* Take all entries of a bucket out of it. */
static inline void wheel_empty(scheduler *s, uint32_t *bucket)
{
    waiting_entry *last = NULL;
    for (uint32_t number = *bucket; number; number = last->next) {
        last = &s->entry[number - 1];
        assert(s->bound[last->port] >= ONE_MORE);
        s->bound[last->port] -= ONE_MORE;
        s->count--;
    }
    if (last) {
        last->next = s->spare;
        s->spare = *bucket;
        *bucket = 0;
    }
}

/* The one of a bucket that has the least port. */
static inline uint32_t *wheel_first(scheduler *s, uint32_t *bucket)
{
    uint32_t *first = bucket;
    for (uint32_t *link = bucket; *link; link = &s->entry[*link - 1].next)
        if (s->entry[*link - 1].port < s->entry[*first - 1].port)
            first = link;
    return first;
}

/* The first one leaves, of those that leave at once that of the least port; returns when. *why stays for one from after the wheel. */
static inline uint64_t scheduler_pop(scheduler *s, blame *why)
{
    uint64_t near = UINT64_MAX, cycle = s->past + 1;
    uint32_t *first = NULL;
    if (s->count > s->late_count) {
        while (!s->bucket[cycle & (WHEEL - 1)])
            cycle++;
        first = wheel_first(s, &s->bucket[cycle & (WHEEL - 1)]);
        near = cycle * SCHEDULER_PORTS + s->entry[*first - 1].port;
    }
    if (s->late_count && s->late[0] < near) {
        cycle = s->late[0] / SCHEDULER_PORTS;
        late_pop(s);
    } else {
        *why = s->entry[*first - 1].why;
        wheel_take(s, first);
    }
    s->past = cycle - 1;
    return cycle;
}

/* The first cycle from `cycle` on in which there is room; *why not earlier, where that is known. */
static inline uint64_t scheduler_room(scheduler *s, uint64_t cycle, blame *why)
{
    for (; s->past < cycle && s->count > s->late_count; s->past++)
        wheel_empty(s, &s->bucket[(s->past + 1) & (WHEEL - 1)]);
    s->past = s->past < cycle ? cycle : s->past;
    while (s->late_count && s->late[0] / SCHEDULER_PORTS <= cycle)
        late_pop(s);
    if (s->count < s->size)
        return cycle;
    return scheduler_pop(s, why);
}

/* The port of a mask that the fewest wait for; among equals the first. */
static inline uint32_t scheduler_bind(const scheduler *s, uint32_t ports) { return ports_least(ports, s->bound); }

#endif
