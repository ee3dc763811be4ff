/* Ways into superblocks and out of them: links, indirect branches, polls, and looks into the engine. */
#include "translator.h"

/* Jumps to translations that may not be there yet: each goes to a stub first, which asks for it and has the jump patched. The four
 * bytes that are patched lie in one cache line. */
static struct late {
    uint8_t *site;
    uint64_t target;
} late[256];
static int n_late;

static void poll(uint64_t address);

void exit_to(uint64_t target, int mode)
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
void sever(struct cv_blob_superblock *superblock)
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

/* Goes to the translation of the address in rcx, which is spilled. A table says where one may be, by the address's low bits; what is
 * there looks whether it is the right one (landing). No instruction changes the flags. */
void indirect(int mode)
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

/* Counting by dec, which keeps the carry: loops that end by dec never set it, and would never count. */
static int counts_heads(void) { return SHARED->pace.heads != 0; }

static void poll_with_flags(uint64_t target)
{
    if (counts_heads()) {
        CODE_BYTES("\x90\x65\x48\xff\x0c\x25"); /* dec qword gs:[heads]; jle; as long as the other way */
        word(O_HEADS);
    } else {
        CODE_BYTES("\x65\x48\x83\x3c\x25"); /* cmp qword gs:[flag], 0; jne */
        word(O_FLAG);
        byte(0);
    }
    byte(0x0f);
    byte(counts_heads() ? 0x8e : 0x85);
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
    if (flags_live(target, !counts_heads())) {
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
void look_at_return(void)
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
void landing(uint64_t address)
{
    const int polls_here = head_mode != CV_RECORDING, live = flags_live(address, !counts_heads());
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

int is_marked(uint64_t address) { return cv_marks_at(address) || cv_is_watched(address) || cv_is_followed(address); }

/* Where a traced part may begin or end, where an allocation function does, and where one that synchronizes begins or has returned, the
 * thread looks into the engine first, which comes back after this. */
void mark_at(uint64_t address)
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

void begin_exits(void) { n_late = n_polls = 0; }

uint64_t exit_stub_bytes(void) { return 64 * (uint64_t)(n_late + n_polls + 1); }

void exit_stubs(void)
{
    poll_stubs();
    landing_stub();
    late_stubs();
}
