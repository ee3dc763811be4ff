/* What the writers of the wire format share: the buffer of words, and what is known of each segment. */
#ifndef CV_ENGINE_WIRE_H
#define CV_ENGINE_WIRE_H

#include "address_words.h"
#include "engine_control.h"

/* engine_wire.c */
#define BUFFER_WORDS (1u << 16)
extern const struct cv_options *options;
extern struct cv_target *target;
extern struct cv_blob_segment *segments; /* of the target */
extern struct cv_counters_header *header;
extern uint64_t *counters; /* NULL: nobody reads them */
extern uint64_t buffer[BUFFER_WORDS];
extern size_t used;

static inline void put(uint64_t word)
{
    if (used == BUFFER_WORDS)
        cv_wire_flush();
    buffer[used++] = word;
}

static inline size_t words_for(size_t bytes) { return (bytes + 7) / 8; }

static inline void put_head(int kind, size_t payload) { put(CV_WIRE_CONTROL | (uint64_t)kind << 56 | payload); }

void put_bytes(const void *from, size_t bytes);

/* Bytes from one turn of a repeated instruction to the next. */
static inline int64_t step_of(uint64_t first, uint64_t end, uint64_t turns)
{
    return turns && turns < UINT64_C(1) << 40 ? ((int64_t)end - (int64_t)first) / (int64_t)turns : 0;
}

/* engine_definitions.c */
/* A reference of a segment: its place in a visit, its sites. */
struct reference {
    int64_t displacement;
    int16_t word; /* -1: the address is the displacement */
    uint16_t size;
    int16_t load, store; /* sites, counted from the segment's first; -1: none */
};

extern struct segment_definition {
    struct reference *references;
    uint32_t id; /* in the stream; turns of a repeated one have the next */
    uint32_t first_site;
    uint32_t count;
    uint32_t lanes : 16;     /* masked elements of one execution */
    uint32_t encodings : 16; /* 1 << enum cv_x86_encoding of its instructions */
    uint64_t visits;         /* that were recorded, where they are limited */
} *of_segment;
extern uint8_t *loads_stores; /* references of one execution, but masked elements */
extern uint64_t known;        /* segments that are defined */
extern uint32_t next_counter;
int begin_definitions(void);                                                     /* -1: there is no room */
int instruction_at(const struct cv_blob_segment *s, int at, struct cv_x86 *out); /* of its bytes; 0: none */

/* engine_parts.c */
extern uint64_t windows; /* that were opened */

#endif
