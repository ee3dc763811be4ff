/* Copies the program's code, with counters, or with visits.
 *
 * Counting code comes in superblocks, which follow the statically predicted path (backward branches taken, direct calls and jumps
 * followed), so that one counter for each exit gives the exact count of every segment. A loop onto the own head is unrolled. Recording code
 * comes one segment at a time. Filtering code is counting code with a test before each reference: whether it touches a line of the class of
 * sets that is recorded. All of it is restartable at each head: whatever cannot be translated runs natively from there. */
#include "address_words.h"
#include "blob.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI };
enum {
    O_A = 8,
    O_B = 16,
    O_C = 24,
    O_TARGET = 32,
    O_LINK = 56,
    O_LEFT = 64,
    O_BUFFER = 72,
    O_FLAG = 80,
    O_HEADS = 184,
    O_SET_MASK = 192,
    O_LEAVES_REPEATED = 200,
    O_LINE = 208,
    O_WRITTEN = 216,
    O_AWAITED = 224
};

#define MOST_INSTRUCTIONS 48 /* of a segment */
#define MOST_SEGMENTS 24     /* of a superblock */
#define LONG_ENOUGH 64       /* instructions of a superblock */
#define REGION_BYTES 0x18000000
#define REGION_ROOM 0x10000 /* that the largest translation needs */
#define REACH INT64_C(0x50000000)
#define LANDING_BYTES 48

static struct cv_blob_region *region;
static uint8_t *out;
static const char *failed; /* why what is being translated cannot be */
static uint64_t head, head_code;
static int head_mode;
static int head_version; /* of the superblock: not 0: what branches did is known */

static void fail(const char *why)
{
    if (!failed)
        failed = why;
}

static void fill_lookups(int mode)
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
static struct decoded {
    uint64_t address;
    struct cv_x86 x; /* length 0: none */
    uint8_t code[16];
} lately[1024];

static const struct decoded *decode(uint64_t address)
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
    return d;
}

/* ---- tables of translations ---- */

static struct cv_blob_entry *table(int mode) { return (struct cv_blob_entry *)(CV_SHARED_BASE + CV_OFF_HASH) + (uint64_t)mode * CV_HASH; }

enum { SEGMENT_TABLE = CV_NATIVE };

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

static void remember(int mode, uint64_t address, uint64_t code)
{
    struct cv_blob_entry *entries = table(mode);
    uint64_t i = hash(address);
    while (entries[i].key && entries[i].key != address)
        i = (i + 1) & (CV_HASH - 1);
    entries[i].code = code;
    __atomic_store_n(&entries[i].key, address, __ATOMIC_RELEASE);
}

static void erase(int mode, uint64_t address)
{
    struct cv_blob_entry *entries = table(mode);
    for (uint64_t k = hash(address); entries[k].key; k = (k + 1) & (CV_HASH - 1))
        if (entries[k].key == address)
            entries[k].key = 1;
}

static void sever(struct cv_blob_superblock *superblock);

