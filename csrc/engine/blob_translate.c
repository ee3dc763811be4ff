/* Copies the program's code, with counters, or with visits.
 *
 * Counting code comes in superblocks, which follow the statically predicted path (backward branches taken, direct calls and jumps
 * followed, as well as calls through pointers beside the code and the returns of followed calls, with a look whether they go there), so
 * that one counter for each exit gives the exact count of every segment. A loop onto the own head is unrolled. Recording code comes one
 * segment at a time. Filtering code is counting code with a test before each reference: whether it touches a line of the class of sets that
 * is recorded. All of it is restartable at each head: whatever cannot be translated runs natively from there. */
#include "../include/cv_wire.h"
#include "address_words.h"
#include "translator.h"

#define MOST_SEGMENTS 40  /* of a superblock */
#define LONG_ENOUGH 64    /* instructions of a superblock */
#define LONGER_ENOUGH 128 /* of one along the way that its branches went */

uint8_t *out;
struct cv_blob_region *region;
const char *failed;
uint64_t head, head_code;
int head_mode, head_version;

static struct side {
    uint8_t *site;
    uint64_t target;
    uint32_t counter;
    int away;     /* rcx is */
    int indirect; /* where not 0, the indirect branch at `target` goes on, which ends so many segments */
} sides[64];
static int n_sides;

static void leave_at(uint64_t target, uint32_t counter, int away, int indirect)
{
    cv_assert(n_sides < (int)(sizeof sides / sizeof *sides));
    sides[n_sides++] = (struct side){out, target, counter, away, indirect};
    word(0);
}

static void repeat_before(uint32_t segment) { add_turns(new_counter(segment, 0, 1)); }

static void repeat_behind(uint32_t segment) { add_turns(new_counter(segment, 0, -1)); }

/* ---- ways out ---- */

/* Of a way out that nothing before it counts; 0 in recording code, whose visits are counted. */
static uint32_t exit_counter(uint32_t first, int n) { return head_mode == CV_RECORDING ? 0 : new_counter(first, n, 1); }

/* `counter` is 0 where this way has been counted. */
static void count_and_exit(uint32_t counter, uint64_t target)
{
    if (counter)
        count_to(counter, target);
    exit_to(target, head_mode);
}

static void branch_to_side(unsigned condition, uint64_t target, uint32_t counter)
{
    byte(0x0f);
    byte(0x80u | condition);
    leave_at(target, counter, rcx_away, 0);
}

static void end_indirectly(const struct cv_x86 *last, const uint8_t *code, int n, uint32_t counter)
{
    store(RCX, O_B);
    place(last->address, counter ? n - 1 : 0, CV_PLACE_RCX);
    if (last->kind == CV_X86_RETURN) {
        byte(0x59); /* pop rcx */
        if (last->pops)
            address_of(RSP, RSP, -1, 1, last->pops);
    } else {
        load_target(last, code);
        if (last->kind == CV_X86_CALL_INDIRECT)
            push_return(last->address + last->length);
    }
    if (counter) { /* before the look, from which the thread may go on elsewhere */
        store(RCX, O_TARGET);
        add_one(counter);
        load(RCX, O_TARGET);
    }
    if (last->kind == CV_X86_RETURN)
        look_at_return();
    indirect(head_mode);
}

static void side_stubs(void)
{
    for (int i = 0; i < n_sides; i++) {
        patch(sides[i].site, out);
        if (sides[i].away)
            load(RCX, O_B);
        if (sides[i].indirect) {
            const struct decoded *last = decode(sides[i].target);
            end_indirectly(&last->x, last->code, sides[i].indirect, sides[i].counter);
        } else {
            count_and_exit(sides[i].counter, sides[i].target);
        }
    }
}

/* The last instruction of the n-th segment, after which the code ends. A branch's own exit is a side. */
static void end_with(const struct cv_x86 *last, uint32_t first, int n, uint32_t counter)
{
    const uint64_t next = last->address + last->length;
    bring_rcx();
    switch (last->kind) {
    case CV_X86_PLAIN: count_and_exit(counter, next); break;
    case CV_X86_BRANCH: count_and_exit(exit_counter(first, n), next); break;
    case CV_X86_LOOP:
        bytes(codes[n_instructions - 1], last->length - 1u);
        CODE_BYTES("\x02\xeb\x05\xe9"); /* over the jump over the jump to the side */
        leave_at(last->target, exit_counter(first, n), 0, 0);
        count_and_exit(exit_counter(first, n), next);
        break;
    case CV_X86_JUMP: count_and_exit(counter, last->target); break;
    case CV_X86_CALL:
        if (counter)
            count_to(counter, last->target);
        place(last->address, 0, 0);
        push_return(next);
        exit_to(last->target, head_mode);
        break;
    case CV_X86_RETURN:
    case CV_X86_JUMP_INDIRECT:
    case CV_X86_CALL_INDIRECT: end_indirectly(last, codes[n_instructions - 1], n, counter); break;
    default: /* a system call, or a request */
        if (counter)
            count_kept(counter);
        store_constant(O_TARGET, next);
        jump(cv_table[last->kind == CV_X86_REQUEST ? ENTER_REQUEST : ENTER_CALL]);
        break;
    }
}

