/* Objects, where they are, and the pairs of sites and objects that references make. */
#include "objects.h"

#include "../common/interrupt.h"
#include "grow.h"

#include <stdlib.h>
#include <string.h>

#define REFUSE(sentence) return *why = (sentence), CV_ERROR_FORMAT
#define LINE 64

void cv_objects_free(cv_objects *objects)
{
    free(objects->all);
    free(objects->texts);
    free(objects->text);
    cv_intervals_free(&objects->blocks);
    cv_intervals_free(&objects->regions);
    free(objects->sites);
    free(objects->pairs);
    free(objects->table);
    free(objects->queue);
    memset(objects, 0, sizeof *objects);
}

/* ---- definitions ---- */

static cv_status add(cv_objects *objects, cv_object object, const char *text, size_t length)
{
    length = strnlen(text, length);
    CV_RESERVE(objects->all, objects->capacity, objects->count + 1);
    CV_RESERVE(objects->texts, objects->texts_capacity, objects->count + 1);
    CV_RESERVE(objects->text, objects->text_capacity, objects->text_count + length + 1);
    memcpy(objects->text + objects->text_count, text, length);
    objects->text[objects->text_count + length] = 0;
    objects->texts[objects->count] = objects->text_count;
    objects->text_count += length + 1;
    objects->all[objects->count++] = object;
    return CV_OK;
}

/* Number 0 is nobody's. */
static cv_status begin(cv_objects *objects)
{
    return objects->count ? CV_OK : add(objects, (cv_object){.module = CV_WIRE_NO_MODULE}, "", 0);
}

cv_status cv_objects_define(cv_objects *objects, size_t modules, const uint64_t *payload, size_t words, const char **why)
{
    struct cv_wire_object object;
    cv_status status = begin(objects);
    if (status)
        return status;
    if (words * 8 < sizeof object)
        REFUSE("the definition of a data object is too short");
    memcpy(&object, payload, sizeof object);
    if ((words * 8 - sizeof object) / 8 != ((size_t)object.text_bytes + 7) / 8)
        REFUSE("a data object's text has another length than stated");
    if (object.kind < CV_WIRE_HEAP || object.kind > CV_WIRE_ALLOCATOR || object.kind == CV_WIRE_SYMBOL)
        REFUSE("a data object is of a kind that is not known");
    if (object.module != CV_WIRE_NO_MODULE && object.module >= modules)
        REFUSE("a data object's place lies in a module that is not defined");
    cv_object made = {.file_offset = object.file_offset, .module = object.module, .kind = object.kind, .thread = object.thread};
    return add(objects, made, (const char *)payload + sizeof object, object.text_bytes);
}

cv_status cv_objects_define_symbols(cv_objects *objects, size_t modules, const uint64_t *payload, size_t words, const char **why)
{
    cv_status status = begin(objects);
    for (size_t at = 0; at < words && !status;) {
        struct cv_wire_symbol symbol;
        if ((words - at) * 8 < sizeof symbol)
            REFUSE("the definition of a symbol is too short");
        memcpy(&symbol, payload + at, sizeof symbol);
        at += sizeof symbol / 8;
        size_t text = ((size_t)symbol.text_bytes + 7) / 8;
        if (text > words - at)
            REFUSE("a symbol's name is longer than its definition");
        if (symbol.module >= modules)
            REFUSE("a symbol lies in a module that is not defined");
        if (!symbol.size_bytes || symbol.address > UINT64_MAX - symbol.size_bytes)
            REFUSE("a symbol lies outside the address space");
        cv_object made = {.address = symbol.address, .size_bytes = symbol.size_bytes, .module = symbol.module, .kind = CV_WIRE_SYMBOL};
        status = add(objects, made, (const char *)(payload + at), symbol.text_bytes);
        at += text;
    }
    return status;
}

/* ---- events ---- */

unsigned cv_event_words(uint32_t kind)
{
    static const uint8_t words[] = {0, 3, 1, 2, 3, 2};
    return kind < sizeof words ? words[kind] : 0;
}

static int outside(uint64_t start, uint64_t bytes) { return start > UINT64_MAX - bytes; }

