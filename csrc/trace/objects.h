/* Inside of attribution. References are attributed in batches, but each before the next event: an address may belong to one object
 * now and to another then. */
#ifndef CV_TRACE_OBJECTS_H
#define CV_TRACE_OBJECTS_H

#include "cv_objects.h"
#include "intervals.h"

typedef struct {
    uint32_t kind; /* enum cv_wire_event */
    uint64_t word[3];
} cv_event;

/* What the last reference of a site found, to be tried first for the next one. */
typedef struct {
    uint32_t block, region; /* nodes */
    uint32_t pair;
    uint32_t epoch;
    uint64_t free_start, free_length; /* no block is there, as of the epoch */
} cv_site_memory;

typedef struct {
    int on, owners;
    cv_object *all;
    size_t *texts; /* offset of each object's text in text */
    char *text;
    size_t count, text_count;
    size_t capacity, texts_capacity, text_capacity;
    cv_intervals blocks, regions;
    uint32_t epoch; /* counts what was placed among the blocks */

    cv_site_memory *sites;
    size_t site_count, site_capacity;
    cv_pair *pairs;
    size_t pair_count, pair_capacity;
    uint32_t *table; /* of pairs by site and object, open addressing, at most half full; pair + 1 */
    size_t table_size;

    cv_event *queue; /* events of a file that have not come yet */
    size_t queue_first, queue_count, queue_capacity;

    uint64_t unmarked;                  /* events recorded since the last mark in the addresses */
    uint64_t last_object, last_address; /* of the writer's chunk */
} cv_objects;

void cv_objects_free(cv_objects *objects);

/* Take the payload of a definition; on CV_ERROR_FORMAT *why is a static sentence. */
cv_status cv_objects_define(cv_objects *objects, size_t modules, const uint64_t *payload, size_t words, const char **why);
cv_status cv_objects_define_symbols(cv_objects *objects, size_t modules, const uint64_t *payload, size_t words, const char **why);

/* How many words an event of a kind has; 0: there is no such kind. */
unsigned cv_event_words(uint32_t kind);
/* A sentence on what is wrong with an event, or NULL. */
const char *cv_event_check(const cv_objects *objects, const cv_event *event);
cv_status cv_objects_apply(cv_objects *objects, const cv_event *event);

/* Find the pair of each reference: all of one thread and in order. `lines`: addresses are those of lines. */
cv_status cv_objects_find(cv_objects *objects, size_t sites, const uint64_t *address, const uint32_t *site, uint32_t *pair, size_t count,
                          int lines);

/* ---- the form in files: a kind, then numbers as varints, addresses and objects as differences from those before in the chunk ---- */

#define CV_EVENT_BYTES 40 /* at most */

uint8_t *cv_event_put(cv_objects *objects, uint8_t *to, const cv_event *event);
cv_status cv_events_get(cv_objects *objects, const uint8_t *bytes, size_t size, const char **why);

#endif