/* ---- pointers beside the code ---- */

/* Where the pointer lies by which it jumps or calls; 0: not there. */
static uint64_t pointer_of(const struct cv_x86 *x)
{
    const int indirect_ = x->kind == CV_X86_JUMP_INDIRECT || x->kind == CV_X86_CALL_INDIRECT;
    return indirect_ && x->base == CV_X86_RIP && !x->segment ? x->address + x->length + (uint64_t)x->displacement : 0;
}

/* Code that it points to now; 0: none. */
static uint64_t pointed_to(uint64_t pointer)
{
    const char *why;
    uint8_t bytes_[16];
    uint64_t to = 0;
    if (!pointer || cv_fetch(pointer, bytes_) < (int)sizeof to)
        return 0;
    memcpy(&to, bytes_, sizeof to);
    return cv_mapping_of(to, &why) >= 0 ? to : 0;
}

/* By a pointer that stays as it is (of a procedure linkage table that has been relocated) an instruction goes there directly. */
static void make_direct(struct cv_x86 *last)
{
    const uint64_t pointer = pointer_of(last), to = SHARED->bursts_only ? 0 : pointed_to(pointer);
    if (!to || !cv_is_constant(pointer, last->address))
        return;
    last->kind = last->kind == CV_X86_JUMP_INDIRECT ? CV_X86_JUMP : CV_X86_CALL;
    last->target = to;
}

/* ---- counting code ---- */

/* A superblock as far as it has been copied: where its list of segments begins, and how long it is. */
struct path {
    uint32_t first;
    int segments, instructions, lanes;
    int calls; /* that have not returned yet */
    uint64_t returns[MOST_SEGMENTS];
};

/* Where an indirect branch probably goes: to what a pointer beside the code holds now (a procedure linkage table jumps by these), or
 * after the call that the superblock has followed, unless it has mostly gone elsewhere; 0: nobody knows. Only superblocks that run often,
 * those made anew, are worth the longer code. */
static uint64_t guess(struct path *path, const struct cv_blob_segment *segment)
{
    const struct cv_x86 *last = &instructions[n_instructions - 1];
    if (!head_version)
        return 0;
    if (last->kind == CV_X86_RETURN && path->calls && !SHARED->objects) {
        const uint64_t to = path->returns[--path->calls];
        return segment->prefers == CV_DIRECTION_ON ? 0 : to;
    }
    return pointed_to(pointer_of(last));
}

/* The indirect branch at the end of the n-th segment, where it goes as guessed; elsewhere it is a side. The flags stay: what it goes to
 * elsewhere might see them. */
static void follow_guess(const struct cv_x86 *last, uint64_t guessed, int n, uint32_t counter)
{
    const uint64_t negated = -guessed;
    bring_rcx();
    spill();
    place(last->address, n - 1, CV_PLACE_RCX);
    if (last->kind == CV_X86_RETURN)
        CODE_BYTES("\x48\x8b\x0c\x24"); /* mov rcx, [rsp] */
    else
        load_target(last, codes[n_instructions - 1]);
    CODE_BYTES("\x48\xb8"); /* mov rax, imm64 */
    bytes(&negated, 8);
    address_of(RCX, RCX, RAX, 1, 0);
    load(RAX, O_A);
    CODE_BYTES("\xe3\x05\xe9"); /* jrcxz on; jmp; on: */
    leave_at(last->address, counter, 1, n);
    load(RCX, O_B);
    if (last->kind == CV_X86_RETURN)
        address_of(RSP, RSP, -1, 1, 8 + last->pops);
}

