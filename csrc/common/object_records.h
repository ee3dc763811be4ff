/* What the stream says of data objects: definitions, each once, symbols of variables, and what lies where. Freestanding; SPDX: MIT.
 *
 * One source of each engine has the code: the one that defines what to call before it includes this. WRITE_RECORD(kind, argument, payload,
 * bytes); ZEROED(bytes) and FREE(memory); MODULE_OF(site, &file_offset), which gives CV_WIRE_NO_MODULE for what it does not know. */
#ifndef CV_OBJECT_RECORDS_H
#define CV_OBJECT_RECORDS_H

#include "../include/cv_wire.h"

/* The object of this kind, place in the code and text, defined when it is new. */
uint32_t cv_object(enum cv_wire_object_kind kind, uint64_t site, const char *text);
uint32_t cv_object_define(enum cv_wire_object_kind kind, uint64_t site, uint32_t thread, const char *text);
/* Code was mapped: other code may now be where there was some before. */
void cv_objects_forget_sites(void);
void cv_object_event(enum cv_wire_event event, uint64_t a, uint64_t b, uint64_t c, uint32_t words);
void cv_object_place(uint32_t object, uint64_t address, uint64_t bytes);
/* A variable of an object file; cv_objects_loaded writes those that wait for further ones. */
void cv_object_symbol(uint32_t module, uint64_t address, uint64_t bytes, const char *name);
void cv_objects_loaded(void);

#endif

#ifdef WRITE_RECORD

#define MOST_TEXT 4096
#define MOST_SYMBOL 1024
#define SYMBOL_RECORD_BYTES 32000

static uint32_t n_objects;
static struct known {
    uint64_t identity;
    uint32_t object;
} *known_objects; /* open addressing, at most half full; an empty one has identity 0 */
static uint32_t known_room, n_known;

static uint32_t copy_text(uint8_t *to, const char *text, uint32_t most)
{
    uint32_t n = 0;
    for (; n < most && text[n]; n++)
        to[n] = (uint8_t)text[n];
    return n;
}

uint32_t cv_object_define(enum cv_wire_object_kind kind, uint64_t site, uint32_t thread, const char *text)
{
    struct {
        struct cv_wire_object object;
        uint8_t text[MOST_TEXT];
    } payload;
    payload.object = (struct cv_wire_object){.module = CV_WIRE_NO_MODULE, .kind = kind, .thread = thread};
    if (site)
        payload.object.module = MODULE_OF(site, &payload.object.file_offset);
    payload.object.text_bytes = copy_text(payload.text, text, MOST_TEXT);
    WRITE_RECORD(CV_WIRE_OBJECT, 0, &payload, sizeof payload.object + payload.object.text_bytes);
    return n_objects++;
}

/* Of 64 bits (FNV-1a): no two objects of a program have the same. */
static uint64_t identity_of(enum cv_wire_object_kind kind, uint64_t site, const char *text)
{
    uint64_t hash = site * UINT64_C(0x9e3779b97f4a7c15) + kind;
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    return hash ? hash : 1;
}

static struct known *slot_of(uint64_t identity)
{
    uint32_t at = (uint32_t)(identity >> 32) & (known_room - 1);
    while (known_objects[at].identity && known_objects[at].identity != identity)
        at = (at + 1) & (known_room - 1);
    return &known_objects[at];
}

static void make_room_for_object(void)
{
    struct known *old = known_objects;
    const uint32_t old_room = known_room;
    if (2 * n_known < old_room)
        return;
    known_room = old_room ? 2 * old_room : 256;
    known_objects = ZEROED(known_room * sizeof *known_objects);
    for (uint32_t i = 0; i < old_room; i++)
        if (old[i].identity)
            *slot_of(old[i].identity) = old[i];
    FREE(old);
}

uint32_t cv_object(enum cv_wire_object_kind kind, uint64_t site, const char *text)
{
    make_room_for_object();
    const uint64_t identity = identity_of(kind, site, text);
    struct known *known = slot_of(identity);
    if (!known->identity) {
        *known = (struct known){identity, cv_object_define(kind, site, 0, text)};
        n_known++;
    }
    return known->object;
}

void cv_objects_forget_sites(void)
{
    for (uint32_t i = 0; i < known_room; i++)
        known_objects[i].identity = 0;
    n_known = 0;
}

void cv_object_event(enum cv_wire_event event, uint64_t a, uint64_t b, uint64_t c, uint32_t words)
{
    const uint64_t payload[3] = {a, b, c};
    WRITE_RECORD(CV_WIRE_EVENT, event, payload, words * sizeof *payload);
}

void cv_object_place(uint32_t object, uint64_t address, uint64_t bytes)
{
    if (bytes)
        cv_object_event(CV_WIRE_PLACED, object, address, bytes, 3);
}

static struct {
    uint8_t bytes[SYMBOL_RECORD_BYTES];
    uint32_t used, count;
} symbols;

void cv_objects_loaded(void)
{
    if (symbols.count) {
        WRITE_RECORD(CV_WIRE_SYMBOLS, 0, symbols.bytes, symbols.used);
        cv_object_event(CV_WIRE_LOADED, n_objects, symbols.count, 0, 2);
        n_objects += symbols.count;
    }
    symbols.used = symbols.count = 0;
}

void cv_object_symbol(uint32_t module, uint64_t address, uint64_t bytes, const char *name)
{
    struct cv_wire_symbol symbol = {address, bytes, module, 0};
    if (symbols.used + sizeof symbol + MOST_SYMBOL > sizeof symbols.bytes)
        cv_objects_loaded();
    uint8_t *const text = symbols.bytes + symbols.used + sizeof symbol;
    symbol.text_bytes = copy_text(text, name, MOST_SYMBOL);
    const uint32_t padded = (symbol.text_bytes + 7) / 8 * 8;
    for (uint32_t i = symbol.text_bytes; i < padded; i++)
        text[i] = 0;
    __builtin_memcpy(text - sizeof symbol, &symbol, sizeof symbol);
    symbols.used += (uint32_t)sizeof symbol + padded;
    symbols.count++;
}

#endif
