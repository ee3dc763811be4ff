/* Stores that loads after them can read from: the last one of each eight bytes, in a table that forgets the older of two that collide. */
#ifndef CV_CORE_FORWARDING_H
#define CV_CORE_FORWARDING_H

#include <stdint.h>
#include <string.h>

#define STORES 4096 /* entries; a power of two */
#define PAIRS 1024  /* most loads whose stores are predicted */
#define SURE 4      /* times in a row */
#define USUAL 64    /* times in a row until a load is renamed again */

typedef struct {
    uint64_t word; /* address / 8 + 1; 0: empty */
    uint64_t address;
    uint64_t ready;     /* cycle of its data */
    uint64_t cached;    /* cycle from which it is in the cache and no longer forwarded */
    uint64_t forwarded; /* cycle of the result of a forwarded load that its data were computed from; 0: of none */
    uint32_t bytes;
    uint32_t number; /* of all stores */
    uint32_t name;   /* the register of its address, as it was written last; 0: it has another address */
} store_entry;

/* The stores between a load and the one that it read from, and how often in a row there were so many. A core that saw the same number
 * often enough renames the load to that store's register. */
typedef struct {
    uint32_t load, distance, times;
} pair_entry;

typedef struct {
    uint32_t tag[STORES]; /* low bits of each entry's word, so that loads of what was not stored need not look at entries */
    store_entry entry[STORES];
    uint32_t count, begun;  /* of stores, and where the path began */
    pair_entry pair[PAIRS]; /* by load */
} forwarding;

enum forward { FORWARD_NONE, FORWARD_WHOLE, FORWARD_PART };

/* A path begins: renamed loads are learned anew, so that windows take as long in any order. */
static inline void forwarding_begin(forwarding *f, int renames)
{
    f->begun = f->count;
    if (renames)
        memset(f->pair, 0, sizeof f->pair);
}

static inline uint32_t forwarding_slot(uint64_t word) { return (uint32_t)(word ^ word >> 12) & (STORES - 1); }

static inline void forwarding_put(forwarding *f, uint64_t address, uint32_t bytes, uint64_t ready, uint64_t cached, uint64_t forwarded,
                                  uint32_t name)
{
    const uint64_t last = (address + (bytes ? bytes - 1 : 0)) >> 3;
    f->count++;
    for (uint64_t word = address >> 3; word <= last; word++) {
        const uint32_t slot = forwarding_slot(word);
        f->tag[slot] = (uint32_t)(word + 1);
        f->entry[slot] = (store_entry){word + 1, address, ready, cached, forwarded, bytes, f->count, name};
    }
}

/* Look for a store that holds bytes of a load which begins at `cycle`; *store is the last that does. */
static inline enum forward forwarding_find(forwarding *f, uint64_t address, uint32_t bytes, uint64_t cycle, const store_entry **store)
{
    const uint64_t end = address + bytes, last = (end - (bytes ? 1 : 0)) >> 3;
    enum forward found = FORWARD_NONE;
    for (uint64_t word = address >> 3; word <= last; word++) {
        const uint32_t slot = forwarding_slot(word);
        const store_entry *const e = &f->entry[slot];
        if (f->tag[slot] != (uint32_t)(word + 1) || e->word != word + 1 || e->cached <= cycle || e->address >= end ||
            e->address + e->bytes <= address)
            continue;
        if (found == FORWARD_NONE || e->ready > (*store)->ready)
            *store = e;
        found = e->address <= address && e->address + e->bytes >= end && found != FORWARD_PART ? FORWARD_WHOLE : FORWARD_PART;
    }
    return found;
}

/* Was the store of a load that is forwarded predicted? It is learned for the next time. */
static inline int forwarding_predicted(forwarding *f, uint32_t load, uint32_t entries, const store_entry *store)
{
    pair_entry *const e = &f->pair[load % entries];
    const uint32_t distance = f->count - store->number;
    const int same = e->load == load && e->distance == distance, sure = same && e->times >= SURE;
    *e = (pair_entry){load, distance, same ? e->times + 1 : 0};
    return sure;
}

/* Is a load renamed to the store that it always reads from? So is its first one. `store`: that of its bytes; NULL: it is not forwarded. */
static inline int forwarding_usual(forwarding *f, uint32_t load, const store_entry *store)
{
    pair_entry *const e = &f->pair[load % PAIRS];
    const int known = e->load == load + 1;
    if (!store && (!known || f->count - f->begun < e->distance))
        return 0; /* it may have come before the path */
    const uint32_t distance = store ? f->count - store->number : 0;
    const int same = store && (!known || e->distance == distance), usual = same && (!known || e->times >= USUAL);
    *e = (pair_entry){load + 1, store ? distance : e->distance, !same ? 0 : known ? e->times + 1 : USUAL};
    return usual;
}

#endif