/* Before which instruction of the segment (its last one included) nobody sees the flags any more, as flags_live says; -1: none. */
static int flags_dead_at(int carry)
{
    for (int i = n_instructions - 1; i >= 0; i--) {
        for (int k = i; k < n_instructions; k++) {
            const struct cv_x86 *x = &instructions[k];
            if (x->reads_flags || (carry && x->reads & CV_X86_FLAGS_SET))
                break;
            if (x->sets_flags && !(carry && x->keeps_carry))
                return i;
        }
    }
    return -1;
}

/* Whether the superblock goes on at `target`: where nothing has been translated yet (else most code would be translated several times,
 * most of it for nothing), or at its own head, whose loop is unrolled, or where branches are known. */
static int follow(uint64_t target)
{
    if (target != head && !head_version && (cv_known(head_mode, target) || cv_known(SEGMENT_TABLE, target)))
        return 0;
    const char *why;
    return !is_marked(target) && cv_mapping_of(target, &why) >= 0 && region_for(target) == region && decode(target)->x.length &&
           decode(target)->x.kind != CV_X86_REFUSED;
}

/* Where the superblock goes on after the segment that it has copied last; 0: it ends. `inverted`: with the branch taken. */
static uint64_t next_segment(const struct path *path, const struct cv_blob_segment *segment, uint64_t guessed, int *inverted)
{
    const struct cv_x86 *last = &instructions[n_instructions - 1];
    const uint64_t next = last->address + last->length;
    uint64_t on = 0;
    *inverted = 0;
    if (path->segments >= MOST_SEGMENTS || path->instructions >= (head_version ? LONGER_ENOUGH : LONG_ENOUGH) || path->lanes >= MOST_WORDS)
        return 0;
    if (last->kind == CV_X86_BRANCH) {
        *inverted = segment->prefers ? segment->prefers == CV_DIRECTION_TAKEN : last->target <= last->address;
        on = *inverted ? last->target : next;
    } else if (last->kind == CV_X86_JUMP || last->kind == CV_X86_CALL) {
        on = last->target;
    } else if (last->kind == CV_X86_PLAIN) {
        on = next;
    } else {
        on = guessed;
    }
    if (on && follow(on))
        return on;
    *inverted = 0;
    return 0;
}

/* `reference` counts those of the segment before it. */
static void copy_counting(int i, uint32_t segment, int n, int *reference, int flags_dead)
{
    const struct cv_x86 *x = &instructions[i];
    if (x->repeated || x->compares) {
        bring_rcx();
        repeat_before(segment);
    }
    count_lanes(i, segment);
    filter_instruction(x, segment, reference, flags_dead);
    if (rcx_kept && cv_x86_touches_rcx(x)) {
        bring_rcx();
        rcx_kept = !may_change_rcx(x);
    }
    place(x->address, n - 1, rcx_away ? CV_PLACE_RCX : 0);
    copy(x, codes[i]);
    if (x->compares)
        repeat_behind(segment);
    filter_behind(x, segment);
}

/* Copies a segment without a last instruction that goes elsewhere, and counts its way out where nobody sees the flags. Returns the
 * counter; 0: it has been counted. */
static uint32_t copy_segment(uint32_t segment, int n, uint32_t counter)
{
    const int last = n_instructions - 1, ends = instructions[last].kind != CV_X86_PLAIN,
              dead = counter && ends ? flags_dead_at(SHARED->following != 0) : -1;
    uint8_t flags_dead[MOST_INSTRUCTIONS] = {0};
    int reference = 0, uncounted = n;
    if (head_mode == CV_FILTERING)
        find_dead_flags(flags_dead);
    for (int i = 0; i <= last; i++) {
        if (dead == i) {
            count_free(counter);
            counter = 0;
            uncounted = 1; /* where an instruction faults from here on, nothing before its segment is still to be counted */
        }
        if (i == last && ends)
            filter_instruction(&instructions[i], segment, &reference, flags_dead[i]);
        else
            copy_counting(i, segment, uncounted, &reference, flags_dead[i]);
    }
    return counter;
}

/* Where code comes that cannot be translated. */
static void end_before(const struct path *path, uint64_t target)
{
    failed = 0;
    bring_rcx();
    count_kept(new_counter(path->first, path->segments, 1));
    exit_to(target, head_mode);
}

