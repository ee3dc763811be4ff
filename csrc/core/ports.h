/* Which ports are taken in which cycle: a calendar that wraps around. What lies more than its length ahead of the rest is forgotten,
 * which costs nothing but the memory of a port that was taken then. */
#ifndef CV_CORE_PORTS_H
#define CV_CORE_PORTS_H

#include <assert.h>
#include <stdint.h>
#include <string.h>

#define CALENDAR 8192 /* cycles */

/* Counts by port have the port in their low bits: of equal ones the first is the least. */
#define PORTS 32
#define ONE_MORE PORTS

static inline void ports_count_none(uint32_t *counts)
{
    for (uint32_t port = 0; port < PORTS; port++)
        counts[port] = port;
}

typedef struct {
    uint32_t cycle, taken; /* low bits of the cycle that the entry stands for; bit p: port p is taken */
} calendar_entry;

typedef struct {
    calendar_entry entry[CALENDAR];
    uint32_t uses[PORTS], turns; /* of each port lately */
    uint32_t taken;              /* the port that was taken last */
} port_calendar;

static inline void ports_clear(port_calendar *ports) { memset(ports->entry, 0xff, sizeof ports->entry); }

static inline void ports_forget_uses(port_calendar *ports)
{
    ports_count_none(ports->uses);
    ports->turns = 0;
}

static inline calendar_entry *ports_at(port_calendar *ports, uint64_t cycle)
{
    calendar_entry *e = &ports->entry[cycle & (CALENDAR - 1)];
    if (e->cycle != (uint32_t)cycle) {
        e->cycle = (uint32_t)cycle;
        e->taken = 0;
    }
    return e;
}

/* The port of a mask with the least count; among equals the first. */
static inline uint32_t ports_least(uint32_t mask, const uint32_t *counts)
{
    assert(mask);
    uint32_t best = UINT32_MAX; /* no branch that hangs on counts, which nobody predicts */
    for (; mask; mask &= mask - 1) {
        const uint32_t count = counts[__builtin_ctz(mask)];
        best = count < best ? count : best;
    }
    return best % PORTS;
}

/* A port is busy from a cycle on. */
static inline void ports_use(port_calendar *ports, calendar_entry *e, uint32_t port, uint32_t busy, uint64_t cycle)
{
    if (!(++ports->turns & 255))
        for (uint32_t i = 0; i < PORTS; i++)
            ports->uses[i] = ports->uses[i] / (2 * PORTS) * PORTS + i;
    ports->taken = port;
    ports->uses[port] += busy * ONE_MORE;
    e->taken |= UINT32_C(1) << port;
    for (uint32_t i = 1; i < busy; i++)
        ports_at(ports, cycle + i)->taken |= UINT32_C(1) << port;
}

/* Take one of the ports in `mask` from the first cycle on in which one is free; returns that cycle. Loads and stores are not bound to one
 * of their ports when they are issued (scheduler.h): the free one that was used least goes first. */
static inline uint64_t ports_take(port_calendar *ports, uint32_t mask, uint32_t busy, uint64_t cycle)
{
    calendar_entry *e;
    uint32_t free;
    assert(mask && busy < CALENDAR);
    while (!(free = mask & ~(e = ports_at(ports, cycle))->taken))
        cycle++;
    ports_use(ports, e, ports_least(free, ports->uses), busy, cycle);
    return cycle;
}

/* The same of one port. */
static inline uint64_t ports_take_one(port_calendar *ports, uint32_t port, uint32_t busy, uint64_t cycle)
{
    calendar_entry *e;
    assert(busy < CALENDAR);
    while ((e = ports_at(ports, cycle))->taken >> port & 1)
        cycle++;
    ports_use(ports, e, port, busy, cycle);
    return cycle;
}

#endif