/* Code that goes away or changes: other code may come to the same addresses (dlclose, dlopen, mprotect). */
int cv_forget(uint64_t low, uint64_t high)
{
    cv_lock();
    cv_forget_pages();
    memset(lately, 0, sizeof lately);
    if (!cv_drop_mappings(low, high)) {
        cv_unlock();
        return 0;
    }
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

/* ---- flags ---- */

/* Might the program see what the flags are at this address? Without `carry`: those that inc writes, all but CF. */
static int flags_live(uint64_t address, int carry)
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

/* ---- emission ---- */

static void byte(unsigned value) { *out++ = (uint8_t)value; }

static void word(uint32_t value)
{
    memcpy(out, &value, 4);
    out += 4;
}

static void bytes(const void *from, unsigned long n)
{
    memcpy(out, from, n);
    out += n;
}
#define CODE_BYTES(literal) bytes(literal, sizeof literal - 1)

static void with_slot(unsigned opcode, int reg, uint32_t offset)
{
    byte(0x65);
    byte(0x48 | (reg >= 8 ? 4 : 0));
    byte(opcode);
    byte(4u | (unsigned)(reg & 7) << 3);
    byte(0x25);
    word(offset);
}

static void store(int reg, uint32_t offset) { with_slot(0x89, reg, offset); }

static void load(int reg, uint32_t offset) { with_slot(0x8b, reg, offset); }

/* lea reg, [base + index * scale + displacement]; base, index: 0 to 15 or -1 */
static void address_of(int reg, int base, int index, int scale, int32_t displacement)
{
    const unsigned ss = scale == 8 ? 3 : scale == 4 ? 2 : scale == 2 ? 1 : 0, i = index < 0 ? 4 : (unsigned)index & 7;
    byte(0x48u | (reg >= 8 ? 4 : 0) | (index >= 8 ? 2 : 0) | (base >= 8 ? 1 : 0));
    byte(0x8d);
    byte((base < 0 ? 0x04u : 0x84u) | (unsigned)(reg & 7) << 3);
    byte(ss << 6 | i << 3 | (base < 0 ? 5u : (unsigned)base & 7));
    word((uint32_t)displacement);
}

/* A constant near the code. */
static uint64_t constant(uint64_t value)
{
    region->pool -= 8;
    *(uint64_t *)region->pool = value;
    return region->pool;
}

static void relative(uint64_t target)
{
    const int64_t distance = (int64_t)target - (int64_t)(out + 4);
    if (distance != (int32_t)distance)
        fail("an operand lies too far from the code cache");
    word((uint32_t)distance);
}

static void jump(uint64_t target)
{
    const int64_t distance = (int64_t)target - (int64_t)(out + 5);
    if (distance == (int32_t)distance) {
        byte(0xe9);
        word((uint32_t)distance);
    } else {
        CODE_BYTES("\xff\x25");
        relative(constant(target));
    }
}

/* So many bytes that do nothing. */
static void nothing(int n)
{
    static const uint8_t nine[] = {0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0};
    if (n > 2 * (int)sizeof nine) { /* jmp */
        byte(0xeb);
        byte((unsigned)n - 2);
        memset(out, 0x90, (unsigned long)n - 2);
        out += n - 2;
        return;
    }
    for (; n >= (int)sizeof nine; n -= (int)sizeof nine)
        bytes(nine, sizeof nine);
    for (; n > 3; n -= 4)
        CODE_BYTES("\x0f\x1f\x40\x00");
    for (; n; n--)
        byte(0x90);
}

static void store_constant(uint32_t offset, uint64_t value)
{
    for (uint32_t i = 0; i < 2; i++) {
        CODE_BYTES("\x65\xc7\x04\x25");
        word(offset + 4 * i);
        word((uint32_t)(value >> 32 * i));
    }
}

static void patch(uint8_t *site, const uint8_t *to)
{
    const uint32_t distance = (uint32_t)((int64_t)to - (int64_t)(site + 4));
    memcpy(site, &distance, 4);
}

/* Jumps to translations that may not be there yet: each goes to a stub first, which asks for it and has the jump patched. The four
 * bytes that are patched lie in one cache line. */
static struct late {
    uint8_t *site;
    uint64_t target;
} late[256];
static int n_late;

static void poll(uint64_t address);

static void exit_to(uint64_t target, int mode)
{
    if (mode != CV_RECORDING && target <= head)
        poll(target);
    const uint64_t code = target == head && mode == head_mode ? head_code : cv_known(mode, target);
    while ((((uint64_t)out + 1) & 63) > 60)
        byte(0x90);
    if (code) {
        jump(code);
        return;
    }
    byte(0xe9);
    cv_assert(n_late < (int)(sizeof late / sizeof *late));
    late[n_late++] = (struct late){out, target};
    word(0);
}

static void late_stubs(void)
{
    for (int i = 0; i < n_late; i++) {
        patch(late[i].site, out);
        store_constant(O_TARGET, late[i].target);
        store_constant(O_LINK, (uint64_t)late[i].site);
        jump(cv_table[ENTER_DISPATCH]);
    }
    n_late = 0;
}

void cv_link(uint64_t site, uint64_t code)
{
    int64_t distance = (int64_t)code - (int64_t)(site + 4);
    if (distance != (int32_t)distance) { /* by a jump of its own */
        for (uint64_t i = 0; i < SHARED->regions; i++)
            if (site >= SHARED->region[i].base && site < SHARED->region[i].end)
                region = &SHARED->region[i];
        if (region->at + 64 > region->pool)
            return;
        out = (uint8_t *)region->at;
        const uint64_t stub = region->at;
        CODE_BYTES("\xff\x25");
        relative(constant(code));
        region->at = (uint64_t)out;
        cv_assert(region->at <= region->pool);
        distance = (int64_t)stub - (int64_t)(site + 4);
    }
    __atomic_store_n((uint32_t *)site, (uint32_t)distance, __ATOMIC_RELEASE);
}

/* Whoever comes to its head asks for the code of today. The head's first instruction has eight bytes or more, which lie in one line. */
static void sever(struct cv_blob_superblock *superblock)
{
    const uint64_t start = superblock->start;
    const uint64_t address = SEGMENTS[LISTED[superblock->first_listed]].address;
    uint64_t *head_word = (uint64_t *)start, jump_word = *head_word;
    for (int mode = 0; mode < SEGMENT_TABLE; mode++)
        if (cv_known(mode, address) == start)
            erase(mode, address);
    superblock->listed = 0;
    for (uint64_t i = 0; i < SHARED->regions; i++)
        if (start >= SHARED->region[i].base && start < SHARED->region[i].end)
            region = &SHARED->region[i];
    out = (uint8_t *)region->at;
    store_constant(O_TARGET, address);
    store_constant(O_LINK, 0);
    jump(cv_table[ENTER_DISPATCH]);
    const uint32_t distance = (uint32_t)(region->at - start - 5);
    region->at = (uint64_t)out;
    cv_assert(region->at <= region->pool);
    memcpy((uint8_t *)&jump_word + 1, &distance, 4);
    *(uint8_t *)&jump_word = 0xe9;
    __atomic_store_n(head_word, jump_word, __ATOMIC_RELEASE);
}

/* ---- counters ---- */

static uint32_t new_counter(uint32_t first, int segments, int sign)
{
    if (SHARED->exits == CV_MOST_EXITS) {
        fail("more code than there are counters");
        return 0;
    }
    EXITS[SHARED->exits] = (struct cv_blob_exit){first, (int16_t)sign, (uint16_t)segments};
    return CV_SLOT_COUNTERS + 8 * (uint32_t)SHARED->exits++;
}

static void count_free(uint32_t counter) /* changes the flags */
{
    CODE_BYTES("\x65\x48\xff\x04\x25");
    word(counter);
}

static void count_kept(uint32_t counter)
{
    store(RAX, O_A);
    load(RAX, counter);
    address_of(RAX, RAX, -1, 1, 1);
    store(RAX, counter);
    load(RAX, O_A);
}

static void add_turns(uint32_t counter)
{
    store(RAX, O_A);
    load(RAX, counter);
    address_of(RAX, RAX, RCX, 1, 0);
    store(RAX, counter);
    load(RAX, O_A);
}

static void count_to(uint32_t counter, uint64_t target)
{
    if (flags_live(target, 0))
        count_kept(counter);
    else
        count_free(counter);
}

/* ---- parts ---- */

/* Goes to the translation of the address in rcx, which is spilled. A table says where one may be, by the address's low bits; what is
 * there looks whether it is the right one (landing). No instruction changes the flags. */
static void indirect(int mode)
{
    store(RCX, O_TARGET);
    CODE_BYTES("\x0f\xb7\xc9");     /* movzx ecx, cx */
    CODE_BYTES("\x65\xff\x24\xcd"); /* jmp gs:[rcx * 8 + lookup] */
    word(CV_SLOT_LOOKUP + (uint32_t)mode * CV_LOOKUP_BYTES);
}

/* Looks whether something is to be done: where a thread comes to a head by an indirect branch, or from a superblock that does not lie
 * before it, so at least once in each loop. Where nobody sees the flags, this counts the heads of an interval. */
static struct poll {
    uint8_t *site;
    uint64_t target;
    int spilled; /* rcx */
} polls[256];
static int n_polls;

static void poll_at(uint64_t target, int spilled)
{
    cv_assert(n_polls < (int)(sizeof polls / sizeof *polls));
    polls[n_polls++] = (struct poll){out, target, spilled};
    word(0);
}

static void poll_with_flags(uint64_t target)
{
    const int counts = SHARED->pace.heads != 0;
    CODE_BYTES("\x65\x48\x83"); /* sub qword gs:[heads], 1; jle; or cmp qword gs:[flag], 0; jne */
    byte(counts ? 0x2c : 0x3c);
    byte(0x25);
    word(counts ? O_HEADS : O_FLAG);
    byte((unsigned)counts);
    byte(0x0f);
    byte(counts ? 0x8e : 0x85);
    poll_at(target, 0);
}

static void poll_with_rcx(uint64_t target)
{
    load(RCX, O_FLAG);
    CODE_BYTES("\xe3\x05\xe9"); /* jrcxz on; jmp; on: */
    poll_at(target, 1);
}

static void poll(uint64_t target)
{
    if (flags_live(target, 1)) { /* the carry, too: inc keeps it, sub does not */
        store(RCX, O_B);
        poll_with_rcx(target);
        load(RCX, O_B);
    } else {
        poll_with_flags(target);
    }
}

static void poll_stubs(void)
{
    for (int i = 0; i < n_polls; i++) {
        patch(polls[i].site, out);
        if (polls[i].spilled)
            load(RCX, O_B);
        store_constant(O_TARGET, polls[i].target);
        jump(cv_table[ENTER_POLL]);
    }
    n_polls = 0;
}

/* Is it the return of an allocation function? rcx, which is spilled, has where it goes. */
static void look_at_return(void)
{
    if (!SHARED->objects)
        return;
    store(RCX, O_TARGET);
    load(RCX, O_AWAITED);
    address_of(RCX, RSP, RCX, 1, 0);
    CODE_BYTES("\xe3\x02\xeb"); /* jrcxz it; jmp on; it: jmp; on: */
    uint8_t *const on = out;
    byte(0);
    jump(cv_table[ENTER_RETURNED]);
    *on = (uint8_t)(out - on - 1);
    load(RCX, O_TARGET);
}

static uint8_t *landing_missed;

/* Before a superblock's head, for indirect branches: is it the address that they want? The table found it by its lowest 16 bits, here
 * follow 32. (Whatever has others above does not exist.) rcx is spilled; the flags stay, since what is wanted may be elsewhere. */
static void landing(uint64_t address)
{
    const int polls_here = head_mode != CV_RECORDING, live = flags_live(address, 1);
    uint8_t *const begin = out;
    nothing(LANDING_BYTES - (polls_here ? 48 : 32));
    CODE_BYTES("\x65\x8b\x0c\x25"); /* mov ecx, gs:[target + 2] */
    word(O_TARGET + 2);
    address_of(RCX, RCX, -1, 1, -(int32_t)(address >> 16));
    CODE_BYTES("\xe3\x05\xe9"); /* jrcxz same; jmp missed; same: */
    landing_missed = out;
    word(0);
    if (polls_here && live)
        poll_with_rcx(address);
    load(RCX, O_B);
    if (polls_here && !live)
        poll_with_flags(address);
    if (out != begin + LANDING_BYTES)
        fail("a landing of another size");
}

static void landing_stub(void)
{
    patch(landing_missed, out);
    jump((uint64_t)cv_lookup_miss);
}

static void copy(const struct cv_x86 *x, const uint8_t *code)
{
    uint8_t *start = out;
    bytes(code, x->length);
    if (x->displacement_offset) {
        const int64_t distance = (int64_t)(x->address + x->length) + x->displacement - (int64_t)out;
        if (distance != (int32_t)distance)
            fail("an operand lies too far from the code cache");
        const int32_t short_distance = (int32_t)distance;
        memcpy(start + x->displacement_offset, &short_distance, 4);
    }
}

/* mov rcx, operand of an indirect jump or call */
static void load_target(const struct cv_x86 *x, const uint8_t *code)
{
    if (x->segment)
        byte(x->segment);
    byte(0x48u | (x->rex & 3u));
    byte(0x8b);
    const int m = x->modrm_offset;
    byte((code[m] & 0xc7u) | RCX << 3);
    if (x->displacement_offset)
        relative(x->address + x->length + (uint64_t)x->displacement);
    else
        bytes(code + m + 1, (unsigned long)(x->length - m - 1));
}

static void push_return(uint64_t address)
{
    CODE_BYTES("\xff\x35");
    relative(constant(address));
}

static int is_marked(uint64_t address) { return cv_marks_at(address) || cv_is_watched(address); }

/* Where a traced part may begin or end, and where an allocation function does, the thread looks into the engine first, which comes back
 * after this. */
static void mark_at(uint64_t address)
{
    if (!is_marked(address))
        return;
    store_constant(O_TARGET, address);
    uint8_t *const site = out;
    store_constant(O_LINK, 0);
    jump(cv_table[ENTER_MARK]);
    const uint64_t after = (uint64_t)out;
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t half = (uint32_t)(after >> 32 * i);
        memcpy(site + 12 * i + 8, &half, 4);
    }
}

