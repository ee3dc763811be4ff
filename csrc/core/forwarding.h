/* Stores that loads behind them can read from: the last one of each eight bytes, in a table that forgets the older of two that collide. */
#ifndef CV_CORE_FORWARDING_H
#define CV_CORE_FORWARDING_H

#include <stdint.h>
#include <string.h>

#define STORES 4096 /* entries; a power of two */

typedef struct {
    uint64_t word; /* address / 8 + 1; 0: empty */
    uint64_t address;
    uint64_t ready;  /* cycle of its data */
    uint64_t cached; /* cycle from which it is in the cache and no longer forwarded */
    uint32_t bytes;
} store_entry;

typedef struct {
    store_entry entry[STORES];
} forwarding;

enum forward { FORWARD_NONE, FORWARD_WHOLE, FORWARD_PART };

static inline store_entry *forwarding_slot(forwarding *f, uint64_t word) { return &f->entry[(word ^ word >> 12) & (STORES - 1)]; }

static inline void forwarding_put(forwarding *f, uint64_t address, uint32_t bytes, uint64_t ready, uint64_t cached)
{
    const uint64_t last = (address + (bytes ? bytes - 1 : 0)) >> 3;
    for (uint64_t word = address >> 3; word <= last; word++)
        *forwarding_slot(f, word) = (store_entry){word + 1, address, ready, cached, bytes};
}

/* Look for a store that holds bytes of a load which begins at `cycle`; *store is the last that does. */
static inline enum forward forwarding_find(forwarding *f, uint64_t address, uint32_t bytes, uint64_t cycle, const store_entry **store)
{
    const uint64_t end = address + bytes, last = (end - (bytes ? 1 : 0)) >> 3;
    enum forward found = FORWARD_NONE;
    for (uint64_t word = address >> 3; word <= last; word++) {
        const store_entry *const e = forwarding_slot(f, word);
        if (e->word != word + 1 || e->cached <= cycle || e->address >= end || e->address + e->bytes <= address)
            continue;
        if (found == FORWARD_NONE || e->ready > (*store)->ready)
            *store = e;
        found = e->address <= address && e->address + e->bytes >= end && found != FORWARD_PART ? FORWARD_WHOLE : FORWARD_PART;
    }
    return found;
}

#endif