const char *cv_event_check(const cv_objects *objects, const cv_event *event)
{
    const uint64_t *w = event->word, known = objects->count ? objects->count - 1 : 0;
    switch (event->kind) {
    case CV_WIRE_PLACED:
        if (w[0] >= known)
            return "a data object is placed that is not defined";
        return !w[2] || outside(w[1], w[2]) ? "a data object is placed outside the address space" : NULL;
    case CV_WIRE_FREED: return NULL;
    case CV_WIRE_UNMAPPED: return outside(w[0], w[1]) ? "what is unmapped lies outside the address space" : NULL;
    case CV_WIRE_MOVED: return outside(w[0], w[2]) || outside(w[1], w[2]) ? "what is moved lies outside the address space" : NULL;
    case CV_WIRE_LOADED: return w[0] >= known || w[1] > known - w[0] ? "symbols are loaded that are not defined" : NULL;
    default: return "an event of data objects is of a kind that is not known";
    }
}

static void gone(void *context, uint32_t object, uint64_t bytes)
{
    cv_objects *objects = context;
    objects->all[object].live_bytes -= bytes;
}

static cv_status place(cv_objects *objects, size_t number, uint64_t start, uint64_t bytes)
{
    cv_object *object = &objects->all[number];
    int is_block = object->kind == CV_WIRE_HEAP || object->kind == CV_WIRE_SYMBOL;
    cv_intervals *map = is_block ? &objects->blocks : &objects->regions;
    objects->epoch += (uint32_t)is_block;
    cv_status status = cv_intervals_assign(map, start, bytes, (uint32_t)number, gone, objects);
    if (status)
        return status;
    object->places++;
    object->bytes += bytes;
    object->live_bytes += bytes;
    if (object->peak_bytes < object->live_bytes)
        object->peak_bytes = object->live_bytes;
    return CV_OK;
}

static cv_status end_block(cv_objects *objects, uint64_t start)
{
    uint32_t before, after;
    cv_intervals_around(&objects->blocks, start, &before, &after);
    if (!before || objects->blocks.nodes[before].start != start)
        return CV_OK;
    const cv_interval *block = &objects->blocks.nodes[before];
    if (objects->all[block->what].kind != CV_WIRE_HEAP)
        return CV_OK;
    return cv_intervals_clear(&objects->blocks, start, block->length, gone, objects);
}

static cv_status load(cv_objects *objects, size_t first, size_t count)
{
    cv_status status = CV_OK;
    uint32_t steps = 0;
    for (size_t i = first; i < first + count && !status; i++) {
        if (objects->all[i].kind == CV_WIRE_SYMBOL)
            status = place(objects, i, objects->all[i].address, objects->all[i].size_bytes);
        if (!status)
            status = cv_interrupt_look(&steps);
    }
    return status;
}

static cv_status move(cv_objects *objects, uint64_t from, uint64_t to, uint64_t bytes)
{
    uint32_t before, after;
    cv_intervals_around(&objects->regions, from, &before, &after);
    if (!before || !cv_interval_holds(objects->regions.nodes, before, from) || !bytes)
        return CV_OK;
    return place(objects, objects->regions.nodes[before].what, to, bytes);
}

cv_status cv_objects_apply(cv_objects *objects, const cv_event *event)
{
    const uint64_t *w = event->word;
    cv_status status;
    switch (event->kind) {
    case CV_WIRE_PLACED: return place(objects, (size_t)w[0] + 1, w[1], w[2]);
    case CV_WIRE_FREED: return end_block(objects, w[0]);
    case CV_WIRE_UNMAPPED:
        status = cv_intervals_clear(&objects->blocks, w[0], w[1], gone, objects);
        return status ? status : cv_intervals_clear(&objects->regions, w[0], w[1], gone, objects);
    case CV_WIRE_MOVED: return move(objects, w[0], w[1], w[2]);
    default: return load(objects, (size_t)w[0] + 1, (size_t)w[1]);
    }
}

/* ---- which object a reference touches ---- */

/* The block at an address, or anywhere in the line that begins there. */
static uint32_t find_block(cv_objects *objects, cv_site_memory *memory, uint64_t address, uint64_t length)
{
    const cv_interval *nodes = objects->blocks.nodes;
    const cv_interval *last = &nodes[memory->block];
    if (cv_interval_holds(nodes, memory->block, address) || (last->length && last->start - address < length))
        return memory->block;
    uint64_t free_from = address - memory->free_start;
    if (memory->epoch == objects->epoch && free_from < memory->free_length && length <= memory->free_length - free_from)
        return 0;
    uint32_t before, after;
    cv_intervals_around(&objects->blocks, address, &before, &after);
    if (before && cv_interval_holds(nodes, before, address))
        return memory->block = before;
    if (after && nodes[after].start - address < length)
        return memory->block = after;
    memory->epoch = objects->epoch;
    memory->free_start = before ? nodes[before].start + nodes[before].length : 0;
    memory->free_length = (after ? nodes[after].start : UINT64_MAX) - memory->free_start;
    return 0;
}