/* Adds the segment at an address. Returns where the next one begins; 0: the superblock ends. */
static uint64_t add_segment(struct path *path, uint64_t address)
{
    const int64_t id = segment_at(address);
    if (id < 0 && address != head)
        end_before(path, address);
    if (id < 0)
        return 0;
    if (SHARED->listed + 1 >= CV_MOST_LISTED) {
        fail("more code than there is room for");
        return 0;
    }
    LISTED[SHARED->listed++] = (uint32_t)id;
    const int n = ++path->segments;
    path->instructions += n_instructions;
    path->lanes += lanes_before(n_instructions);
    make_direct(&instructions[n_instructions - 1]);
    const struct cv_x86 *last = &instructions[n_instructions - 1];
    const uint64_t next = last->address + last->length;
    int inverted;
    const uint64_t guessed = guess(path, &SEGMENTS[id]), on = next_segment(path, &SEGMENTS[id], guessed, &inverted);
    const int has_one_exit = !on && !guessed && last->kind != CV_X86_BRANCH && last->kind != CV_X86_LOOP;
    const uint32_t counter = copy_segment((uint32_t)id, n, has_one_exit ? new_counter(path->first, n, 1) : 0);
    if (last->kind == CV_X86_BRANCH)
        branch_to_side(last->condition ^ (unsigned)inverted, inverted ? next : last->target, new_counter(path->first, n, 1));
    const uint32_t as_guessed = guessed && !on ? new_counter(path->first, n, 1) : 0; /* before the other one, see add_branches */
    if (guessed)
        follow_guess(last, guessed, n, new_counter(path->first, n, 1));
    else if (!on)
        end_with(last, path->first, n, counter);
    const int called = last->kind == CV_X86_CALL ? on != 0 : guessed && last->kind == CV_X86_CALL_INDIRECT;
    if (called) {
        place(last->address, n - 1, rcx_away ? CV_PLACE_RCX : 0);
        push_return(next);
        path->returns[path->calls++] = next;
    }
    if (as_guessed)
        count_and_exit(as_guessed, guessed);
    return on;
}

static uint64_t counting(uint64_t address)
{
    const uint64_t start = (uint64_t)out;
    struct path path = {.first = (uint32_t)SHARED->listed};
    nothing(9); /* for a jump to code of later, see sever */
    mark_at(address);
    do
        address = add_segment(&path, address);
    while (address);
    side_stubs();
    return start;
}

/* ---- recording code ---- */

static int words_left; /* of the visit, which the buffer has been moved past already, so that an exit needs no repair */

static void store_word(int reg)
{
    const int other = reg == RCX ? RAX : RCX;
    load(other, O_BUFFER);
    byte(0x48);
    byte(0x89);
    byte(0x80u | (unsigned)reg << 3 | (unsigned)other);
    word((uint32_t)(-8 * words_left--));
}

/* Asks first whether something is to be done, and whether the burst has ended. Returns where the jump to what is asked for lies. */
static uint8_t *begin_visit(uint32_t id, uint64_t address)
{
    const struct cv_blob_segment *s = &SEGMENTS[id];
    spill();
    load(RCX, O_FLAG);
    CODE_BYTES("\xe3\x05\xe9"); /* jrcxz on; jmp; on: */
    uint8_t *const asked = out;
    word(0);
    load(RCX, O_LEFT);
    address_of(RCX, RCX, -1, 1, -1);
    store(RCX, O_LEFT);
    CODE_BYTES("\xe3\x02\xeb"); /* jrcxz over; jmp on */
    uint8_t *const on = out;
    byte(0);
    unspill();
    store_constant(O_TARGET, address);
    jump(cv_table[ENTER_BURST_END]);
    *on = (uint8_t)(out - on - 1);
    load(RAX, O_BUFFER);
    byte(0xb9); /* mov ecx, id */
    word(id);
    CODE_BYTES("\x48\x89\x08"); /* mov [rax], rcx */
    address_of(RAX, RAX, -1, 1, 8 * (s->words + 1));
    store(RAX, O_BUFFER);
    add_one(s->counter);
    unspill();
    words_left = s->words;
    return asked;
}

static void record_lanes(const struct cv_x86 *x)
{
    const uint64_t none = CV_WIRE_NOT_EXECUTED;
    spill();
    begin_lanes(x);
    for (int lane = 0; lane < x->lanes; lane++) {
        load_element(x, lane);
        CODE_BYTES("\xe3\x02\xeb\x0a\x48\xb8"); /* jrcxz none; jmp on; none: mov rax, imm64; on: */
        bytes(&none, 8);
        store_word(RAX);
    }
    unspill();
}

static void record_references(const struct cv_x86 *x)
{
    if (x->lanes) {
        record_lanes(x);
        return;
    }
    for (int r = 0; r < x->n_references; r++) {
        if (!cv_has_word(x, r))
            continue;
        spill();
        load_address(x, r);
        store_word(RAX);
        unspill();
    }
}

