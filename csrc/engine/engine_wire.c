/* What the engine found, in the wire format (cv_wire.h): definitions of segments from their code, counts, windows of visits. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
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
static uint32_t *wire_of;     /* id in the stream of each segment; a repeated one has the next, too */
static uint8_t *loads_stores; /* references of one execution */
static uint64_t known;        /* segments that are defined */
static uint32_t next_id, next_site;
static uint64_t windows;
static uint64_t thread_now;

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

int cv_wire_begin(const struct cv_options *chosen, struct cv_target *traced)
{
    options = chosen;
    target = traced;
    segments = (struct cv_blob_segment *)(target->memory + CV_OFF_SEGMENTS);
    exits = (const struct cv_blob_exit *)(target->memory + CV_OFF_EXITS);
    listed = (const uint32_t *)(target->memory + CV_OFF_LIST);
    wire_of = mmap(NULL, sizeof *wire_of * CV_MOST_SEGMENTS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    loads_stores = mmap(NULL, CV_MOST_SEGMENTS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (wire_of == MAP_FAILED || loads_stores == MAP_FAILED)
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

struct origin {
    uint64_t registers, references;
};

struct definition {
    struct cv_wire_instruction instructions[MOST_INSTRUCTIONS];
    struct cv_wire_site sites[MOST_SITES];
    struct cv_wire_flow flows[2 * MOST_SITES + CV_WIRE_FLOW_REGISTERS + 1];
    struct origin origins[CV_WIRE_FLOW_REGISTERS];
    int n_instructions, n_sites, n_flows, words;
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

static void add_site(const struct cv_x86 *x, int reference, int stores, int atomic, int word, struct origin address)
{
    const struct cv_x86_reference *r = &x->references[reference];
    int64_t displacement = 0;
    if (word < 0)
        displacement = x->displacement + (x->base == CV_X86_RIP ? (int64_t)(x->address + x->length) : 0);
    struct cv_wire_site *site = &d.sites[d.n_sites];
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
    d.instructions[d.n_instructions++] = (struct cv_wire_instruction){
        .offset = (uint16_t)(x->address - begin), .length = x->length, .flags = continued ? CV_WIRE_CONTINUED : 0, .flops = x->flops};
    for (int i = 0; i < x->n_references; i++) {
        const uint64_t made_of = address_registers(x, i);
        const int where = x->references[i].where;
        data &= ~made_of;
        if (where == CV_X86_PUSH || where == CV_X86_POP || where == CV_X86_SOURCE || where == CV_X86_TARGET)
            kept |= made_of | (x->repeated || x->compares ? 1 << 1 : 0);
        store_words[i] = cv_has_word(x, i) ? d.words++ : -1;
        if (x->references[i].access & CV_X86_LOAD) {
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
            add_site(x, i, 1, atomic, store_words[i], join(address_registers(x, i)));
            flow(CV_WIRE_FLOW_VALUE, d.n_sites - 1, values);
        }
    if (x->n_references == 1 && x->references[0].where == CV_X86_FRAME) { /* leave */
        d.origins[4] = d.origins[5];
        kept |= 1 << 4;
    }
    for (uint64_t w = x->writes & ~kept; w; w &= w - 1)
        d.origins[__builtin_ctzll(w)] = values;
}

static void begin_definition(void)
{
    d.n_instructions = d.n_sites = d.n_flows = d.words = 0;
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
    wire_of[number] = next_id;
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
    memset(sums, 0, n * sizeof *sums);
    for (uint64_t i = 0; i < slots; i++) {
        const uint64_t *counter = (const uint64_t *)((const uint8_t *)cv_slot_of(target, i) + CV_SLOT_COUNTERS);
        for (uint64_t k = 1; k < n; k++)
            sums[k] += counter[k];
    }
    return n;
}

double cv_wire_references(void)
{
    const uint64_t n = sum_up();
    double all = 0;
    for (uint64_t k = 1; k < n; k++) {
        if (!sums[k])
            continue;
        const struct cv_blob_exit *e = &exits[k];
        if (!e->segments && e->first < known)
            all += (double)e->sign * (double)sums[k] * loads_stores[e->first];
        uint64_t each = 0;
        for (uint32_t i = 0; i < e->segments; i++) {
            const uint32_t s = listed[e->first + i];
            each += s < known && !segments[s].repeats ? loads_stores[s] : 0;
        }
        all += (double)each * (double)sums[k];
    }
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
            counters[wire_of[s]] = runs[s] + turns[s];
            if (segments[s].repeats)
                counters[wire_of[s] + 1] = turns[s];
        }
    }
    free(runs);
    header->used = next_id;
    header->finished = (uint64_t)finished;
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

/* ---- windows ---- */

/* One run of a repeated instruction as its turns; returns their references. */
static uint64_t put_turns(const struct cv_blob_segment *s, uint32_t id, const uint64_t *words, uint64_t most)
{
    const uint32_t references = s->words - CV_REPEAT_WORDS;
    const uint64_t turns = words[references] - words[references + 1];
    const int64_t step = turns && turns < (UINT64_C(1) << 40) ? ((int64_t)words[references + 2] - (int64_t)words[0]) / (int64_t)turns : 0;
    const uint64_t shown = turns < most ? turns : most;
    for (uint64_t t = 0; t < shown; t++) {
        put(CV_WIRE_VISIT | id);
        put(CV_WIRE_VISIT | (id + 1));
        for (uint32_t k = 0; k < references; k++)
            put(words[k] + (uint64_t)(step * (int64_t)t));
    }
    put(CV_WIRE_VISIT | id);
    return shown * references;
}

static void put_window(uint64_t slot, const uint64_t *from, const uint64_t *to)
{
    uint64_t references = 0;
    int warm = !options->warmup;
    if (thread_now != slot + 1) {
        thread_now = slot + 1;
        put(CV_WIRE_CONTROL | (uint64_t)CV_WIRE_THREAD << 56 | thread_now);
    }
    put(CV_WIRE_CONTROL | (uint64_t)CV_WIRE_WINDOW_OPEN << 56);
    while (from < to) {
        const uint64_t number = *from & UINT32_MAX;
        if (number >= known || from + 1 + segments[number].words > to)
            break;
        const struct cv_blob_segment *s = &segments[number];
        if (!warm && references >= options->warmup) {
            put(CV_WIRE_CONTROL | (uint64_t)CV_WIRE_WINDOW_WARM << 56);
            warm = 1;
        }
        if (s->repeats) {
            references += put_turns(s, wire_of[number], from + 1, options->sample);
        } else {
            put(CV_WIRE_VISIT | wire_of[number]);
            for (uint32_t k = 0; k < s->words; k++)
                put(from[1 + k]);
            references += loads_stores[number];
        }
        from += 1 + s->words;
    }
    put(CV_WIRE_CONTROL | (uint64_t)CV_WIRE_WINDOW_CLOSE << 56);
    windows++;
}

void cv_wire_windows(int ended)
{
    const uint64_t slots = __atomic_load_n(&target->shared->slots, __ATOMIC_ACQUIRE);
    for (uint64_t i = 0; i < slots; i++) {
        struct cv_slot *slot = cv_slot_of(target, i);
        const uint64_t *begin = (const uint64_t *)((const uint8_t *)slot + CV_SLOT_BUFFER);
        if (__atomic_load_n(&slot->full, __ATOMIC_ACQUIRE)) {
            cv_wire_definitions();
            put_window(i, begin, begin + (slot->burst_end - slot->self - CV_SLOT_BUFFER) / 8);
            __atomic_store_n(&slot->full, 0, __ATOMIC_RELEASE);
        } else if (ended && slot->mode == CV_RECORDING && slot->buffer > slot->self + CV_SLOT_BUFFER) {
            cv_wire_definitions();
            const uint64_t *end = begin + (slot->buffer - slot->self - CV_SLOT_BUFFER) / 8, *last = begin;
            for (const uint64_t *at = begin; at < end; at += 1 + segments[*at & UINT32_MAX].words)
                last = at; /* it may not be whole */
            put_window(i, begin, last);
        }
    }
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
    if (page_faults) {
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
