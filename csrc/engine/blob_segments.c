/* What the translator knows: decoded code, translations by address, segments, where the copies of instructions are, code caches. */
#include "address_words.h"
#include "translator.h"

#define REGION_BYTES 0x18000000
#define REGION_ROOM 0x20000       /* that the largest translation needs */
#define REACH INT64_C(0x64000000) /* with a cache above the code and 64 MiB of module below it, less than 2 GiB */

void fill_lookups(int mode)
{
    if (SHARED->lookups_filled >> mode & 1)
        return;
    for (uint64_t i = 0; i < CV_LOOKUPS; i++)
        cv_lookups(mode)[i] = (uint64_t)cv_lookup_miss;
    SHARED->lookups_filled |= UINT64_C(1) << mode;
}

void cv_enter_lookup(int mode, uint64_t target, uint64_t code)
{
    __atomic_store_n(&cv_lookups(mode)[target % CV_LOOKUPS], code - LANDING_BYTES, __ATOMIC_RELEASE);
}

/* ---- decoded code ---- */

/* Instructions that were decoded lately: looking ahead for flags comes to the same ones again and again. */
static struct decoded lately[1024];

const struct decoded *decode(uint64_t address)
{
    struct decoded *d = &lately[(address ^ address >> 10) & 1023];
    if (d->address == address)
        return d;
    const int n = cv_fetch(address, d->code);
    d->address = address;
    d->x.refusal = CV_X86_ACCEPTED;
    d->x.length = 0;
    if (n <= 0 || !cv_x86_decode(d->code, n, address, &d->x))
        d->address = d->x.length = 0; /* it may be readable later */
    if (!SHARED->setup.pext)
        d->x.lanes = 0;
    return d;
}

/* ---- tables of translations ---- */

static struct cv_blob_entry *table(int mode) { return (struct cv_blob_entry *)(CV_SHARED_BASE + CV_OFF_HASH) + (uint64_t)mode * CV_HASH; }

/* Neighboring code has neighboring entries: each page of the table that is touched costs a page fault. */
static uint64_t hash(uint64_t address) { return (address >> 3 ^ address >> 22 ^ address >> 36) & (CV_HASH - 1); }

uint64_t cv_known(int mode, uint64_t address)
{
    const struct cv_blob_entry *entries = table(mode);
    for (uint64_t i = hash(address);; i = (i + 1) & (CV_HASH - 1)) {
        const uint64_t key = __atomic_load_n(&entries[i].key, __ATOMIC_ACQUIRE);
        if (key == address)
            return entries[i].code;
        if (!key)
            return 0;
    }
}

void remember(int mode, uint64_t address, uint64_t code)
{
    struct cv_blob_entry *entries = table(mode);
    uint64_t i = hash(address);
    while (entries[i].key && entries[i].key != address)
        i = (i + 1) & (CV_HASH - 1);
    entries[i].code = code;
    __atomic_store_n(&entries[i].key, address, __ATOMIC_RELEASE);
}

void erase(int mode, uint64_t address)
{
    struct cv_blob_entry *entries = table(mode);
    for (uint64_t k = hash(address); entries[k].key; k = (k + 1) & (CV_HASH - 1))
        if (entries[k].key == address)
            __atomic_store_n(&entries[k].code, 0, __ATOMIC_RELEASE); /* its entry is used again, or a table of them would fill up */
}

/* All superblocks with code between two addresses. */
static void sever_between(uint64_t low, uint64_t high)
{
    for (uint64_t i = 0; i < SHARED->superblocks; i++) {
        struct cv_blob_superblock *b = &SUPERBLOCKS[i];
        for (uint32_t k = 0; k < b->listed; k++) {
            const struct cv_blob_segment *s = &SEGMENTS[LISTED[b->first_listed + k]];
            if (s->address < high && low < s->address + s->bytes) {
                sever(b);
                break;
            }
        }
    }
}

/* Code that goes away or changes: other code may come to the same addresses (dlclose, dlopen, mprotect). */
int cv_forget(uint64_t low, uint64_t high)
{
    uint64_t users[2];
    cv_lock();
    cv_forget_pages();
    memset(lately, 0, sizeof lately);
    while (cv_drop_constants(low, high, users))
        sever_between(users[0], users[1] + 1);
    if (!cv_drop_mappings(low, high)) {
        cv_unlock();
        return 0;
    }
    sever_between(low, high);
    for (uint64_t i = 0; i < SHARED->segments; i++) {
        const uint64_t address = SEGMENTS[i].address;
        if (address + SEGMENTS[i].bytes <= low || address >= high)
            continue;
        for (int mode = 0; mode <= SEGMENT_TABLE; mode++)
            erase(mode, address);
        for (int mode = 0; mode < CV_NATIVE; mode++)
            cv_lookups(mode)[address % CV_LOOKUPS] = (uint64_t)cv_lookup_miss;
    }
    cv_unlock();
    return 1;
}