static struct cv_blob_region *region_for(uint64_t address)
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
        const int64_t got = cv_system(9, at, REGION_BYTES, 7, 0x104022, (uint64_t)-1, 0); /* mmap, MAP_FIXED_NOREPLACE */
        if (got == (int64_t)at) {
            SHARED->region[SHARED->regions] = (struct cv_blob_region){at, at, at + REGION_BYTES, at + REGION_BYTES};
            return &SHARED->region[SHARED->regions++];
        }
        if (got > 0)
            cv_system(11, (uint64_t)got, REGION_BYTES, 0, 0, 0, 0);
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

/* ---- segments ---- */

static struct cv_x86 instructions[MOST_INSTRUCTIONS];
static uint8_t codes[MOST_INSTRUCTIONS][16];
static int n_instructions;
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

/* Decodes the segment at an address and returns its number; makes its entry once. -1: no instruction of it can be translated. */
static int64_t segment_at(uint64_t address)
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
    const uint64_t length = at - address;
    if (mapping < 0 || SHARED->segments == CV_MOST_SEGMENTS || SHARED->code + length > CV_MOST_CODE) {
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
    SHARED->wire_numbers += repeated ? 2 : 1;
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

static void begin_block(uint64_t start)
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

static void place(uint64_t address, int segments, int spilled)
{
    if (SHARED->places == CV_MOST_PLACES) {
        fail("more code than there is room for");
        return;
    }
    PLACES[SHARED->places++] =
        (struct cv_blob_place){address, (uint32_t)((uint64_t)out - block->start), (uint16_t)segments, (uint16_t)spilled};
    block->places++;
}

static void end_block(void)
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

/* ---- addresses ---- */

static void address_of_constant(uint64_t value)
{
    CODE_BYTES("\x48\xb8"); /* mov rax, imm64 */
    bytes(&value, 8);
}

/* The address of a reference into rax, which is spilled, as is rcx. */
static void load_address(const struct cv_x86 *x, int reference)
{
    const struct cv_x86_reference *r = &x->references[reference];
    switch (r->where) {
    case CV_X86_OPERAND:
        if (x->base == CV_X86_RIP)
            address_of_constant(x->address + x->length + (uint64_t)x->displacement);
        else
            address_of(RAX, x->base, x->gathered ? -1 : x->index, x->scale, (int32_t)x->displacement);
        if (x->displacement != (int32_t)x->displacement)
            fail("a displacement of more than 32 bits");
        break;
    case CV_X86_PUSH: address_of(RAX, RSP, -1, 1, -(int32_t)r->size); break;
    case CV_X86_POP: address_of(RAX, RSP, -1, 1, 0); break;
    case CV_X86_SOURCE: address_of(RAX, RSI, -1, 1, 0); break;
    case CV_X86_TARGET: address_of(RAX, RDI, -1, 1, 0); break;
    case CV_X86_FRAME: address_of(RAX, RBP, -1, 1, 0); break;
    case CV_X86_TABLE:
        CODE_BYTES("\x0f\xb6\xc0"); /* movzx eax, al */
        address_of(RAX, RBX, RAX, 1, 0);
        break;
    default: address_of_constant((uint64_t)x->displacement); break;
    }
    if (x->segment && (r->where == CV_X86_OPERAND || r->where == CV_X86_ABSOLUTE || r->where == CV_X86_SOURCE)) {
        CODE_BYTES("\xf3\x48\x0f\xae\xc1"); /* rdfsbase rcx */
        address_of(RAX, RAX, RCX, 1, 0);
    }
}

/* ---- filtering code ---- */

#define MOST_HITS 512
#define MOST_HIT_BYTES 384 /* of code for one */
#define SET_LINES                                                                                                           \
    128 /* that a test of an address finds: those of the class, and after each the next one, which a reference may straddle \
         */

/* Code beside the superblock that records a hit. */
static struct hit {
    uint8_t *site, *back;
    struct cv_x86 x;
    uint32_t word;
    int reference, keeps_flags;
} hits[MOST_HITS];
static int n_hits;

/* A pair of words in the buffer, the second one in rax; rcx is spilled. */
static void put_pair(uint32_t first)
{
    load(RCX, O_BUFFER);
    CODE_BYTES("\x48\xc7\x01"); /* mov qword [rcx], first */
    word(first);
    CODE_BYTES("\x48\x89\x41\x08"); /* mov [rcx + 8], rax */
    address_of(RCX, RCX, -1, 1, 16);
    store(RCX, O_BUFFER);
    load(RCX, O_LEFT);
    address_of(RCX, RCX, -1, 1, -1);
    store(RCX, O_LEFT);
    CODE_BYTES("\xe3\x02\xeb\x15\x65\xc7\x04\x25"); /* jrcxz full; jmp on; full: mov dword gs:[flag + 4], 1 */
    word(O_FLAG + 4);
    word(1);
    CODE_BYTES("\x65\xc6\x04\x25"); /* mov byte gs:[heads + 7], look; on: */
    word(O_HEADS + CV_LOOK_BYTE);
    byte(CV_LOOK_MARK);
}

/* The tests leave an address in rcx. Its value lies in the slot meanwhile, and comes back where something may need it, not before: a
 * store and a load at each test would make a chain through memory. */
static int rcx_kept; /* the slot has its value */
static int rcx_away; /* the register has not */

static void bring_rcx(void)
{
    if (rcx_away)
        load(RCX, O_B);
    rcx_away = 0;
}

/* Other than as part of an address. */
static int may_change_rcx(const struct cv_x86 *x)
{
    struct cv_x86 without = *x;
    without.base = without.index = -1;
    without.reads = 0;
    return cv_x86_touches_rcx(&without);
}

static void put_hit(const struct cv_x86 *x, int reference, uint32_t first)
{
    bring_rcx();
    rcx_kept = 1;
    store(RAX, O_A);
    store(RCX, O_B);
    load_address(x, reference);
    put_pair(first);
    load(RAX, O_A);
    load(RCX, O_B);
}

static void put_register(int reg, uint32_t first)
{
    bring_rcx();
    rcx_kept = 1;
    store(RAX, O_A);
    store(RCX, O_B);
    address_of(RAX, reg, -1, 1, 0);
    put_pair(first);
    load(RAX, O_A);
    load(RCX, O_B);
}

/* Where the last byte of a reference lies beyond the class's line, into rcx; 0: not by one instruction. */
static int test_address(const struct cv_x86 *x, const struct cv_x86_reference *r)
{
    const int64_t more = r->size - 1 - 64 * (int64_t)SHARED->set_class, displacement = x->displacement + more;
    if (r->size > 64 || r->size == 0 || (x->segment && r->where != CV_X86_PUSH && r->where != CV_X86_POP && r->where != CV_X86_TARGET))
        return 0;
    switch (r->where) {
    case CV_X86_OPERAND:
        if (x->gathered || displacement != (int32_t)displacement)
            return 0;
        address_of(RCX, x->base, x->index, x->scale, (int32_t)displacement);
        return 1;
    case CV_X86_PUSH: address_of(RCX, RSP, -1, 1, (int32_t)more - (int32_t)r->size); return 1;
    case CV_X86_POP: address_of(RCX, RSP, -1, 1, (int32_t)more); return 1;
    case CV_X86_SOURCE: address_of(RCX, RSI, -1, 1, (int32_t)more); return 1;
    case CV_X86_TARGET: address_of(RCX, RDI, -1, 1, (int32_t)more); return 1;
    case CV_X86_FRAME: address_of(RCX, RBP, -1, 1, (int32_t)more); return 1;
    default: return 0;
    }
}

/* Whether the processor extracts bits without touching the flags (BMI2). */
static int has_pext(void)
{
    static int known = -1;
    if (known < 0) {
        uint32_t a = 7, b, c = 0, d;
        /* volatile, or the compiler asks before it knows whether it must; in a virtual machine an answer takes 50 us */
        __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
        known = (int)(b >> 8 & 1);
    }
    return known;
}

/* Records a reference where it may lie in the class. */
static void filter(const struct cv_x86 *x, int reference, uint32_t word_of_it, int flags_dead)
{
    const struct cv_x86_reference *r = &x->references[reference];
    if (!cv_has_word(x, reference)) {
        const uint64_t at = (x->base == CV_X86_RIP ? x->address + x->length : 0) + (uint64_t)x->displacement;
        if (((at + r->size - 1 - 64 * SHARED->set_class) & (64 * SHARED->sets - 1)) < 63u + r->size)
            put_hit(x, reference, word_of_it);
        return;
    }
    if (x->base == RCX || x->index == RCX)
        bring_rcx();
    uint8_t *begin = out;
    if (!rcx_kept)
        store(RCX, O_B);
    if (n_hits == MOST_HITS || !test_address(x, r)) {
        out = begin;
        put_hit(x, reference, word_of_it);
        return;
    }
    rcx_kept = rcx_away = 1;
    const uint64_t mask = (64 * SHARED->sets - 1) & ~(uint64_t)(r->size == 1 ? SET_LINES / 2 - 1 : SET_LINES - 1);
    const int keeps_flags = !flags_dead && !has_pext();
    struct hit *hit = &hits[n_hits++];
    *hit = (struct hit){.word = word_of_it, .reference = reference, .keeps_flags = keeps_flags};
    memcpy(&hit->x, x, sizeof *x);
    if (!flags_dead && !keeps_flags) {
        CODE_BYTES("\xc4\xe2\xf2\xf5\x0d"); /* pext rcx, rcx, mask; jrcxz hit; jmp on; hit: jmp */
        relative(constant(mask));
        CODE_BYTES("\xe3\x02\xeb\x05\xe9");
        hit->site = out;
        word(0);
        hit->back = out;
        return;
    }
    if (keeps_flags) {
        store(RAX, O_A);
        CODE_BYTES("\x0f\x90\xc0\x9f"); /* seto al; lahf */
    }
    CODE_BYTES("\xf7\xc1"); /* test ecx, mask */
    word((uint32_t)mask);
    CODE_BYTES("\x0f\x84"); /* jz */
    hit->site = out;
    word(0);
    hit->back = out;
    if (keeps_flags) {
        CODE_BYTES("\x04\x7f\x9e"); /* add al, 127; sahf */
        load(RAX, O_A);
    }
}

/* pext rcx, rcx, mask: of the bits of rcx, those that a word of the slot names */
static void extract(uint32_t mask)
{
    CODE_BYTES("\x65\xc4\xe2\xf2\xf5\x0c\x25");
    word(mask);
}

#define MOST_SKIPS 8

static struct {
    uint8_t *site[MOST_SKIPS];
    int n;
} skips;

/* jrcxz over a jump, or over a jump that it goes to: with rcx 0 the hit goes on, or is left out. */
static void go_on_if_zero(void) { CODE_BYTES("\xe3\x05"); }

static void skip(void)
{
    byte(0xe9);
    skips.site[skips.n++] = out;
    word(0);
}

/* Leaves out what the test found beside the class that the reader wants now, and a line that was the last one, see
 * CV_WIRE_REPEATED_CLASSES. The address is in rax. */
static void sift(const struct cv_x86_reference *r)
{
    const int32_t class_bytes = 64 * (int32_t)SHARED->set_class;
    const uint32_t known = r->access & CV_X86_STORE ? O_WRITTEN : O_LINE;
    skips.n = 0;
    address_of(RCX, RAX, -1, 1, r->size - 1 - class_bytes);
    extract(O_SET_MASK);
    if (r->size > 1) { /* its first byte, where its last one lies beyond */
        uint8_t *from;
        CODE_BYTES("\xe3");
        from = out;
        byte(0);
        address_of(RCX, RAX, -1, 1, -class_bytes);
        extract(O_SET_MASK);
        *from = (uint8_t)(out - from - 1);
    }
    go_on_if_zero();
    skip();
    load(RCX, O_LEAVES_REPEATED);
    CODE_BYTES("\xe3");
    uint8_t *all = out;
    byte(0);
    load(RCX, known);
    address_of(RCX, RAX, RCX, 1, 0);
    CODE_BYTES("\xc4\xe2\xf2\xf5\x0d"); /* pext rcx, rcx, ~63 */
    relative(constant(~UINT64_C(63)));
    CODE_BYTES("\xe3\x02\xeb\x05"); /* jrcxz same; jmp other; same: */
    skip();
    CODE_BYTES("\xc4\xe2\xfa\xf5\x0d"); /* other: pext rcx, rax, ~63 */
    relative(constant(~UINT64_C(63)));
    address_of(RCX, -1, RCX, 8, 0);
    address_of(RCX, -1, RCX, 8, 0);
    CODE_BYTES("\x48\xf7\xd1"); /* not rcx */
    address_of(RCX, RCX, -1, 1, 1);
    store(RCX, O_LINE);
    if (r->access & CV_X86_STORE) {
        store(RCX, O_WRITTEN);
    } else {
        CODE_BYTES("\x65\x48\xc7\x04\x25"); /* mov qword gs:[written], 0 */
        word(O_WRITTEN);
        word(0);
    }
    *all = (uint8_t)(out - all - 1);
}

static void hit_stubs(void)
{
    for (int i = 0; i < n_hits; i++) {
        const struct hit *hit = &hits[i];
        patch(hit->site, out);
        store(RAX, hit->keeps_flags ? O_C : O_A);
        if (hit->keeps_flags)
            load(RAX, O_A);
        load(RCX, O_B);
        load_address(&hit->x, hit->reference);
        if (has_pext())
            sift(&hit->x.references[hit->reference]);
        put_pair(hit->word);
        for (int k = 0; has_pext() && k < skips.n; k++)
            patch(skips.site[k], out);
        load(RAX, hit->keeps_flags ? O_C : O_A);
        byte(0xe9);
        word((uint32_t)((int64_t)hit->back - (int64_t)(out + 4)));
    }
    n_hits = 0;
}

/* Before which instructions of the segment nobody sees the flags any more. */
static void find_dead_flags(uint8_t *dead)
{
    const struct cv_x86 *last = &instructions[n_instructions - 1];
    int live = 1;
    if (last->kind == CV_X86_PLAIN)
        live = flags_live(last->address + last->length, 1);
    else if (last->kind == CV_X86_JUMP || last->kind == CV_X86_CALL)
        live = flags_live(last->target, 1);
    for (int i = n_instructions - 1; i >= 0; i--) {
        const struct cv_x86 *x = &instructions[i];
        if (x->sets_flags && !x->keeps_carry)
            live = 0;
        if (x->reads_flags || x->reads & CV_X86_FLAGS_SET)
            live = 1;
        dead[i] = (uint8_t)!live;
    }
}

/* The tests of one instruction of a segment; `reference` counts those before it. */
static void filter_instruction(const struct cv_x86 *x, uint32_t segment, int *reference, int flags_dead)
{
    if (head_mode != CV_FILTERING)
        return;
    const int repeats = x->repeated || x->compares;
    for (int r = 0; r < x->n_references; r++, (*reference)++) {
        if (repeats)
            put_hit(x, r, segment << 8 | (uint32_t)*reference);
        else
            filter(x, r, segment << 8 | (uint32_t)*reference, flags_dead);
    }
    if (repeats)
        put_register(RCX, segment << 8 | CV_HIT_BEFORE);
}

static void filter_behind(const struct cv_x86 *x, uint32_t segment)
{
    if (head_mode != CV_FILTERING || !(x->repeated || x->compares))
        return;
    put_register(RCX, segment << 8 | CV_HIT_BEHIND);
    put_register(x->references[0].where == CV_X86_SOURCE ? RSI : RDI, segment << 8 | CV_HIT_POINTER);
}

/* ---- counting code ---- */

static struct side {
    uint8_t *site;
    uint64_t target;
    uint32_t counter;
    int away; /* rcx is */
} sides[64];
static int n_sides;

static void leave_at(uint64_t target, uint32_t counter, int away)
{
    cv_assert(n_sides < (int)(sizeof sides / sizeof *sides));
    sides[n_sides++] = (struct side){out, target, counter, away};
    word(0);
}

static void repeat_before(uint32_t segment) { add_turns(new_counter(segment, 0, 1)); }

static void repeat_behind(uint32_t segment) { add_turns(new_counter(segment, 0, -1)); }

/* Before which instruction of the segment (its last one included) nobody sees the flags any more; -1: none. */
static int flags_dead_at(void)
{
    for (int i = n_instructions - 1; i >= 0; i--) {
        for (int k = i; k < n_instructions && !instructions[k].reads_flags; k++)
            if (instructions[k].sets_flags)
                return i;
    }
    return -1;
}

/* Whether the superblock goes on at `target`: where there is no translation yet, or at its own head, whose loop is unrolled, or where
 * branches are known. */
static int follow(uint64_t target)
{
    if (target != head && !head_version && cv_known(head_mode, target))
        return 0;
    const char *why;
    return !is_marked(target) && cv_mapping_of(target, &why) >= 0 && region_for(target) == region;
}

static int is_plain_end(const struct cv_x86 *last) { return last->kind == CV_X86_BRANCH || last->kind == CV_X86_LOOP; }

/* The end of a superblock, at its last segment's last instruction. */
static void end_of(const struct cv_x86 *last, uint32_t first, int n, uint32_t counter, int counted)
{
    const uint64_t next = last->address + last->length;
    const uint8_t *code = codes[n_instructions - 1];
    bring_rcx();
    switch (last->kind) {
    case CV_X86_PLAIN:
        count_to(counter, next);
        exit_to(next, head_mode);
        break;
    case CV_X86_BRANCH: /* its own exit is a side */
        count_to(new_counter(first, n, 1), next);
        exit_to(next, head_mode);
        break;
    case CV_X86_LOOP:
        bytes(code, last->length - 1u);
        CODE_BYTES("\x02\xeb\x05\xe9"); /* over the jump over the jump to the side */
        leave_at(last->target, new_counter(first, n, 1), 0);
        count_to(new_counter(first, n, 1), next);
        exit_to(next, head_mode);
        break;
    case CV_X86_JUMP:
        if (!counted)
            count_to(counter, last->target);
        exit_to(last->target, head_mode);
        break;
    case CV_X86_CALL:
        if (!counted)
            count_to(counter, last->target);
        place(last->address, n - 1, 0);
        push_return(next);
        exit_to(last->target, head_mode);
        break;
    case CV_X86_RETURN:
    case CV_X86_JUMP_INDIRECT:
    case CV_X86_CALL_INDIRECT:
        store(RCX, O_B);
        if (last->kind == CV_X86_RETURN) {
            place(last->address, n - 1, CV_PLACE_RCX);
            byte(0x59); /* pop rcx */
            if (last->pops)
                address_of(RSP, RSP, -1, 1, last->pops);
        } else {
            place(last->address, n - 1, CV_PLACE_RCX);
            load_target(last, code);
            if (last->kind == CV_X86_CALL_INDIRECT)
                push_return(next);
        }
        if (!counted) {
            store(RCX, O_TARGET);
            load(RCX, counter);
            address_of(RCX, RCX, -1, 1, 1);
            store(RCX, counter);
            load(RCX, O_TARGET);
        }
        if (last->kind == CV_X86_RETURN)
            look_at_return();
        indirect(head_mode);
        break;
    default: /* a system call, or a request */
        if (!counted)
            count_kept(counter);
        store_constant(O_TARGET, next);
        jump(cv_table[last->kind == CV_X86_REQUEST ? ENTER_REQUEST : ENTER_CALL]);
        break;
    }
}

static uint64_t counting(uint64_t address)
{
    uint8_t *start = out;
    const uint32_t first = (uint32_t)SHARED->listed;
    int n = 0, total = 0;
    uint64_t at = address;
    nothing(9); /* for a jump to code of later, see sever */
    mark_at(address);
    for (;;) {
        const int64_t id = segment_at(at);
        if (id < 0) {
            if (at == address)
                break;
            failed = 0;
            bring_rcx();
            count_kept(new_counter(first, n, 1));
            exit_to(at, head_mode);
            break;
        }
        if (SHARED->listed + 1 >= CV_MOST_LISTED) {
            fail("more code than there is room for");
            break;
        }
        LISTED[SHARED->listed++] = (uint32_t)id;
        n++;
        const struct cv_x86 *last = &instructions[n_instructions - 1];
        const uint64_t next = last->address + last->length;
        const int ends = last->kind != CV_X86_PLAIN;
        uint64_t on = 0;
        int inverted = 0;
        total += n_instructions;
        if (n < MOST_SEGMENTS && total < LONG_ENOUGH) {
            if (last->kind == CV_X86_BRANCH) {
                const int prefers = SEGMENTS[id].prefers;
                inverted = prefers ? prefers == CV_DIRECTION_TAKEN : last->target <= last->address;
                on = inverted ? last->target : next;
            } else if (last->kind == CV_X86_JUMP || last->kind == CV_X86_CALL) {
                on = last->target;
            } else if (last->kind == CV_X86_PLAIN) {
                on = next;
            }
            if (on && (!follow(on) || !decode(on)->x.length || decode(on)->x.kind == CV_X86_REFUSED))
                on = inverted = 0;
        }
        const uint32_t counter = !on && !is_plain_end(last) ? new_counter(first, n, 1) : 0;
        const int dead = counter && ends ? flags_dead_at() : -1;
        uint8_t flags_dead[MOST_INSTRUCTIONS] = {0};
        int counted = 0, reference = 0;
        if (head_mode == CV_FILTERING)
            find_dead_flags(flags_dead);
        for (int i = 0; i < n_instructions - ends; i++) {
            if (dead == i) {
                count_free(counter);
                counted = 1;
            }
            if (instructions[i].repeated || instructions[i].compares) {
                bring_rcx();
                repeat_before((uint32_t)id);
            }
            filter_instruction(&instructions[i], (uint32_t)id, &reference, flags_dead[i]);
            if (rcx_kept && cv_x86_touches_rcx(&instructions[i])) {
                bring_rcx();
                rcx_kept = !may_change_rcx(&instructions[i]);
            }
            place(instructions[i].address, n - 1, rcx_away ? CV_PLACE_RCX : 0);
            copy(&instructions[i], codes[i]);
            if (instructions[i].compares)
                repeat_behind((uint32_t)id);
            filter_behind(&instructions[i], (uint32_t)id);
        }
        if (ends && dead == n_instructions - 1) {
            count_free(counter);
            counted = 1;
        }
        if (ends)
            filter_instruction(last, (uint32_t)id, &reference, flags_dead[n_instructions - 1]);
        if (last->kind == CV_X86_BRANCH) {
            byte(0x0f);
            byte(0x80u | (last->condition ^ (unsigned)inverted));
            leave_at(inverted ? next : last->target, new_counter(first, n, 1), rcx_away);
        }
        if (!on) {
            end_of(last, first, n, counter, counted);
            break;
        }
        if (last->kind == CV_X86_CALL) {
            place(last->address, n - 1, rcx_away ? CV_PLACE_RCX : 0);
            push_return(next);
        }
        at = on;
    }
    for (int i = 0; i < n_sides; i++) {
        patch(sides[i].site, out);
        if (sides[i].away)
            load(RCX, O_B);
        count_to(sides[i].counter, sides[i].target);
        exit_to(sides[i].target, head_mode);
    }
    return (uint64_t)start;
}

/* ---- recording code ---- */

/* The buffer has been moved past the visit already, so that an exit needs no repair. */
static void store_word(int reg, int k, int words)
{
    const int other = reg == RCX ? RAX : RCX;
    load(other, O_BUFFER);
    byte(0x48);
    byte(0x89);
    byte(0x80u | (unsigned)reg << 3 | (unsigned)other);
    word((uint32_t)(8 * (k - words)));
}

static uint64_t recording(uint64_t address)
{
    uint8_t *start = out;
    const int64_t id = segment_at(address);
    if (id < 0)
        return 0;
    struct cv_blob_segment *s = &SEGMENTS[id];
    LISTED[SHARED->listed] = (uint32_t)id;
    if (!s->counter)
        s->counter = new_counter((uint32_t)SHARED->listed, 1, 1);
    SHARED->listed++;
    const int words = s->words;
    int k = 0;
    mark_at(address);
    store(RAX, O_A);
    store(RCX, O_B);
    load(RCX, O_FLAG);
    CODE_BYTES("\xe3\x05\xe9"); /* jrcxz on; jmp; on: */
    uint8_t *asked = out;
    word(0);
    load(RCX, O_LEFT);
    address_of(RCX, RCX, -1, 1, -1);
    store(RCX, O_LEFT);
    CODE_BYTES("\xe3\x02\xeb"); /* jrcxz over; jmp on */
    uint8_t *on = out;
    byte(0);
    load(RAX, O_A);
    load(RCX, O_B);
    store_constant(O_TARGET, address);
    jump(cv_table[ENTER_BURST_END]);
    *on = (uint8_t)(out - on - 1);
    load(RAX, O_BUFFER);
    byte(0xb9); /* mov ecx, id */
    word((uint32_t)id);
    CODE_BYTES("\x48\x89\x08"); /* mov [rax], rcx */
    address_of(RAX, RAX, -1, 1, 8 * (words + 1));
    store(RAX, O_BUFFER);
    load(RCX, s->counter);
    address_of(RCX, RCX, -1, 1, 1);
    store(RCX, s->counter);
    load(RAX, O_A);
    load(RCX, O_B);
    const struct cv_x86 *last = &instructions[n_instructions - 1];
    const uint64_t next = last->address + last->length;
    for (int i = 0; i < n_instructions; i++) {
        const struct cv_x86 *x = &instructions[i];
        const int repeats = x->repeated || x->compares;
        for (int r = 0; r < x->n_references; r++) {
            if (!cv_has_word(x, r))
                continue;
            store(RAX, O_A);
            store(RCX, O_B);
            load_address(x, r);
            store_word(RAX, k++, words);
            load(RAX, O_A);
            load(RCX, O_B);
        }
        if (x->kind != CV_X86_PLAIN)
            break;
        if (repeats) {
            store(RAX, O_A);
            store_word(RCX, k++, words);
            load(RAX, O_A);
            repeat_before((uint32_t)id);
        }
        place(x->address, 0, 0);
        copy(x, codes[i]);
        if (repeats) {
            store(RAX, O_A);
            store_word(RCX, k++, words);
            store(RCX, O_B);
            address_of(RAX, x->references[0].where == CV_X86_SOURCE ? RSI : RDI, -1, 1, 0);
            store_word(RAX, k++, words);
            load(RAX, O_A);
            load(RCX, O_B);
        }
        if (x->compares)
            repeat_behind((uint32_t)id);
    }
    const uint8_t *code = codes[n_instructions - 1];
    switch (last->kind) {
    case CV_X86_PLAIN: exit_to(next, CV_RECORDING); break;
    case CV_X86_BRANCH:
        byte(0x0f);
        byte(0x80u | last->condition);
        leave_at(last->target, 0, 0);
        exit_to(next, CV_RECORDING);
        break;
    case CV_X86_LOOP:
        bytes(code, last->length - 1u);
        CODE_BYTES("\x02\xeb\x05\xe9");
        leave_at(last->target, 0, 0);
        exit_to(next, CV_RECORDING);
        break;
    case CV_X86_JUMP: exit_to(last->target, CV_RECORDING); break;
    case CV_X86_CALL:
        place(last->address, 0, 0);
        push_return(next);
        exit_to(last->target, CV_RECORDING);
        break;
    case CV_X86_RETURN:
        store(RCX, O_B);
        place(last->address, 0, CV_PLACE_RCX);
        byte(0x59);
        if (last->pops)
            address_of(RSP, RSP, -1, 1, last->pops);
        look_at_return();
        indirect(CV_RECORDING);
        break;
    case CV_X86_JUMP_INDIRECT:
    case CV_X86_CALL_INDIRECT:
        store(RCX, O_B);
        place(last->address, 0, CV_PLACE_RCX);
        load_target(last, code);
        if (last->kind == CV_X86_CALL_INDIRECT)
            push_return(next);
        indirect(CV_RECORDING);
        break;
    default:
        store_constant(O_TARGET, next);
        jump(cv_table[last->kind == CV_X86_REQUEST ? ENTER_REQUEST : ENTER_CALL]);
        break;
    }
    for (int i = 0; i < n_sides; i++) {
        patch(sides[i].site, out);
        exit_to(sides[i].target, CV_RECORDING);
    }
    patch(asked, out);
    load(RCX, O_B);
    store_constant(O_TARGET, address);
    jump(cv_table[ENTER_POLL]);
    return (uint64_t)start;
}

/* What is seldom executed lies elsewhere, so that it takes no room in the caches. */
static void rare_code(void)
{
    const uint64_t most = 64 * (uint64_t)(n_late + n_polls + 1) + MOST_HIT_BYTES * (uint64_t)n_hits;
    region->pool -= most;
    cv_assert(region->pool >= (uint64_t)out);
    out = (uint8_t *)region->pool;
    poll_stubs();
    landing_stub();
    hit_stubs();
    late_stubs();
    cv_assert((uint64_t)out <= region->pool + most);
}

/* 0: cannot be, `failed` says why */
static uint64_t translate(int mode, uint64_t address, int version)
{
    const char *why = 0;
    failed = 0;
    if (cv_mapping_of(address, &why) < 0) {
        failed = why;
        return 0;
    }
    fill_lookups(mode);
    region = region_for(address);
    if (!region)
        return 0;
    head_code = (region->at + LANDING_BYTES + 15) & ~UINT64_C(15);
    out = (uint8_t *)head_code - LANDING_BYTES;
    head = address;
    head_mode = mode;
    head_version = version;
    n_sides = n_late = n_polls = n_hits = rcx_kept = rcx_away = 0;
    const uint64_t pool = region->pool, listed = SHARED->listed, places = SHARED->places;
    begin_block(head_code);
    landing(address);
    const uint64_t code = mode == CV_RECORDING ? recording(address) : counting(address);
    uint8_t *const end = out;
    rare_code();
    out = end;
    if (failed) {
        region->pool = pool;
        SHARED->listed = listed;
        SHARED->places = places;
        return 0;
    }
    end_block();
    region->at = (uint64_t)out;
    remember(mode, address, code);
    return code;
}

uint64_t cv_translate(int mode, uint64_t address)
{
    const uint64_t code = translate(mode, address, 0);
    if (!code)
        cv_say_why(failed, address);
    return code;
}

/* ---- better superblocks ----
 *
 * A superblock that is often left by its sides is made anew, along the way that its branches went so far. */

#define MOST_VERSIONS 4
#define WORTH 4096 /* exits by sides: they cost what a translation costs */

/* The way along the superblock at its segment k, as far as its branch goes. */
static int direction_of(const struct cv_blob_superblock *b, uint32_t k)
{
    const struct cv_blob_segment *s = &SEGMENTS[LISTED[b->first_listed + k]];
    return SEGMENTS[LISTED[b->first_listed + k + 1]].address == s->address + s->bytes ? CV_DIRECTION_ON : CV_DIRECTION_TAKEN;
}

/* Adds up which way branches went; at the end of a superblock the first counter is that of the branch that is taken. */
static void add_branches(const struct cv_blob_superblock *b, const uint64_t *counters)
{
    uint64_t left[MOST_SEGMENTS + 1] = {0}, ends = 0, at_end[2] = {0, 0}, on = 0;
    for (uint32_t e = b->first_exit; e < b->first_exit + b->exits; e++) {
        const uint32_t k = EXITS[e].segments;
        if (k && k < b->listed)
            left[k] = counters[e];
        if (k == b->listed && ends < 2)
            at_end[ends++] = counters[e];
    }
    if (ends == 2) {
        BRANCHES[LISTED[b->first_listed + b->listed - 1]].times[CV_DIRECTION_TAKEN] += at_end[0];
        BRANCHES[LISTED[b->first_listed + b->listed - 1]].times[CV_DIRECTION_ON] += at_end[1];
    }
    on = at_end[0] + at_end[1];
    for (uint32_t k = b->listed - 1; k > 0; k--) {
        struct cv_blob_branch *branch = &BRANCHES[LISTED[b->first_listed + k - 1]];
        const int along = direction_of(b, k - 1);
        branch->times[along] += on;
        branch->times[CV_DIRECTION_ON + CV_DIRECTION_TAKEN - along] += left[k];
        on += left[k];
    }
}

/* Is it left so often against what its branches prefer that another one is better? */
static int is_worth(const struct cv_blob_superblock *b, const uint64_t *counters)
{
    uint64_t all = 0, against = 0;
    for (uint32_t e = b->first_exit; e < b->first_exit + b->exits; e++) {
        const uint32_t k = EXITS[e].segments;
        if (!k)
            continue;
        all += counters[e];
        if (k < b->listed && direction_of(b, k - 1) != SEGMENTS[LISTED[b->first_listed + k - 1]].prefers)
            against += counters[e];
    }
    return against > WORTH && 4 * against > all;
}

static int is_current(const struct cv_blob_superblock *b) { return b->listed && *(const uint8_t *)b->start != 0xe9; }

static void replace(struct cv_blob_superblock *b)
{
    const uint64_t address = SEGMENTS[LISTED[b->first_listed]].address, old = b->start;
    const int version = b->version + 1;
    b->version = MOST_VERSIONS; /* tried once */
    const uint64_t code = translate(b->mode, address, version);
    const int64_t distance = (int64_t)code - (int64_t)(old + 5);
    if (!code || distance != (int32_t)distance)
        return;
    uint64_t word_ = *(const uint64_t *)old;
    const int32_t short_distance = (int32_t)distance;
    *(uint8_t *)&word_ = 0xe9;
    memcpy((uint8_t *)&word_ + 1, &short_distance, 4);
    __atomic_store_n((uint64_t *)old, word_, __ATOMIC_RELEASE);
    SHARED->made_anew++;
    uint64_t *lookup = &cv_lookups(b->mode)[address % CV_LOOKUPS];
    if (*lookup == old - LANDING_BYTES)
        cv_enter_lookup(b->mode, address, code);
}

void cv_improve(const struct cv_slot *slot)
{
    const uint64_t *counters = (const uint64_t *)(slot->self + CV_SLOT_COUNTERS);
    const uint64_t n = SHARED->superblocks;
    memset(BRANCHES, 0, sizeof *BRANCHES * SHARED->segments);
    for (uint64_t i = 0; i < n; i++)
        if (SUPERBLOCKS[i].listed && SUPERBLOCKS[i].mode != CV_RECORDING)
            add_branches(&SUPERBLOCKS[i], counters);
    for (uint64_t i = 0; i < SHARED->segments; i++) {
        const uint64_t on = BRANCHES[i].times[CV_DIRECTION_ON], taken = BRANCHES[i].times[CV_DIRECTION_TAKEN];
        if (on + taken)
            SEGMENTS[i].prefers = taken > on ? CV_DIRECTION_TAKEN : CV_DIRECTION_ON;
    }
    for (uint64_t i = 0; i < n; i++) {
        struct cv_blob_superblock *b = &SUPERBLOCKS[i];
        if (is_current(b) && b->mode != CV_RECORDING && b->version < MOST_VERSIONS && is_worth(b, counters))
            replace(b);
    }
}