static void copy_recording(int i, uint32_t segment)
{
    const struct cv_x86 *x = &instructions[i];
    const int repeats = x->repeated || x->compares;
    if (repeats) {
        store(RAX, O_A);
        store_word(RCX);
        load(RAX, O_A);
        repeat_before(segment);
    }
    place(x->address, 0, 0);
    copy(x, codes[i]);
    if (repeats) {
        store(RAX, O_A);
        store_word(RCX);
        store(RCX, O_B);
        address_of(RAX, x->references[0].where == CV_X86_SOURCE ? RSI : RDI, -1, 1, 0);
        store_word(RAX);
        unspill();
    }
    if (x->compares)
        repeat_behind(segment);
}

static uint64_t recording(uint64_t address)
{
    const uint64_t start = (uint64_t)out;
    const int64_t id = segment_at(address);
    if (id < 0)
        return 0;
    LISTED[SHARED->listed] = (uint32_t)id;
    if (!SEGMENTS[id].counter)
        SEGMENTS[id].counter = new_counter((uint32_t)SHARED->listed, 1, 1);
    SHARED->listed++;
    mark_at(address);
    uint8_t *const asked = begin_visit((uint32_t)id, address);
    const struct cv_x86 *last = &instructions[n_instructions - 1];
    for (int i = 0; i < n_instructions; i++) {
        count_lanes(i, (uint32_t)id);
        record_references(&instructions[i]);
        if (instructions[i].kind == CV_X86_PLAIN)
            copy_recording(i, (uint32_t)id);
    }
    if (last->kind == CV_X86_BRANCH)
        branch_to_side(last->condition, last->target, 0);
    end_with(last, 0, 1, 0);
    side_stubs();
    patch(asked, out);
    load(RCX, O_B);
    store_constant(O_TARGET, address);
    jump(cv_table[ENTER_POLL]);
    return start;
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
 * A superblock that is often left by its sides, or that runs very often, is made anew, along the way that its branches went so far. */

#define MOST_VERSIONS 4
#define OFTEN 65536 /* runs of one that is made anew in any case, longer and with guesses followed */
#define FREQUENT 256
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

/* Is it left so often against what its branches prefer, or does the first one run so often, that another one is better? */
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
    return (against > WORTH && 4 * against > all) || (!b->version && all > OFTEN);
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

static void prefer(uint32_t segment)
{
    const uint64_t on = BRANCHES[segment].times[CV_DIRECTION_ON], taken = BRANCHES[segment].times[CV_DIRECTION_TAKEN];
    if (on + taken)
        SEGMENTS[segment].prefers = taken > on ? CV_DIRECTION_TAKEN : CV_DIRECTION_ON;
}

/* Runs of the most frequent way out; what has none of so many is not looked at: most code runs a few times only. */
static int is_frequent(const struct cv_blob_superblock *b, const uint64_t *counters)
{
    if (!b->listed || b->mode == CV_RECORDING)
        return 0;
    for (uint32_t e = b->first_exit; e < b->first_exit + b->exits; e++)
        if (counters[e] >= FREQUENT && EXITS[e].segments)
            return 1;
    return 0;
}

void cv_improve(const struct cv_slot *slot)
{
    uint32_t *const frequent = (uint32_t *)(CV_SHARED_BASE + CV_OFF_FREQUENT);
    const uint64_t *counters = (const uint64_t *)(slot->self + CV_SLOT_COUNTERS);
    const struct cv_blob_branch none = {{0, 0, 0}};
    uint64_t n = 0;
    for (uint64_t i = 0; i < SHARED->superblocks; i++)
        if (is_frequent(&SUPERBLOCKS[i], counters))
            frequent[n++] = (uint32_t)i;
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < SUPERBLOCKS[frequent[i]].listed; k++)
            BRANCHES[LISTED[SUPERBLOCKS[frequent[i]].first_listed + k]] = none;
    for (uint64_t i = 0; i < n; i++)
        add_branches(&SUPERBLOCKS[frequent[i]], counters);
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < SUPERBLOCKS[frequent[i]].listed; k++)
            prefer(LISTED[SUPERBLOCKS[frequent[i]].first_listed + k]);
    for (uint64_t i = 0; i < n; i++) {
        struct cv_blob_superblock *b = &SUPERBLOCKS[frequent[i]];
        if (is_current(b) && b->version < MOST_VERSIONS && is_worth(b, counters))
            replace(b);
    }
}