void cv_anew(uint64_t address)
{
    if (address && !cv_known(SEGMENT_TABLE, address))
        return;
    for (uint64_t i = 0; i < SHARED->superblocks; i++) {
        struct cv_blob_superblock *b = &SUPERBLOCKS[i];
        int found = !address && b->listed;
        for (uint32_t k = 0; k < b->listed && !found; k++)
            found = SEGMENTS[LISTED[b->first_listed + k]].address == address;
        if (found)
            sever(b);
    }
}

/* ---- flags ---- */

/* Might the program see what the flags are at this address? Without `carry`: those that inc writes, all but CF. */
int flags_live(uint64_t address, int carry)
{
    for (int i = 0; i < 10; i++) {
        const struct cv_x86 *x = &decode(address)->x;
        if (!x->length || x->kind == CV_X86_REFUSED || x->reads_flags || (carry && x->reads & CV_X86_FLAGS_SET))
            return 1;
        if (x->sets_flags && !(carry && x->keeps_carry))
            return 0;
        if (x->kind == CV_X86_JUMP || x->kind == CV_X86_CALL)
            address = x->target;
        else if (x->kind == CV_X86_PLAIN)
            address += x->length;
        else
            return 1;
    }
    return 1;
}

/* ---- segments ---- */

struct cv_x86 instructions[MOST_INSTRUCTIONS];
uint8_t codes[MOST_INSTRUCTIONS][16];
int n_instructions;
static const char *const refusals[CV_X86_REFUSALS] = {
    "code that cannot be read",
    "an instruction that the decoder does not know",
    "a far branch",
    "an old system call (int or sysenter)",
    "an instruction that uses the gs segment",
    "a memory transaction",
    "32-bit addresses",
};

/* Whether rol rdi, 3, 13, 61 and 51 stand before: together they do nothing, and no compiler writes them. */
static int is_request(uint64_t address)
{
    static const uint8_t before[15] = {0x48, 0xc1, 0xc7, 3, 0x48, 0xc1, 0xc7, 13, 0x48, 0xc1, 0xc7, 61, 0x48, 0xc1, 0xc7};
    uint8_t code[15];
    int same = cv_fetch(address - 16, code) == (int)sizeof code;
    for (unsigned i = 0; same && i < sizeof code; i++)
        same = code[i] == before[i];
    return same;
}

int lanes_before(int i)
{
    int lanes = 0;
    while (i > 0)
        lanes += instructions[--i].lanes;
    return lanes;
}

/* Decodes the segment at an address and returns its number; makes its entry once. -1: no instruction of it can be translated. */
int64_t segment_at(uint64_t address)
{
    uint64_t at = address;
    int words = 0, repeated = 0;
    n_instructions = 0;
    while (n_instructions < MOST_INSTRUCTIONS && !repeated) {
        const struct decoded *d = decode(at);
        struct cv_x86 *x = &instructions[n_instructions];
        if (!d->x.length || d->x.kind == CV_X86_REFUSED) {
            if (n_instructions)
                break;
            fail(refusals[d->x.refusal]);
            return -1;
        }
        *x = d->x;
        if (x->kind == CV_X86_REQUEST && !is_request(at))
            x->kind = CV_X86_PLAIN;
        memcpy(codes[n_instructions], d->code, sizeof d->code);
        if (x->repeated || x->compares) {
            if (n_instructions)
                break; /* it has a segment of its own */
            repeated = 1;
        }
        if (n_instructions && words + cv_words_of(x) > MOST_WORDS)
            break;
        words += cv_words_of(x);
        n_instructions++;
        at += x->length;
        if (x->kind != CV_X86_PLAIN)
            break;
    }
    const uint64_t known = cv_known(SEGMENT_TABLE, address);
    if (known)
        return (int64_t)known - 1;
    const char *why = 0;
    const int mapping = cv_mapping_of(address, &why);
    const uint64_t length = at - address, counters = repeated ? 2 : 1 + (uint64_t)lanes_before(n_instructions);
    if (mapping < 0 || SHARED->segments == CV_MOST_SEGMENTS || SHARED->code + length > CV_MOST_CODE ||
        SHARED->wire_numbers + counters > CV_MOST_COUNTERS) {
        fail(mapping < 0 ? why : "more code than there is room for");
        return -1;
    }
    struct cv_blob_segment *s = &SEGMENTS[SHARED->segments];
    *s = (struct cv_blob_segment){.address = address,
                                  .code = (uint32_t)SHARED->code,
                                  .mapping = (uint32_t)mapping,
                                  .instructions = (uint16_t)n_instructions,
                                  .bytes = (uint16_t)length,
                                  .words = (uint16_t)words,
                                  .repeats = (uint16_t)repeated,
                                  .wire = (uint32_t)SHARED->wire_numbers};
    SHARED->wire_numbers += counters;
    for (int i = 0; i < n_instructions; i++) {
        memcpy(CODE + SHARED->code, codes[i], instructions[i].length);
        SHARED->code += instructions[i].length;
    }
    remember(SEGMENT_TABLE, address, SHARED->segments + 1);
    __atomic_store_n(&SHARED->segments, SHARED->segments + 1, __ATOMIC_RELEASE);
    return (int64_t)SHARED->segments - 1;
}

