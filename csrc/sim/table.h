/* A table from numbers to numbers that are not 0: open addressing, at most half full. */
#ifndef CV_TABLE_H
#define CV_TABLE_H

#include "cv_status.h"
#include "mix.h"

#include <stdbool.h>
#include <stdlib.h>

#define CV_TABLE_LEAST_ROOM 1024

struct cv_slot {
    uint64_t key;
    uint64_t value; /* 0: empty */
};

struct cv_table {
    struct cv_slot *slots;
    size_t room, used; /* room: 0 or a power of two */
};

static inline struct cv_slot *cv_table_slot(const struct cv_table *t, uint64_t key)
{
    size_t at = (size_t)cv_mixed(key) & (t->room - 1);
    while (t->slots[at].value && t->slots[at].key != key)
        at = (at + 1) & (t->room - 1);
    return &t->slots[at];
}

/* The value of a key; 0: it has none. */
static inline uint64_t cv_table_get(const struct cv_table *t, uint64_t key) { return t->room ? cv_table_slot(t, key)->value : 0; }

static inline bool cv_table_grow(struct cv_table *t)
{
    const struct cv_table old = *t;
    const size_t room = old.room ? 2 * old.room : CV_TABLE_LEAST_ROOM;
    struct cv_slot *slots = calloc(room, sizeof *slots);
    if (!slots)
        return false;
    *t = (struct cv_table){slots, room, old.used};
    for (size_t i = 0; i < old.room; i++)
        if (old.slots[i].value)
            *cv_table_slot(t, old.slots[i].key) = old.slots[i];
    free(old.slots);
    return true;
}

/* The slot of a key, new where it was not there; NULL: no memory. Whoever gets an empty one gives it a value. */
static inline struct cv_slot *cv_table_find(struct cv_table *t, uint64_t key)
{
    if (2 * (t->used + 1) > t->room && !cv_table_grow(t))
        return NULL;
    struct cv_slot *slot = cv_table_slot(t, key);
    if (!slot->value) {
        slot->key = key;
        t->used++;
    }
    return slot;
}

#endif
