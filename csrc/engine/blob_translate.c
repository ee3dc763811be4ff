/* Copies the program's code, with counters, or with visits.
 *
 * Counting code comes in superblocks, which follow the statically predicted path (backward branches taken, direct calls and jumps
 * followed), so that one counter for each exit gives the exact count of every segment. A loop onto the own head is unrolled. Recording code
 * comes one segment at a time. Filtering code is counting code with a test before each reference: whether it touches a line of the class of
 * sets that is recorded. All of it is restartable at each head: whatever cannot be translated runs natively from there. */
#include "address_words.h"
#include "translator.h"

#define MOST_SEGMENTS 24 /* of a superblock */
#define LONG_ENOUGH 64   /* instructions of a superblock */

uint8_t *out;
struct cv_blob_region *region;
const char *failed;
uint64_t head, head_code;
int head_mode, head_version;

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
    const uint64_t most = exit_stub_bytes() + hit_stub_bytes();
    region->pool -= most;
    cv_assert(region->pool >= (uint64_t)out);
    out = (uint8_t *)region->pool;
    exit_stubs();
    hit_stubs();
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
    n_sides = 0;
    begin_exits();
    begin_filter();
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