/* ---- places: where the copies of instructions are ---- */

static struct cv_blob_superblock *block;

void begin_block(uint64_t start)
{
    if (SHARED->superblocks == CV_MOST_SUPERBLOCKS) {
        fail("more code than there is room for");
        return;
    }
    block = &SUPERBLOCKS[SHARED->superblocks];
    *block = (struct cv_blob_superblock){.start = start,
                                         .first_place = (uint32_t)SHARED->places,
                                         .first_listed = (uint32_t)SHARED->listed,
                                         .first_exit = (uint32_t)SHARED->exits,
                                         .mode = (uint8_t)head_mode,
                                         .version = (uint8_t)head_version};
}

void place(uint64_t address, int segments, int spilled)
{
    if (SHARED->places == CV_MOST_PLACES) {
        fail("more code than there is room for");
        return;
    }
    PLACES[SHARED->places++] =
        (struct cv_blob_place){address, (uint32_t)((uint64_t)out - block->start), (uint16_t)segments, (uint16_t)spilled};
    block->places++;
}

void end_block(void)
{
    block->end = (uint64_t)out;
    cv_assert(block->start < block->end && block->first_listed < SHARED->listed && block->first_exit <= SHARED->exits);
    block->listed = (uint32_t)SHARED->listed - block->first_listed;
    block->exits = (uint16_t)(SHARED->exits - block->first_exit);
    __atomic_store_n(&SHARED->superblocks, SHARED->superblocks + 1, __ATOMIC_RELEASE);
}

const struct cv_blob_place *cv_place_of(uint64_t code, const struct cv_blob_superblock **found, int exact)
{
    for (uint64_t i = SHARED->superblocks; i-- > 0;) {
        const struct cv_blob_superblock *b = &SUPERBLOCKS[i];
        if (code < b->start || code >= b->end)
            continue;
        const struct cv_blob_place *best = 0;
        for (uint32_t k = 0; k < b->places; k++) {
            const struct cv_blob_place *p = &PLACES[b->first_place + k];
            if (b->start + p->offset <= code && (!exact || b->start + p->offset == code))
                best = p;
        }
        *found = b;
        return best;
    }
    return 0;
}

/* ---- code caches ---- */

struct cv_blob_region *region_for(uint64_t address)
{
    for (uint64_t i = 0; i < SHARED->regions; i++) {
        struct cv_blob_region *r = &SHARED->region[i];
        const int64_t distance = (int64_t)(r->base - address);
        if (distance < REACH && distance > -REACH && r->at + 2 * REGION_ROOM < r->pool)
            return r;
    }
    if (SHARED->regions == CV_MOST_REGIONS) {
        fail("more code than the code caches hold");
        return 0;
    }
    /* Below the module; a program at a low address has its heap above it, which must be able to grow. */
    for (uint64_t k = 0; k < 48; k++) {
        const uint64_t step = k << 24;
        const uint64_t at =
            address > UINT64_C(0x100000000) ? (address - 0x1f000000 - step) & ~UINT64_C(0xfffff) : UINT64_C(0x4c000000) + step;
        if ((int64_t)(at - address) > REACH || (int64_t)(address - at) > REACH)
            break;
        const int64_t got = cv_system(SYS_mmap, at, REGION_BYTES, 7, 0x104022, (uint64_t)-1, 0); /* MAP_FIXED_NOREPLACE */
        if (got == (int64_t)at) {
            SHARED->region[SHARED->regions] = (struct cv_blob_region){at, at, at + REGION_BYTES, at + REGION_BYTES};
            return &SHARED->region[SHARED->regions++];
        }
        if (got > 0)
            cv_system(SYS_munmap, (uint64_t)got, REGION_BYTES, 0, 0, 0, 0);
    }
    fail("no room for a code cache near the program");
    return 0;
}

int cv_in_cache(uint64_t address)
{
    for (uint64_t i = 0; i < SHARED->regions; i++)
        if (address >= SHARED->region[i].base && address < SHARED->region[i].end)
            return 1;
    return 0;
}
