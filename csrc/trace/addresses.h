/* Payload of an ADDR chunk, before its general compression: the chunk's visits and sampled references, one after another.
 *
 *   record   = varint(zigzag(segment - predicted) << 2 | 0), then per address word varint(zigzag(word - last))
 *            | varint(zigzag(site - last site) << 2 | 1), varint(zigzag(line - last line of the site))       set-sampled
 *            | varint(kind << 2 | 2), varint(argument), and for CV_WIRE_SETS_LOST varint(address)            control
 *
 * varint is LEB128, zigzag maps 0 -1 1 -2 ... to 0 1 2 3 ...; differences are modulo 2^64. `last` belongs to a (segment, word)
 * pair and is 0 at first; a word CV_WIRE_NOT_EXECUTED does not change it. `predicted` is the segment that followed last time
 * the previous segment was visited, at first the previous segment itself. All state begins anew with each chunk. */
#ifndef CV_ADDRESSES_H
#define CV_ADDRESSES_H

#include "cv_status.h"
#include "definitions.h"

#include <stddef.h>
#include <stdint.h>

/* By the first byte of a record: is it a set-sampled reference? */
static inline int cv_address_is_sampled(uint8_t first) { return (first & 3) == 1; }

#define CV_ADDRESS_BYTES 10 /* of one varint, at most */

typedef struct {
    uint32_t epoch; /* chunk in which the members were last set */
    uint32_t next;  /* segment that followed */
    size_t first_word;
} cv_segment_state;

typedef struct {
    uint32_t epoch;
    uint64_t line;
} cv_site_state;

typedef struct {
    cv_segment_state *segments;
    cv_site_state *sites;
    uint64_t *last; /* address words of all segments, one after another */
    size_t segment_count, site_count, word_count;
    size_t segment_capacity, site_capacity, last_capacity;
    uint32_t epoch;
    uint32_t previous; /* segment */
    uint32_t site;     /* of the last set-sampled reference */
} cv_address_state;

void cv_address_free(cv_address_state *state);
void cv_address_begin(cv_address_state *state); /* a new chunk */
/* Make room for the definitions that came since. */
cv_status cv_address_know(cv_address_state *state, const cv_definitions *definitions);

/* Each writes at `to` (room for CV_ADDRESS_BYTES per word and head) and returns the end. The words of one visit of a run lie
 * `count` + 1 after those of the one before. */
uint8_t *cv_address_put_visits(cv_address_state *state, uint8_t *to, uint32_t segment, const uint64_t *words, size_t count, size_t visits);
uint8_t *cv_address_put_sampled(cv_address_state *state, uint8_t *to, uint32_t site, uint64_t line);
uint8_t *cv_address_put_control(uint8_t *to, unsigned kind, uint64_t argument);
uint8_t *cv_address_put_word(uint8_t *to, uint64_t word);

/* Read one record into wire words (room for 1 + 65535); *words says how many. Returns its end, or NULL with *why. */
const uint8_t *cv_address_get(cv_address_state *state, const cv_definitions *definitions, const uint8_t *from, const uint8_t *end,
                              uint64_t *to, size_t *words, const char **why);

#endif
