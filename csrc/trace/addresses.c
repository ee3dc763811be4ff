#include "addresses.h"

#include "grow.h"
#include "varint.h"

#include <string.h>

void cv_address_free(cv_address_state *state)
{
    free(state->segments);
    free(state->sites);
    free(state->last);
    memset(state, 0, sizeof *state);
}

void cv_address_begin(cv_address_state *state)
{
    if (++state->epoch == 0) { /* 2^32 chunks: old epochs could be taken for new ones */
        for (size_t i = 0; i < state->segment_count; i++)
            state->segments[i].epoch = 0;
        for (size_t i = 0; i < state->site_count; i++)
            state->sites[i].epoch = 0;
        state->epoch = 1;
    }
    state->previous = state->site = 0;
}

cv_status cv_address_know(cv_address_state *state, const cv_definitions *definitions)
{
    CV_RESERVE(state->segments, state->segment_capacity, definitions->segment_count);
    CV_RESERVE(state->sites, state->site_capacity, definitions->site_count);
    for (; state->segment_count < definitions->segment_count; state->segment_count++) {
        size_t words = definitions->segments[state->segment_count].words;
        CV_RESERVE(state->last, state->last_capacity, state->word_count + words);
        state->segments[state->segment_count] = (cv_segment_state){.first_word = state->word_count};
        state->word_count += words;
    }
    if (definitions->site_count > state->site_count)
        memset(state->sites + state->site_count, 0, (definitions->site_count - state->site_count) * sizeof *state->sites);
    state->site_count = definitions->site_count;
    return CV_OK;
}

static inline cv_segment_state *touch(cv_address_state *state, uint32_t segment, size_t words)
{
    cv_segment_state *known = &state->segments[segment];
    if (known->epoch != state->epoch) {
        known->epoch = state->epoch;
        known->next = segment;
        if (words)
            memset(state->last + known->first_word, 0, words * sizeof *state->last);
    }
    return known;
}

static inline uint32_t predicted(const cv_address_state *state)
{
    uint32_t previous = state->previous;
    return previous < state->segment_count && state->segments[previous].epoch == state->epoch ? state->segments[previous].next : previous;
}

static inline void follow(cv_address_state *state, uint32_t segment)
{
    if (state->previous < state->segment_count && state->segments[state->previous].epoch == state->epoch)
        state->segments[state->previous].next = segment;
    state->previous = segment;
}

uint8_t *cv_address_put_visits(cv_address_state *state, uint8_t *to, uint32_t segment, const uint64_t *words, size_t count, size_t visits)
{
    uint64_t *restrict last = state->last + touch(state, segment, count)->first_word;
    for (; visits; visits--, words += count + 1) {
        to = cv_varint_put(to, cv_zigzag((uint64_t)segment - predicted(state)) << 2);
        follow(state, segment);
        for (size_t i = 0; i < count; i++) {
            to = cv_varint_put(to, cv_zigzag(words[i] - last[i]));
            if (words[i] != CV_WIRE_NOT_EXECUTED)
                last[i] = words[i];
        }
    }
    return to;
}

static inline cv_site_state *touch_site(cv_address_state *state, uint32_t site)
{
    cv_site_state *known = &state->sites[site];
    if (known->epoch != state->epoch)
        *known = (cv_site_state){.epoch = state->epoch};
    return known;
}

uint8_t *cv_address_put_sampled(cv_address_state *state, uint8_t *to, uint32_t site, uint64_t line)
{
    cv_site_state *known = touch_site(state, site);
    to = cv_varint_put(to, cv_zigzag((uint64_t)site - state->site) << 2 | 1);
    to = cv_varint_put(to, cv_zigzag(line - known->line));
    known->line = line;
    state->site = site;
    return to;
}

uint8_t *cv_address_put_control(uint8_t *to, unsigned kind, uint64_t argument)
{
    return cv_varint_put(cv_varint_put(to, (uint64_t)kind << 2 | 2), argument);
}

uint8_t *cv_address_put_word(uint8_t *to, uint64_t word) { return cv_varint_put(to, word); }

#define REFUSE(sentence) return *why = (sentence), NULL

static const uint8_t *get_visit(cv_address_state *state, const cv_definitions *definitions, uint64_t code, const uint8_t *from,
                                const uint8_t *end, uint64_t *to, size_t *words, const char **why)
{
    uint64_t segment = predicted(state) + cv_unzigzag(code);
    if (segment >= definitions->segment_count)
        REFUSE("a visit of a segment that is not defined");
    follow(state, (uint32_t)segment);
    size_t count = definitions->segments[segment].words;
    uint64_t *last = state->last + touch(state, (uint32_t)segment, count)->first_word;
    to[0] = CV_WIRE_VISIT | segment;
    for (size_t i = 0; i < count; i++) {
        uint64_t code_of_word;
        if (!(from = cv_varint_get(from, end, &code_of_word)))
            REFUSE("a visit is cut off");
        to[1 + i] = last[i] + cv_unzigzag(code_of_word);
        if (to[1 + i] != CV_WIRE_NOT_EXECUTED)
            last[i] = to[1 + i];
    }
    *words = 1 + count;
    return from;
}

static const uint8_t *get_sampled(cv_address_state *state, const cv_definitions *definitions, uint64_t code, const uint8_t *from,
                                  const uint8_t *end, uint64_t *to, size_t *words, const char **why)
{
    uint64_t site = state->site + cv_unzigzag(code), line;
    if (site >= definitions->site_count || site >> CV_WIRE_SITE_BITS)
        REFUSE("a sampled reference of a site that is not defined");
    if (!(from = cv_varint_get(from, end, &line)))
        REFUSE("a sampled reference is cut off");
    cv_site_state *known = touch_site(state, (uint32_t)site);
    line = known->line + cv_unzigzag(line);
    if (line >> (63 - CV_WIRE_SITE_BITS))
        REFUSE("a sampled reference lies outside the address space");
    known->line = line;
    state->site = (uint32_t)site;
    to[0] = line << CV_WIRE_SITE_BITS | site;
    *words = 1;
    return from;
}

static const uint8_t *get_control(uint64_t kind, const uint8_t *from, const uint8_t *end, uint64_t *to, size_t *words, const char **why)
{
    uint64_t argument;
    if (kind >= CV_WIRE_PAYLOAD)
        REFUSE("a control record of a kind that addresses cannot hold");
    if (!(from = cv_varint_get(from, end, &argument)) || argument >> 56)
        REFUSE("a control record is cut off");
    to[0] = CV_WIRE_CONTROL | kind << 56 | argument;
    *words = 1;
    if (kind == CV_WIRE_SETS_LOST) {
        if (!(from = cv_varint_get(from, end, &to[1])))
            REFUSE("a control record is cut off");
        *words = 2;
    }
    return from;
}

const uint8_t *cv_address_get(cv_address_state *state, const cv_definitions *definitions, const uint8_t *from, const uint8_t *end,
                              uint64_t *to, size_t *words, const char **why)
{
    uint64_t head;
    if (!(from = cv_varint_get(from, end, &head)))
        REFUSE("a record's head is cut off");
    switch (head & 3) {
    case 0: return get_visit(state, definitions, head >> 2, from, end, to, words, why);
    case 1: return get_sampled(state, definitions, head >> 2, from, end, to, words, why);
    case 2:
        if (head >> 2 == CV_WIRE_UNIT)
            cv_address_begin(state);
        return get_control(head >> 2, from, end, to, words, why);
    default: REFUSE("a record of a kind that is not known");
    }
}
