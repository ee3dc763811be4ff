/* Defines segments and the files of their code: instructions, sites, and how values flow through them. */
#define _GNU_SOURCE
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine_wire.h"

#define MOST_INSTRUCTIONS 48
#define MOST_LANES 128
#define MOST_SITES (4 * MOST_INSTRUCTIONS + MOST_LANES)

struct segment_definition *of_segment;
uint8_t *loads_stores;
uint64_t known;
uint32_t next_counter;
static uint32_t next_id, next_site;

static void *room_for_segments(size_t bytes)
{
    void *const room = mmap(NULL, bytes * CV_MOST_SEGMENTS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return room == MAP_FAILED ? NULL : room;
}

int begin_definitions(void)
{
    loads_stores = room_for_segments(sizeof *loads_stores);
    of_segment = room_for_segments(sizeof *of_segment);
    return loads_stores && of_segment ? 0 : -1;
}

uint32_t cv_wire_module(const struct cv_blob_mapping *mapping)
{
    static char *paths[CV_MOST_MAPPINGS];
    static uint32_t n_modules;
    char path[sizeof mapping->path + 1];
    memcpy(path, mapping->path, mapping->path_bytes);
    path[mapping->path_bytes] = 0;
    for (uint32_t i = 0; i < n_modules; i++)
        if (!strcmp(paths[i], path))
            return i;
    const uint32_t id = n_modules;
    assert(n_modules < CV_MOST_MAPPINGS);
    paths[n_modules++] = strdup(path);
    const struct cv_wire_module module = {mapping->low, mapping->high - mapping->low, *path ? mapping->offset : 0, mapping->path_bytes, 0};
    put_head(CV_WIRE_MODULE, (uint64_t)id << 32 | (words_for(sizeof module) + words_for(mapping->path_bytes)));
    put_bytes(&module, sizeof module);
    put_bytes(path, mapping->path_bytes);
    return id;
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
    int n_instructions, n_sites, n_flows, words, n_references, lanes, encodings;
    uint32_t counter;
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
    *site = (struct cv_wire_site){.displacement = displacement,
                                  .size_bytes = x->lanes ? x->lane_bytes : r->size,
                                  .instruction = (uint16_t)(d.n_instructions - 1),
                                  .base = (int16_t)word};
    site->flags = (uint8_t)((stores ? CV_WIRE_STORE : 0) | (address.references ? CV_WIRE_DEPENDENT : 0) | (atomic ? CV_WIRE_ATOMIC : 0) |
                            (x->prefetches ? CV_WIRE_PREFETCH : 0));
    if (x->lanes) {
        site->flags |= CV_WIRE_GUARDED;
        site->guard_counter = d.counter + 1 + (uint32_t)d.lanes++;
    }
    flow(CV_WIRE_FLOW_ADDRESS, d.n_sites, address);
    d.n_sites++;
}

/* Each element that a mask chooses is a reference of its own. Returns what the instruction's values are made of. */
static struct origin describe_lanes(const struct cv_x86 *x)
{
    const int stores = x->references[0].access & CV_X86_STORE;
    const uint64_t made_of = address_registers(x, 0);
    const struct origin address = join(made_of);
    struct origin values = join(x->reads & ~made_of);
    for (int i = 0; i < x->lanes; i++) {
        const int16_t site = (int16_t)d.n_sites, word = (int16_t)d.words++;
        d.references[d.n_references++] =
            (struct reference){.word = word, .size = x->lane_bytes, .load = stores ? -1 : site, .store = stores ? site : -1};
        add_site(x, 0, stores, 0, word, address);
        if (stores)
            flow(CV_WIRE_FLOW_VALUE, site, values);
        else if (site < 64)
            values.references |= UINT64_C(1) << site;
    }
    return values;
}

static void describe(const struct cv_x86 *x, uint64_t begin, int continued)
{
    uint64_t data = x->reads, kept = 0;
    struct origin values;
    int load_sites[4], n_loads = 0, store_words[2] = {-1, -1};
    const int atomic = x->n_references && (x->locked || (x->map == 0 && (x->opcode & 0xfe) == 0x86));
    assert(d.n_instructions < MOST_INSTRUCTIONS);
    d.encodings |= 1 << x->encoding;
    d.instructions[d.n_instructions++] = (struct cv_wire_instruction){
        .offset = (uint16_t)(x->address - begin), .length = x->length, .flags = continued ? CV_WIRE_CONTINUED : 0, .flops = x->flops};
    if (x->lanes) {
        values = describe_lanes(x);
        for (uint64_t w = x->writes; w; w &= w - 1)
            d.origins[__builtin_ctzll(w)] = values;
        return;
    }
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

static void begin_definition(uint32_t counter)
{
    d.n_instructions = d.n_sites = d.words = d.n_references = d.lanes = d.encodings = 0;
    d.counter = counter;
    d.n_flows = 1; /* the head */
    for (int r = 0; r < CV_WIRE_FLOW_REGISTERS; r++)
        d.origins[r] = (struct origin){UINT64_C(1) << r, 0};
}

int instruction_at(const struct cv_blob_segment *s, int at, struct cv_x86 *x)
{
    const uint8_t *const code = target->memory + CV_OFF_CODE + s->code + at;
    const int length = at < s->bytes ? cv_x86_decode(code, s->bytes - at, s->address + (uint64_t)at, x) : 0;
    if (!target->shared->setup.pext)
        x->lanes = 0;
    return length;
}

static void write_definition(const struct cv_blob_segment *s)
{
    const struct cv_blob_mapping *mapping = (const struct cv_blob_mapping *)(target->memory + CV_OFF_MAPPINGS) + s->mapping;
    const struct cv_wire_segment segment = {.address = s->address,
                                            .file_offset = mapping->path_bytes ? s->address - mapping->low + mapping->offset : s->address,
                                            .id = next_id,
                                            .module = cv_wire_module(mapping),
                                            .counter = d.counter,
                                            .first_site = next_site,
                                            .words = (uint16_t)d.words,
                                            .sites = (uint16_t)d.n_sites,
                                            .instructions = (uint16_t)d.n_instructions,
                                            .code_bytes = s->bytes};
    put_head(CV_WIRE_SEGMENT, words_for(sizeof segment) + (size_t)d.n_instructions + 3 * (size_t)d.n_sites + words_for(s->bytes));
    put_bytes(&segment, sizeof segment);
    put_bytes(d.instructions, sizeof *d.instructions * (size_t)d.n_instructions);
    put_bytes(d.sites, sizeof *d.sites * (size_t)d.n_sites);
    put_bytes(target->memory + CV_OFF_CODE + s->code, s->bytes);
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
static void define_repeated(const struct cv_blob_segment *s)
{
    struct cv_x86 x;
    instruction_at(s, 0, &x);
    const uint8_t references = x.n_references;
    x.n_references = 0;
    begin_definition(s->wire);
    describe(&x, s->address, 0);
    write_definition(s);
    x.n_references = references;
    begin_definition(s->wire + 1);
    describe(&x, s->address, 1);
    write_definition(s);
}

/* A copy of the references that stays. */
static struct reference *kept_references(void)
{
    static struct reference *room;
    static size_t left;
    const size_t n = (size_t)d.n_references;
    if (n > left) {
        left = 16 * MOST_SITES;
        room = malloc(left * sizeof *room);
        if (!room)
            left = 0;
    }
    if (n > left)
        return NULL;
    struct reference *const copy = memcpy(room, d.references, n * sizeof *room);
    room += n;
    left -= n;
    return copy;
}

static void define(uint64_t number)
{
    const struct cv_blob_segment *s = &segments[number];
    struct cv_x86 x;
    of_segment[number].id = next_id;
    if (s->repeats) {
        define_repeated(s);
    } else {
        begin_definition(s->wire);
        for (int at = 0; instruction_at(s, at, &x); at += x.length)
            describe(&x, s->address, 0);
        write_definition(s);
    }
    next_counter = s->wire + 1 + s->repeats + (uint32_t)d.lanes;
    loads_stores[number] = (uint8_t)(d.n_sites - d.lanes);
    of_segment[number].lanes = (uint16_t)d.lanes;
    of_segment[number].encodings = (uint16_t)d.encodings;
    of_segment[number].first_site = next_site - (uint32_t)d.n_sites;
    of_segment[number].count = (uint32_t)d.n_references;
    of_segment[number].references = kept_references();
    if (!of_segment[number].references)
        of_segment[number].count = 0;
}

void cv_wire_definitions(void)
{
    const uint64_t have = __atomic_load_n(&target->shared->segments, __ATOMIC_ACQUIRE);
    while (known < have)
        define(known++);
}