static uint32_t find_object(cv_objects *objects, cv_site_memory *memory, uint64_t address, uint64_t length)
{
    uint32_t block = find_block(objects, memory, address, length);
    if (block)
        return objects->blocks.nodes[block].what;
    const cv_interval *nodes = objects->regions.nodes;
    if (!cv_interval_holds(nodes, memory->region, address)) {
        uint32_t after;
        cv_intervals_around(&objects->regions, address, &memory->region, &after);
        if (!cv_interval_holds(nodes, memory->region, address))
            memory->region = 0;
    }
    return nodes[memory->region].what; /* node 0 has object 0 */
}

static size_t slot_of(const cv_objects *objects, uint32_t site, uint32_t object)
{
    uint64_t key = (uint64_t)site << 32 | object;
    size_t at = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (objects->table_size - 1);
    while (objects->table[at]) {
        const cv_pair *pair = &objects->pairs[objects->table[at] - 1];
        if (pair->site == site && pair->object == object)
            break;
        at = (at + 1) & (objects->table_size - 1);
    }
    return at;
}

static cv_status grow_table(cv_objects *objects)
{
    size_t wanted = objects->table_size ? 2 * objects->table_size : 1 << 10;
    uint32_t *table = calloc(wanted, sizeof *table);
    if (!table || objects->pair_count >= UINT32_MAX / 2) {
        free(table);
        return table ? CV_ERROR_LIMIT : CV_ERROR_MEMORY;
    }
    free(objects->table);
    objects->table = table;
    objects->table_size = wanted;
    for (size_t i = 0; i < objects->pair_count; i++)
        table[slot_of(objects, objects->pairs[i].site, objects->pairs[i].object)] = (uint32_t)i + 1;
    return CV_OK;
}

static cv_status find_pair(cv_objects *objects, uint32_t site, uint32_t object, uint32_t *pair)
{
    if (2 * objects->pair_count >= objects->table_size) {
        cv_status status = grow_table(objects);
        if (status)
            return status;
    }
    CV_RESERVE(objects->pairs, objects->pair_capacity, objects->pair_count + 1);
    uint32_t *slot = &objects->table[slot_of(objects, site, object)];
    if (!*slot) {
        objects->pairs[objects->pair_count++] = (cv_pair){.site = site, .object = object};
        *slot = (uint32_t)objects->pair_count;
    }
    *pair = *slot - 1;
    return CV_OK;
}

/* Memory of sites that were defined since; the first node of each map, and object 0. */
static cv_status prepare(cv_objects *objects, size_t sites)
{
    cv_status status = begin(objects);
    if (!status)
        status = cv_intervals_clear(&objects->blocks, 0, 0, gone, objects);
    if (!status)
        status = cv_intervals_clear(&objects->regions, 0, 0, gone, objects);
    if (status)
        return status;
    CV_RESERVE(objects->sites, objects->site_capacity, sites);
    for (; objects->site_count < sites; objects->site_count++)
        objects->sites[objects->site_count] = (cv_site_memory){.pair = UINT32_MAX};
    return CV_OK;
}

cv_status cv_objects_find(cv_objects *objects, size_t sites, const uint64_t *address, const uint32_t *site, uint32_t *pair, size_t count,
                          int lines)
{
    cv_status status = prepare(objects, sites);
    for (size_t i = 0; i < count && !status; i++) {
        cv_site_memory *memory = &objects->sites[site[i]];
        uint32_t object = find_object(objects, memory, address[i], lines ? LINE : 1);
        if (memory->pair >= objects->pair_count || objects->pairs[memory->pair].object != object)
            status = find_pair(objects, site[i], object, &memory->pair);
        if (status)
            break;
        pair[i] = memory->pair;
        if (lines)
            objects->pairs[memory->pair].sets++;
        else
            objects->pairs[memory->pair].references++;
    }
    return status;
}
