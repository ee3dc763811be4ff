/* What the engine found, in the wire format (cv_wire.h): definitions of segments from their code, counts, windows of visits. */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../include/cv_wire.h"
#include "address_words.h"
#include "engine_control.h"

#define BUFFER_WORDS (1u << 16)
#define MOST_INSTRUCTIONS 48
#define MOST_SITES (4 * MOST_INSTRUCTIONS)
#define COUNTER_ROOM (1u << 22)

static const struct cv_options *options;
static struct cv_target *target;
static uint64_t buffer[BUFFER_WORDS];
static size_t used;
static int gone; /* the reader is */

static struct cv_blob_segment *segments;
static const struct cv_blob_exit *exits;
static const uint32_t *listed;
static uint8_t *loads_stores; /* references of one execution */
static uint64_t known;        /* segments that are defined */
static uint32_t next_id, next_site;
static uint64_t thread_now;

/* A reference of a segment: its place in a visit, its sites. */
struct reference {
    int64_t displacement;
    int16_t word; /* -1: the address is the displacement */
    uint16_t size;
    int16_t load, store; /* sites, counted from the segment's first; -1: none */
};

static struct {
    struct reference *references;
    uint32_t first_site;
    uint32_t count;
    uint64_t visits; /* that were recorded, where they are limited */
} *of_segment;

static struct {
    char *path;
    uint32_t id;
} modules[CV_MOST_MAPPINGS];
static uint32_t n_modules;

static struct cv_counters_header *header;
static uint64_t *counters;

void cv_wire_flush(void)
{
    const char *at = (const char *)buffer;
    size_t left = used * sizeof *buffer;
    used = 0;
    while (left && !gone && options->wire >= 0) {
        const ssize_t n = write(options->wire, at, left);
        if (n < 0 && errno != EINTR)
            gone = 1;
        if (n > 0) {
            at += n;
            left -= (size_t)n;
        }
    }
}

static void put(uint64_t word)
{
    if (used == BUFFER_WORDS)
        cv_wire_flush();
    buffer[used++] = word;
}

static void put_bytes(const void *from, size_t bytes)
{
    const uint8_t *at = from;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = 0;
        memcpy(&word, at + i, bytes - i < 8 ? bytes - i : 8);
        put(word);
    }
}

static size_t words_for(size_t bytes) { return (bytes + 7) / 8; }

static void put_head(int kind, size_t payload) { put(CV_WIRE_CONTROL | (uint64_t)kind << 56 | payload); }

void cv_wire_record(int kind, uint64_t argument, const void *payload, size_t bytes)
{
    put(CV_WIRE_CONTROL | (uint64_t)kind << 56 | argument << 32 | words_for(bytes));
    put_bytes(payload, bytes);
}

