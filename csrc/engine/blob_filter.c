/* Filtering code: tests before references, and code that records those which touch the class of sets that is wanted. */
#include "address_words.h"
#include "translator.h"

#define MOST_HITS 512
#define MOST_HIT_BYTES 384  /* of code for one */
#define MOST_LANE_BYTES 320 /* and for each of its masked elements */
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
int rcx_kept; /* the slot has its value */
int rcx_away; /* the register has not */

void bring_rcx(void)
{
    if (rcx_away)
        load(RCX, O_B);
    rcx_away = 0;
}

/* Other than as part of an address. */
int may_change_rcx(const struct cv_x86 *x)
{
    struct cv_x86 without = *x;
    without.base = without.index = -1;
    without.reads = 0;
    return cv_x86_touches_rcx(&without);
}

static void put_lanes(const struct cv_x86 *x, uint32_t first);

static void put_hit(const struct cv_x86 *x, int reference, uint32_t first)
{
    bring_rcx();
    rcx_kept = 1;
    spill();
    if (x->lanes) {
        put_lanes(x, first);
    } else {
        load_address(x, reference);
        put_pair(first);
    }
    unspill();
}

static void put_register(int reg, uint32_t first)
{
    bring_rcx();
    rcx_kept = 1;
    spill();
    address_of(RAX, reg, -1, 1, 0);
    put_pair(first);
    unspill();
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
    const int keeps_flags = !flags_dead && !SHARED->setup.pext;
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

/* Where all that is skipped goes on. */
static void end_skips(void)
{
    while (skips.n)
        patch(skips.site[--skips.n], out);
}

/* Leaves out what lies beside the class that the reader wants now, and a line that was the last one, see
 * CV_WIRE_REPEATED_CLASSES. The address is in rax. */
static void sift(const struct cv_x86_reference *r)
{
    const int32_t class_bytes = 64 * (int32_t)SHARED->set_class;
    const uint32_t known = r->access & CV_X86_STORE ? O_WRITTEN : O_LINE;
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

/* Those elements that a mask chooses and that lie in the class; rax and rcx are spilled, and have the program's values. */
static void put_lanes(const struct cv_x86 *x, uint32_t first)
{
    const struct cv_x86_reference element = {.access = x->references[0].access, .size = x->lane_bytes};
    begin_lanes(x);
    for (int lane = 0; lane < x->lanes; lane++) {
        load_element(x, lane);
        CODE_BYTES("\xe3\x02\xeb\x05"); /* jrcxz none; jmp on; none: */
        skip();
        sift(&element);
        put_pair(first + (uint32_t)lane);
        end_skips();
    }
}

static void hit_stub(const struct hit *hit)
{
    patch(hit->site, out);
    store(RAX, hit->keeps_flags ? O_C : O_A);
    if (hit->keeps_flags)
        load(RAX, O_A);
    load(RCX, O_B);
    if (hit->x.lanes) {
        put_lanes(&hit->x, hit->word);
    } else {
        load_address(&hit->x, hit->reference);
        if (SHARED->setup.pext)
            sift(&hit->x.references[hit->reference]);
        put_pair(hit->word);
        end_skips();
    }
    load(RAX, hit->keeps_flags ? O_C : O_A);
    byte(0xe9);
    word((uint32_t)((int64_t)hit->back - (int64_t)(out + 4)));
}

void hit_stubs(void)
{
    for (int i = 0; i < n_hits; i++)
        hit_stub(&hits[i]);
    n_hits = 0;
}

/* Before which instructions of the segment nobody sees the flags any more. */
void find_dead_flags(uint8_t *dead)
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
void filter_instruction(const struct cv_x86 *x, uint32_t segment, int *reference, int flags_dead)
{
    if (head_mode != CV_FILTERING)
        return;
    const int repeats = x->repeated || x->compares;
    for (int r = 0; r < x->n_references; r++, *reference += x->lanes ? x->lanes : 1) {
        if (repeats)
            put_hit(x, r, segment << 8 | (uint32_t)*reference);
        else
            filter(x, r, segment << 8 | (uint32_t)*reference, flags_dead);
    }
    if (repeats)
        put_register(RCX, segment << 8 | CV_HIT_BEFORE);
}

void filter_behind(const struct cv_x86 *x, uint32_t segment)
{
    if (head_mode != CV_FILTERING || !(x->repeated || x->compares))
        return;
    put_register(RCX, segment << 8 | CV_HIT_BEHIND);
    put_register(x->references[0].where == CV_X86_SOURCE ? RSI : RDI, segment << 8 | CV_HIT_POINTER);
}

void begin_filter(void) { n_hits = rcx_kept = rcx_away = 0; }

uint64_t hit_stub_bytes(void)
{
    uint64_t all = 0;
    for (int i = 0; i < n_hits; i++)
        all += MOST_HIT_BYTES + MOST_LANE_BYTES * (uint64_t)hits[i].x.lanes;
    return all;
}