int cv_wire_begin(const struct cv_options *chosen, struct cv_target *traced)
{
    options = chosen;
    target = traced;
    segments = (struct cv_blob_segment *)(target->memory + CV_OFF_SEGMENTS);
    exits = (const struct cv_blob_exit *)(target->memory + CV_OFF_EXITS);
    listed = (const uint32_t *)(target->memory + CV_OFF_LIST);
    loads_stores = mmap(NULL, CV_MOST_SEGMENTS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    of_segment =
        mmap(NULL, sizeof *of_segment * CV_MOST_SEGMENTS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (loads_stores == MAP_FAILED || of_segment == MAP_FAILED)
        return -1;
    if (options->counters) {
        const int file = open(options->counters, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        const size_t size = CV_COUNTERS_OFFSET + COUNTER_ROOM * sizeof(uint64_t);
        if (file < 0 || ftruncate(file, (off_t)size))
            return -1;
        header = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        if (header == MAP_FAILED)
            return -1;
        counters = (uint64_t *)((char *)header + CV_COUNTERS_OFFSET);
        *header = (struct cv_counters_header){.magic = CV_COUNTERS_MAGIC, .capacity = COUNTER_ROOM, .pid = target->pid};
    }
    put(CV_WIRE_MAGIC);
    put(CV_WIRE_VERSION);
    if (options->objects)
        cv_objects_begin();
    cv_wire_flush();
    return 0;
}

/* ---- definitions ---- */

static uint32_t module_of(const struct cv_blob_mapping *mapping, int *is_file)
{
    char path[sizeof mapping->path + 1];
    memcpy(path, mapping->path, mapping->path_bytes);
    path[mapping->path_bytes] = 0;
    *is_file = mapping->path_bytes > 0;
    for (uint32_t i = 0; i < n_modules; i++)
        if (!strcmp(modules[i].path, path))
            return modules[i].id;
    const uint32_t id = n_modules;
    assert(n_modules < CV_MOST_MAPPINGS);
    modules[n_modules].path = strdup(path);
    modules[n_modules++].id = id;
    const struct cv_wire_module module = {mapping->low, mapping->high - mapping->low, *is_file ? mapping->offset : 0, mapping->path_bytes,
                                          0};
    put(CV_WIRE_CONTROL | (uint64_t)CV_WIRE_MODULE << 56 | (uint64_t)id << 32 |
        (words_for(sizeof module) + words_for(mapping->path_bytes)));
    put_bytes(&module, sizeof module);
    put_bytes(path, mapping->path_bytes);
    return id;
}

uint32_t cv_wire_module(const struct cv_blob_mapping *mapping)
{
    int is_file;
    return module_of(mapping, &is_file);
}

struct origin {
    uint64_t registers, references;
};

struct definition {
    struct cv_wire_instruction instructions[MOST_INSTRUCTIONS];
    struct cv_wire_site sites[MOST_SITES];
    struct cv_wire_flow flows[2 * MOST_SITES + CV_WIRE_FLOW_REGISTERS + 1];
    struct origin origins[CV_WIRE_FLOW_REGISTERS];
    struct reference references[MOST_SITES];
    int n_instructions, n_sites, n_flows, words, n_references;
};

static struct definition d;

static struct origin join(uint64_t registers)
{
    struct origin all = {0, 0};
    for (; registers; registers &= registers - 1) {
        const struct origin *one = &d.origins[__builtin_ctzll(registers)];
        all.registers |= one->registers;
        all.references |= one->references;
    }
    return all;
}

static void flow(int kind, int index, struct origin origin)
{
    if (origin.registers || origin.references)
        d.flows[d.n_flows++] = (struct cv_wire_flow){origin.registers | (uint64_t)kind << 62 | (uint64_t)index << 40, origin.references};
}

/* The registers of which the address of a reference is made. */
static uint64_t address_registers(const struct cv_x86 *x, int reference)
{
    switch (x->references[reference].where) {
    case CV_X86_OPERAND:
        return (x->base >= 0 ? UINT64_C(1) << x->base : 0) |
               (x->index >= 0 ? UINT64_C(1) << (x->gathered ? CV_X86_VECTOR_SET + (x->index & 15) : x->index) : 0);
    case CV_X86_PUSH:
    case CV_X86_POP: return 1 << 4;
    case CV_X86_SOURCE: return 1 << 6;
    case CV_X86_TARGET: return 1 << 7;
    case CV_X86_FRAME: return 1 << 5;
    case CV_X86_TABLE: return 1 << 3 | 1;
    default: return 0;
    }
}

static int64_t constant_address(const struct cv_x86 *x)
{
    return x->displacement + (x->base == CV_X86_RIP ? (int64_t)(x->address + x->length) : 0);
}

static void add_site(const struct cv_x86 *x, int reference, int stores, int atomic, int word, struct origin address)
{
    const struct cv_x86_reference *r = &x->references[reference];
    const int64_t displacement = word < 0 ? constant_address(x) : 0;
    struct cv_wire_site *site = &d.sites[d.n_sites];
    assert(d.n_sites < MOST_SITES && d.n_instructions > 0);
    *site = (struct cv_wire_site){
        .displacement = displacement, .size_bytes = r->size, .instruction = (uint16_t)(d.n_instructions - 1), .base = (int16_t)word};
    site->flags = (uint8_t)((stores ? CV_WIRE_STORE : 0) | (address.references ? CV_WIRE_DEPENDENT : 0) | (atomic ? CV_WIRE_ATOMIC : 0));
    flow(CV_WIRE_FLOW_ADDRESS, d.n_sites, address);
    d.n_sites++;
}

static void describe(const struct cv_x86 *x, uint64_t begin, int continued)
{
    uint64_t data = x->reads, kept = 0;
    struct origin values;
    int load_sites[4], n_loads = 0, store_words[2] = {-1, -1};
    const int atomic = x->n_references && (x->locked || (x->map == 0 && (x->opcode & 0xfe) == 0x86));
    assert(d.n_instructions < MOST_INSTRUCTIONS);
    d.instructions[d.n_instructions++] = (struct cv_wire_instruction){
        .offset = (uint16_t)(x->address - begin), .length = x->length, .flags = continued ? CV_WIRE_CONTINUED : 0, .flops = x->flops};
    for (int i = 0; i < x->n_references; i++) {
        const uint64_t made_of = address_registers(x, i);
        const int where = x->references[i].where;
        data &= ~made_of;
        if (where == CV_X86_PUSH || where == CV_X86_POP || where == CV_X86_SOURCE || where == CV_X86_TARGET)
            kept |= made_of | (x->repeated || x->compares ? 1 << 1 : 0);
        store_words[i] = cv_has_word(x, i) ? d.words++ : -1;
        struct reference *reference = &d.references[d.n_references + i];
        *reference = (struct reference){.displacement = store_words[i] < 0 ? constant_address(x) : 0,
                                        .word = (int16_t)store_words[i],
                                        .size = x->references[i].size,
                                        .load = -1,
                                        .store = -1};
        if (x->references[i].access & CV_X86_LOAD) {
            reference->load = (int16_t)d.n_sites;
            load_sites[n_loads++] = d.n_sites;
            add_site(x, i, 0, atomic, store_words[i], join(made_of));
        }
    }
    values = join(data);
    for (int i = 0; i < n_loads; i++)
        if (load_sites[i] < 64)
            values.references |= UINT64_C(1) << load_sites[i];
    for (int i = 0; i < x->n_references; i++)
        if (x->references[i].access & CV_X86_STORE) {
            d.references[d.n_references + i].store = (int16_t)d.n_sites;
            add_site(x, i, 1, atomic, store_words[i], join(address_registers(x, i)));
            flow(CV_WIRE_FLOW_VALUE, d.n_sites - 1, values);
        }
    d.n_references += x->n_references;
    if (x->n_references == 1 && x->references[0].where == CV_X86_FRAME) { /* leave */
        d.origins[4] = d.origins[5];
        kept |= 1 << 4;
    }
    for (uint64_t w = x->writes & ~kept; w; w &= w - 1)
        d.origins[__builtin_ctzll(w)] = values;
}

static void begin_definition(void)
{
    d.n_instructions = d.n_sites = d.words = d.n_references = 0;
    d.n_flows = 1; /* the head */
    for (int r = 0; r < CV_WIRE_FLOW_REGISTERS; r++)
        d.origins[r] = (struct origin){UINT64_C(1) << r, 0};
}

static void write_definition(const struct cv_blob_segment *s, const uint8_t *code)
{
    const struct cv_blob_mapping *mapping = (const struct cv_blob_mapping *)(target->memory + CV_OFF_MAPPINGS) + s->mapping;
    int is_file;
    const uint32_t module = module_of(mapping, &is_file);
    const struct cv_wire_segment segment = {.address = s->address,
                                            .file_offset = is_file ? s->address - mapping->low + mapping->offset : s->address,
                                            .id = next_id,
                                            .module = module,
                                            .counter = next_id,
                                            .first_site = next_site,
                                            .words = (uint16_t)d.words,
                                            .sites = (uint16_t)d.n_sites,
                                            .instructions = (uint16_t)d.n_instructions,
                                            .code_bytes = s->bytes};
    put_head(CV_WIRE_SEGMENT, words_for(sizeof segment) + (size_t)d.n_instructions + 3 * (size_t)d.n_sites + words_for(s->bytes));
    put_bytes(&segment, sizeof segment);
    put_bytes(d.instructions, sizeof *d.instructions * (size_t)d.n_instructions);
    put_bytes(d.sites, sizeof *d.sites * (size_t)d.n_sites);
    put_bytes(code, s->bytes);
    for (int r = 0; r < CV_WIRE_FLOW_REGISTERS; r++) {
        const struct origin *o = &d.origins[r];
        if (o->registers != UINT64_C(1) << r || o->references)
            d.flows[d.n_flows++] =
                (struct cv_wire_flow){o->registers | (uint64_t)CV_WIRE_FLOW_REGISTER << 62 | (uint64_t)r << 40, o->references};
    }
    d.flows[0] = (struct cv_wire_flow){next_id, 0};
    put_head(CV_WIRE_FLOW, 2 * (size_t)d.n_flows);
    put_bytes(d.flows, sizeof *d.flows * (size_t)d.n_flows);
    next_id++;
    next_site += (uint32_t)d.n_sites;
}

/* A repeated instruction is two segments, as with the Valgrind tool: it is entered once more than it turns, and each turn has its
 * references. */
static void define_repeated(const struct cv_blob_segment *s, const uint8_t *code)
{
    struct cv_x86 x;
    cv_x86_decode(code, s->bytes, s->address, &x);
    const uint8_t references = x.n_references;
    x.n_references = 0;
    begin_definition();
    describe(&x, s->address, 0);
    write_definition(s, code);
    x.n_references = references;
    begin_definition();
    describe(&x, s->address, 1);
    write_definition(s, code);
}

static void define(uint64_t number)
{
    const struct cv_blob_segment *s = &segments[number];
    const uint8_t *code = target->memory + CV_OFF_CODE + s->code;
    struct cv_x86 x;
    if (s->repeats) {
        define_repeated(s, code);
    } else {
        begin_definition();
        for (int at = 0; at < s->bytes; at += x.length) {
            if (!cv_x86_decode(code + at, s->bytes - at, s->address + (uint64_t)at, &x))
                break;
            describe(&x, s->address, 0);
        }
        write_definition(s, code);
    }
    loads_stores[number] = (uint8_t)d.n_sites;
    of_segment[number].first_site = next_site - (uint32_t)d.n_sites;
    of_segment[number].count = (uint32_t)d.n_references;
    of_segment[number].references = malloc((size_t)d.n_references * sizeof *d.references);
    if (of_segment[number].references)
        memcpy(of_segment[number].references, d.references, (size_t)d.n_references * sizeof *d.references);
    else
        of_segment[number].count = 0;
}

void cv_wire_definitions(void)
{
    const uint64_t have = __atomic_load_n(&target->shared->segments, __ATOMIC_ACQUIRE);
    while (known < have)
        define(known++);
}

/* ---- counts ---- */

static uint64_t *sums; /* of each exit over all slots */
static uint64_t sums_room;

static uint64_t sum_up(void)
{
    const uint64_t n = __atomic_load_n(&target->shared->exits, __ATOMIC_ACQUIRE),
                   slots = __atomic_load_n(&target->shared->slots, __ATOMIC_ACQUIRE);
    if (n > sums_room) {
        sums_room = 2 * n;
        sums = realloc(sums, sums_room * sizeof *sums);
    }
    const uint64_t inside = __atomic_load_n(&target->shared->inside, __ATOMIC_ACQUIRE);
    if (cv_has_marks(target->shared))
        memcpy(sums, target->memory + CV_OFF_BASE, n * sizeof *sums);
    else
        memset(sums, 0, n * sizeof *sums);
    for (uint64_t i = 0; i < slots; i++) {
        const uint64_t *counter = (const uint64_t *)((const uint8_t *)cv_slot_of(target, i) + CV_SLOT_COUNTERS);
        if (cv_slot_of(target, i)->guest)
            continue;
        for (uint64_t k = 1; k < n && inside; k++)
            sums[k] += counter[k];
    }
    return n;
}

/* References that each run of an exit's segments, or each turn, stands for. */
static int32_t weight_of(const struct cv_blob_exit *e)
{
    int32_t all = 0;
    if (!e->segments)
        return e->first < known ? e->sign * loads_stores[e->first] : 0;
    for (uint32_t i = 0; i < e->segments; i++) {
        const uint32_t s = listed[e->first + i];
        all += s < known && !segments[s].repeats ? loads_stores[s] : 0;
    }
    return all;
}

double cv_wire_references(void)
{
    static int32_t *weights;
    static uint64_t room, have = 1;
    const uint64_t n = sum_up();
    double all = 0;
    cv_wire_definitions();
    if (n > room) {
        room = 2 * n;
        weights = realloc(weights, room * sizeof *weights);
    }
    for (; have < n; have++)
        weights[have] = weight_of(&exits[have]);
    for (uint64_t k = 1; k < n; k++)
        all += weights[k] * (double)sums[k];
    return all;
}

/* Runs and turns of each segment. */
static void count(uint64_t *runs, uint64_t *turns)
{
    const uint64_t n = sum_up();
    for (uint64_t k = 1; k < n; k++) {
        const struct cv_blob_exit *e = &exits[k];
        if (!sums[k])
            continue;
        if (!e->segments)
            turns[e->first] += e->sign > 0 ? sums[k] : -sums[k];
        for (uint32_t i = 0; i < e->segments; i++)
            runs[listed[e->first + i]] += sums[k];
    }
}

void cv_wire_counters(int finished)
{
    if (!counters)
        return;
    uint64_t *runs = calloc(2 * (target->shared->segments + 4096), sizeof *runs), *turns = runs + target->shared->segments + 4096;
    cv_wire_definitions();
    if (known < (uint64_t)(turns - runs)) {
        count(runs, turns);
        for (uint64_t s = 0; s < known; s++) {
            counters[segments[s].wire] = runs[s] + turns[s];
            if (segments[s].repeats)
                counters[segments[s].wire + 1] = turns[s];
        }
    }
    free(runs);
    header->used = next_id;
    header->finished = (uint64_t)finished;
}

int cv_wire_vector_sets(void)
{
    uint64_t *runs = calloc(2 * known + 2, sizeof *runs);
    int found = 0;
    if (!runs)
        return 0;
    count(runs, runs + known + 1);
    for (uint64_t s = 0; s < known; s++) {
        const uint8_t *code = target->memory + CV_OFF_CODE + segments[s].code;
        struct cv_x86 x;
        for (int at = 0; runs[s] && at < segments[s].bytes; at += x.length) {
            if (!cv_x86_decode(code + at, segments[s].bytes - at, segments[s].address + (uint64_t)at, &x))
                break;
            found |= 1 << x.encoding;
        }
    }
    free(runs);
    return found;
}

int cv_wire_dump(const char *path)
{
    FILE *out = fopen(path, "we");
    uint64_t *runs = calloc(2 * target->shared->segments + 2, sizeof *runs), *turns = runs + target->shared->segments;
    if (!out || !runs)
        return -1;
    count(runs, turns);
    for (uint64_t s = 0; s < target->shared->segments; s++) {
        fprintf(out, "%lx %lu %lu", (unsigned long)segments[s].address, (unsigned long)runs[s], (unsigned long)turns[s]);
        const uint8_t *code = target->memory + CV_OFF_CODE + segments[s].code;
        struct cv_x86 x;
        for (int at = 0; at < segments[s].bytes; at += x.length) {
            if (!cv_x86_decode(code + at, segments[s].bytes - at, segments[s].address + (uint64_t)at, &x))
                break;
            fprintf(out, " %d", x.length);
        }
        fputc('\n', out);
    }
    free(runs);
    return fclose(out);
}

/* ---- references to the class of sets ---- */

static uint64_t last_line, last_class;
static int last_written;

/* See CV_WIRE_REPEATED_CLASSES. */
static int is_repeated(uint64_t line, int store)
{
    const int same = line == last_line, known_before = same && (last_written || !store);
    last_written = store || (same && last_written);
    last_line = line;
    return known_before && last_class >= CV_WIRE_REPEATED_CLASSES;
}

static void put_lines(uint64_t address, uint32_t size, uint32_t site, int store)
{
    const uint64_t last = (address + size - 1) >> 6, of_class = target->shared->set_class, mask = last_class | (target->shared->sets - 1);
    for (uint64_t line = address >> 6; line <= last; line++) {
        if ((line & mask) != of_class || is_repeated(line, store))
            continue;
        if (site >> CV_WIRE_SITE_BITS == 0) {
            put((line << CV_WIRE_SITE_BITS | site) & ~CV_WIRE_VISIT);
        } else {
            put(CV_WIRE_CONTROL | (uint64_t)CV_WIRE_SETS_LOST << 56 | site);
            put(line << 6);
        }
    }
}

static int touches(uint64_t address, uint32_t size)
{
    return ((address + size - 1 - 64 * target->shared->set_class) & (64 * target->shared->sets - 1)) < 63 + size;
}

static void put_set_references(uint64_t segment, const struct reference *r, uint64_t address)
{
    if (!touches(address, r->size))
        return;
    const uint32_t first = of_segment[segment].first_site;
    if (r->load >= 0)
        put_lines(address, r->size, first + (uint32_t)r->load, 0);
    if (r->store >= 0)
        put_lines(address, r->size, first + (uint32_t)r->store, 1);
}

/* Turns until a reference may touch the class that is wanted; 0: it does now. */
static uint64_t turns_to_class(uint64_t address, uint32_t size, int64_t step)
{
    const uint64_t bytes = 64 * ((last_class | (target->shared->sets - 1)) + 1),
                   at = (address + size - 1 - 64 * target->shared->set_class) % bytes;
    if (at < 63u + size)
        return 0;
    const uint64_t distance = step > 0 ? bytes - at : at - 62 - size, turns = distance / (uint64_t)(step < 0 ? -step : step);
    return turns ? turns : 1;
}

/* A repeated instruction: its turns, of which those between lines of the class are passed over. */
static void put_set_turns(uint64_t segment, const uint64_t *first, uint64_t turns, uint64_t behind)
{
    const uint32_t n = of_segment[segment].count;
    const int64_t step = turns && turns < UINT64_C(1) << 40 ? ((int64_t)behind - (int64_t)first[0]) / (int64_t)turns : 0;
    for (uint64_t t = 0, next = 1; t < turns; t += next) {
        next = step ? UINT64_MAX : turns;
        for (uint32_t k = 0; k < n; k++) {
            const struct reference *r = &of_segment[segment].references[k];
            const uint64_t address = first[k] + (uint64_t)(step * (int64_t)t), ahead = step ? turns_to_class(address, r->size, step) : 0;
            if (!ahead)
                put_set_references(segment, r, address);
            next = ahead < next ? ahead : next;
        }
        next = next ? next : 1;
        next = next < turns - t ? next : turns - t;
        if (!step)
            break;
    }
}

static void put_sets_of_visit(uint64_t segment, const uint64_t *words)
{
    if (segments[segment].repeats) {
        const uint32_t n = segments[segment].words - CV_REPEAT_WORDS;
        put_set_turns(segment, words, words[n] - words[n + 1], words[n + 2]);
        return;
    }
    for (uint32_t k = 0; k < of_segment[segment].count; k++) {
        const struct reference *r = &of_segment[segment].references[k];
        put_set_references(segment, r, r->word < 0 ? (uint64_t)r->displacement : words[r->word]);
    }
}

/* Returns where it stopped: at events that may not be reported yet. */
static const uint64_t *put_hits(const uint64_t *from, const uint64_t *to, uint64_t allowed)
{
    static uint64_t first[4], before, behind;
    for (; from + 2 <= to; from += 2) {
        const uint64_t segment = from[0] >> 8, which = from[0] & 255;
        if (from[0] == CV_PART_EVENTS) {
            if (from[1] > allowed)
                return from;
            cv_objects_tell(from[1]);
            continue;
        }
        if (segment >= known)
            continue;
        if (which == CV_HIT_BEFORE)
            before = from[1];
        else if (which == CV_HIT_BEHIND)
            behind = from[1];
        else if (which == CV_HIT_POINTER)
            put_set_turns(segment, first, before - behind, from[1]);
        else if (which >= of_segment[segment].count)
            continue;
        else if (segments[segment].repeats)
            first[which & 3] = from[1];
        else
            put_set_references(segment, &of_segment[segment].references[which], from[1]);
    }
    return to;
}

/* ---- windows ---- */

static uint64_t windows, interval;
static struct {
    uint64_t thread; /* whose window it is; 0: none is open */
    uint64_t references;
    int warm;
} window;

/* One run of a repeated instruction as its turns; returns their references. */
static uint64_t put_turns(const struct cv_blob_segment *s, uint32_t id, const uint64_t *words, uint64_t most)
{
    const uint32_t references = s->words - CV_REPEAT_WORDS;
    const uint64_t turns = words[references] - words[references + 1];
    const int64_t step = turns && turns < (UINT64_C(1) << 40) ? ((int64_t)words[references + 2] - (int64_t)words[0]) / (int64_t)turns : 0;
    const uint64_t shown = turns < most ? turns : most;
    for (uint64_t t = 0; t < shown; t++) {
        if (options->paths)
            put(CV_WIRE_VISIT | id);
        put(CV_WIRE_VISIT | (id + 1));
        for (uint32_t k = 0; k < references; k++)
            put(words[k] + (uint64_t)(step * (int64_t)t));
    }
    if (options->paths)
        put(CV_WIRE_VISIT | id);
    return shown * references;
}

static void close_window(void)
{
    if (window.thread)
        put(CV_WIRE_CONTROL | (uint64_t)CV_WIRE_WINDOW_CLOSE << 56);
    window.thread = 0;
}

static const uint64_t *put_visits(uint64_t thread, const struct cv_blob_part *part, const uint64_t *from, const uint64_t *to,
                                  uint64_t allowed)
{
    if (!window.thread && !options->full) {
        put(CV_WIRE_CONTROL | (uint64_t)CV_WIRE_WINDOW_OPEN << 56);
        window.thread = thread;
        window.references = 0;
        window.warm = !options->warmup;
        windows++;
    }
    while (from < to) {
        const uint64_t number = *from & UINT32_MAX;
        if (number == CV_PART_EVENTS) {
            if (from[1] > allowed)
                return from;
            cv_objects_tell(from[1]);
            from += 2;
            continue;
        }
        if (number >= known || from + 1 + segments[number].words > to)
            break;
        const struct cv_blob_segment *s = &segments[number];
        if (window.thread && !window.warm && window.references >= options->warmup) {
            put(CV_WIRE_CONTROL | (uint64_t)CV_WIRE_WINDOW_WARM << 56);
            window.warm = 1;
        }
        if (part->sets)
            put_sets_of_visit(number, from + 1);
        const uint64_t left = options->block_limit ? options->block_limit - of_segment[number].visits : UINT64_MAX;
        if (left && s->repeats) {
            const uint64_t shown = put_turns(s, segments[number].wire, from + 1, left <= options->sample ? left - 1 : options->sample);
            window.references += shown;
            of_segment[number].visits += options->block_limit ? shown / (s->words - CV_REPEAT_WORDS) + 1 : 0;
        } else if (left && (options->paths || loads_stores[number])) {
            of_segment[number].visits += options->block_limit > 0;
            put(CV_WIRE_VISIT | segments[number].wire);
            for (uint32_t k = 0; k < s->words; k++)
                put(from[1 + k]);
            window.references += loads_stores[number];
        }
        from += 1 + s->words;
    }
    if (part->last)
        close_window();
    return to;
}

void cv_wire_interval(uint64_t number)
{
    if (!options->stretch || window.thread || number <= interval)
        return;
    interval = number;
    put(CV_WIRE_CONTROL | (uint64_t)CV_WIRE_INTERVAL << 56 | number);
}

/* With data objects: where reading the next part stopped, and the events before what comes there. */
static struct {
    const uint64_t *at;
    uint64_t events;
} stopped[CV_MOST_SLOTS];

/* Returns 1 where all of it has been read. */
static int put_part(uint64_t slot, uint64_t of, const struct cv_blob_part *part, const uint64_t *from, const uint64_t *to, uint64_t allowed)
{
    const uint64_t every = header ? header->every[CV_EVERY_SET] : 0;
    const int first = part->first && !stopped[of].at;
    last_class = every ? every - 1 : target->shared->sets - 1;
    cv_wire_definitions();
    if (window.thread && (window.thread != slot + 1 || first || part->kind == CV_PART_HITS))
        close_window();
    cv_wire_interval(part->interval);
    if (thread_now != slot + 1) {
        thread_now = slot + 1;
        put(CV_WIRE_CONTROL | (uint64_t)CV_WIRE_THREAD << 56 | thread_now);
    }
    const uint64_t *at = stopped[of].at ? stopped[of].at : from;
    at = part->kind == CV_PART_HITS ? put_hits(at, to, allowed) : put_visits(slot + 1, part, at, to, allowed);
    stopped[of].at = at < to ? at : NULL;
    stopped[of].events = at < to ? at[1] : 0;
    return at == to;
}

static const struct cv_blob_part *part_of(const struct cv_slot *slot, uint64_t number, const uint64_t **begin)
{
    *begin = (const uint64_t *)((const uint8_t *)slot + CV_SLOT_BUFFER + number % CV_PARTS * CV_PART_BYTES);
    return (const struct cv_blob_part *)((const uint8_t *)slot + CV_SLOT_PARTS) + number % CV_PARTS;
}

/* What a thread was recording when the program ended becomes its last part. */
static void hand_rest(struct cv_slot *slot)
{
    const uint64_t *begin;
    struct cv_blob_part *part = (struct cv_blob_part *)(uintptr_t)part_of(slot, slot->handed, &begin);
    const uint64_t bytes = slot->buffer - slot->self - CV_SLOT_BUFFER - slot->handed % CV_PARTS * CV_PART_BYTES;
    if (!slot->in_part || bytes > CV_PART_BYTES)
        return;
    const uint64_t *end = begin + bytes / 8, *last = begin, *at = begin;
    cv_wire_definitions();
    if (part->kind == CV_PART_HITS)
        last = end;
    while (part->kind == CV_PART_VISITS && at < end && ((*at & UINT32_MAX) < known || *at == CV_PART_EVENTS)) {
        last = at; /* it may not be whole */
        at += *at == CV_PART_EVENTS ? 2 : 1 + segments[*at & UINT32_MAX].words;
    }
    part->bytes = (uint32_t)((last - begin) * 8);
    part->last = 1;
    slot->in_part = 0;
    slot->handed++;
}

/* ---- data objects and several threads ----
 *
 * Events are reported before what was recorded after them, and after what other threads recorded before them. A thread that has not handed
 * this over yet is asked to; one that does not run is passed over. */

#define PATIENCE 0.02 /* seconds */
#define LONGEST_PATIENCE 5.0

static double waiting_since;

/* Events before what the slot has recorded and nobody has read yet; where there is nothing, all. */
static uint64_t events_before(struct cv_slot *slot, uint64_t number, int *asked)
{
    const uint64_t *begin, none = sizeof(uint64_t[2]); /* where events alone are in it */
    const struct cv_blob_part *part = part_of(slot, slot->taken, &begin);
    const uint64_t from = slot->self + (uint64_t)((const uint8_t *)begin - (const uint8_t *)slot);
    const int in_part = __atomic_load_n(&slot->in_part, __ATOMIC_SEQ_CST) && slot->buffer > from + none;
    if (slot->taken != __atomic_load_n(&slot->handed, __ATOMIC_SEQ_CST)) /* it may just have been handed */
        return stopped[number].at ? stopped[number].events : part->events;
    if (!in_part)
        return UINT64_MAX;
    const double waited = waiting_since > 0 ? cv_seconds(CLOCK_MONOTONIC) - waiting_since : 0;
    if (waited > LONGEST_PATIENCE || (waited > PATIENCE && !cv_thread_runs(target->pid, (pid_t)slot->tid)))
        return UINT64_MAX;
    *asked = 1;
    return part->events;
}

/* Events that may be reported before what this slot recorded. */
static uint64_t events_allowed(uint64_t one)
{
    const uint64_t slots = __atomic_load_n(&target->shared->slots, __ATOMIC_ACQUIRE);
    uint64_t least = __atomic_load_n(&target->shared->events, __ATOMIC_ACQUIRE);
    if (!options->objects)
        return UINT64_MAX;
    for (uint64_t i = 0; i < slots; i++) {
        struct cv_slot *slot = cv_slot_of(target, i);
        int unread = 0;
        const uint64_t before = i == one || slot->guest ? UINT64_MAX : events_before(slot, i, &unread);
        if (before >= least)
            continue;
        least = before;
        if (unread)
            cv_want(slot, CV_WANT_PART);
    }
    return least;
}

static void tell_events(int any)
{
    const uint64_t had = target->shared->reported, events = target->shared->events;
    cv_objects_look();
    if (!any)
        cv_objects_tell(events_allowed(CV_MOST_SLOTS));
    if (any || target->shared->reported != had || had == events)
        waiting_since = 0;
    else if (waiting_since == 0)
        waiting_since = cv_seconds(CLOCK_MONOTONIC);
}

/* Nanoseconds of the controller's processor time. */
static uint64_t time_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int cv_wire_parts(void)
{
    const uint64_t slots = __atomic_load_n(&target->shared->slots, __ATOMIC_ACQUIRE);
    int any = 0;
    for (uint64_t i = 0; i < slots; i++) {
        struct cv_slot *slot = cv_slot_of(target, i);
        const uint64_t taken = slot->taken, *begin;
        if (taken == __atomic_load_n(&slot->handed, __ATOMIC_ACQUIRE))
            continue;
        const struct cv_blob_part *part = part_of(slot, taken, &begin);
        assert(slot->handed - taken <= CV_PARTS && part->bytes <= CV_PART_BYTES && part->bytes % 8 == 0);
        const uint64_t since = time_now(), *at = stopped[i].at;
        const int whole = put_part(target->shared->bursts_only ? 0 : i, i, part, begin, begin + part->bytes / 8, events_allowed(i));
        __atomic_fetch_add(&target->shared->pace.read[part->kind == CV_PART_HITS], time_now() - since, __ATOMIC_RELAXED);
        if (whole)
            __atomic_store_n(&slot->taken, taken + 1, __ATOMIC_RELEASE);
        any |= whole || stopped[i].at != at;
    }
    if (options->objects)
        tell_events(any);
    return any;
}

void cv_wire_last_parts(void)
{
    while (cv_wire_parts())
        ;
    for (uint64_t i = 0; i < target->shared->slots; i++)
        hand_rest(cv_slot_of(target, i));
    while (cv_wire_parts())
        ;
    close_window();
}

/* The interval that all threads have come to, where nothing is left of those before; else the last one that is known. */
uint64_t cv_wire_interval_so_far(void)
{
    const uint64_t slots = __atomic_load_n(&target->shared->slots, __ATOMIC_ACQUIRE);
    uint64_t least = __atomic_load_n(&target->shared->interval, __ATOMIC_ACQUIRE);
    const uint64_t *begin;
    for (uint64_t i = 0; i < slots; i++) {
        const struct cv_slot *slot = cv_slot_of(target, i);
        if (slot->taken != __atomic_load_n(&slot->handed, __ATOMIC_ACQUIRE))
            return interval;
        const struct cv_blob_part *part = part_of(slot, slot->handed, &begin);
        if (slot->in_part && part->interval < least)
            least = part->interval;
    }
    return least;
}

void cv_wire_classes(uint64_t classes, uint64_t *mask, uint64_t *leaves_repeated)
{
    *mask = classes ? 64 * (classes - 1) : 0;
    *leaves_repeated = classes > CV_WIRE_REPEATED_CLASSES;
}

void cv_wire_pace(void)
{
    struct cv_blob_pace *pace = &target->shared->pace;
    if (!header)
        return;
    for (int what = CV_EVERY_BURST; what <= CV_EVERY_STRETCH; what++) {
        if (header->every[what])
            pace->every[what] = header->every[what];
        header->own[what] = pace->own[what];
    }
    if (target->shared->sets && header->every[CV_EVERY_SET] > target->shared->sets)
        cv_wire_classes(header->every[CV_EVERY_SET], &target->shared->set_mask, &target->shared->leaves_repeated);
}

/* ---- the end ---- */

void cv_wire_system(uint64_t page_faults)
{
    struct stat status;
    static struct cv_wire_call calls[CV_MOST_CALLS * CV_CALL_TARGETS];
    struct cv_wire_system system = {.page_bytes = 4096, .forks = target->shared->forks, .threads = target->shared->threads};
    uint64_t own = 64;
    if (!fstat(target->file, &status))
        own += (uint64_t)status.st_blocks / 8;
    for (uint64_t i = 0; i < target->shared->regions; i++)
        own += (target->shared->region[i].at - target->shared->region[i].base + target->shared->region[i].end -
                target->shared->region[i].pool) /
               4096;
    if (page_faults && !cv_has_marks(target->shared)) {
        system.flags = CV_WIRE_PAGES_KNOWN;
        system.pages.anonymous = page_faults > own ? page_faults - own : 0;
    }
    for (uint32_t number = 0; number < CV_MOST_CALLS; number++)
        for (uint32_t t = 0; t < CV_CALL_TARGETS; t++) {
            const struct cv_blob_call *c = &target->shared->calls[number][t];
            if (c->calls && system.calls < 1000)
                calls[system.calls++] = (struct cv_wire_call){number, t, c->calls, c->bytes};
        }
    put_head(CV_WIRE_SYSTEM, words_for(sizeof system) + 3 * system.calls);
    put_bytes(&system, sizeof system);
    put_bytes(calls, sizeof *calls * system.calls);
}

void cv_wire_end(int reason, int code)
{
    const struct cv_wire_end end = {.reason = (uint32_t)reason, .code = code, .windows = windows};
    put_head(CV_WIRE_END, words_for(sizeof end));
    put_bytes(&end, sizeof end);
    cv_wire_flush();
}
