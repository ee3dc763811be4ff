/* Elements that a mask chooses: gathers and scatters, masked moves and arithmetic. Each one is counted, and recorded, as a reference of its
 * own. Nothing here changes the flags, and nothing reads memory of the program's. */
#include "translator.h"

enum { O_INDICES = CV_SLOT_LANES, O_ELEMENTS = CV_SLOT_LANES + 64, O_MASK = CV_SLOT_LANES + 72 };

static uint64_t all_of(const struct cv_x86 *x) { return (UINT64_C(1) << x->lanes) - 1; }

/* pext rcx, rcx, bits */
static void extract(uint64_t bits)
{
    CODE_BYTES("\xc4\xe2\xf2\xf5\x0d");
    relative(constant(bits));
}

/* The mask's bits into rcx, lowest first. */
static void load_mask(const struct cv_x86 *x)
{
    if (!x->mask_bytes) {
        CODE_BYTES("\xc5\xf8\x93"); /* kmovw ecx, k */
        byte(0xc8u | x->mask);
    } else { /* vmovmskps or vmovmskpd ecx, ymm */
        byte(0xc4);
        byte(0xc1u | (x->mask & 8 ? 0 : 0x20u));
        byte(0x78u | (x->vector_bytes == 32 ? 4 : 0) | (x->mask_bytes == 8));
        byte(0x50);
        byte(0xc8u | (x->mask & 7));
    }
    extract(all_of(x));
    if (x->lane_kind == CV_X86_PACKED)
        CODE_BYTES("\xc4\xe2\xf2\xf5\xc9"); /* pext rcx, rcx, rcx: as many ones */
}

/* One bit of the mask into rcx. */
static void load_lane(int lane)
{
    load(RCX, O_MASK);
    extract(UINT64_C(1) << lane);
}

static void count_lane(uint32_t counter, int lane)
{
    load_lane(lane);
    load(RAX, counter);
    address_of(RAX, RAX, RCX, 1, 0);
    store(RAX, counter);
}

/* How often each element of the segment's i-th instruction is chosen: one counter for all of them together, where it has all, and one for
 * each. */
void count_lanes(int i, uint32_t segment)
{
    const struct cv_x86 *x = &instructions[i];
    const int first = lanes_before(i);
    if (!x->lanes)
        return;
    bring_rcx();
    store(RCX, O_B);
    load_mask(x);
    address_of(RCX, RCX, -1, 1, -(int32_t)all_of(x));
    CODE_BYTES("\xe3\x05\xe9"); /* jrcxz all; jmp some; all: */
    uint8_t *const some = out;
    word(0);
    add_one(lanes_counter(segment, first, x->lanes));
    byte(0xe9);
    uint8_t *const done = out;
    word(0);
    patch(some, out);
    address_of(RCX, RCX, -1, 1, (int32_t)all_of(x));
    store(RCX, O_MASK);
    store(RAX, O_A);
    for (int lane = 0; lane < x->lanes; lane++)
        count_lane(lanes_counter(segment, first + lane, 1), lane);
    load(RAX, O_A);
    patch(done, out);
    load(RCX, O_B);
}

static void store_indices(const struct cv_x86 *x)
{
    const unsigned index = (unsigned)x->index;
    byte(0x65);
    if (x->encoding == CV_X86_EVEX) { /* vmovdqu64 gs:[indices], zmm */
        byte(0x62);
        byte((index & 8 ? 0 : 0x80u) | 0x60u | (index & 16 ? 0 : 0x10u) | 1);
        CODE_BYTES("\xfe\x48");
    } else { /* vmovdqu gs:[indices], ymm */
        byte(0xc5);
        byte((index & 8 ? 0 : 0x80u) | 0x7eu);
    }
    byte(0x7f);
    byte(4u | (index & 7) << 3);
    byte(0x25);
    word(O_INDICES);
}

/* Where the elements lie, before they are asked for one by one; rax and rcx are spilled, and have the program's values. */
void begin_lanes(const struct cv_x86 *x)
{
    load_address(x, 0);
    store(RAX, O_ELEMENTS);
    if (x->lane_kind == CV_X86_GATHERED)
        store_indices(x);
    load_mask(x);
    store(RCX, O_MASK);
}

/* The address of an element into rax, and into rcx 0 where it is not chosen. */
void load_element(const struct cv_x86 *x, int lane)
{
    if (x->lane_kind == CV_X86_GATHERED) {
        with_slot(x->index_bytes == 8 ? 0x8b : 0x63, RCX, O_INDICES + x->index_bytes * (uint32_t)lane); /* mov, movsxd */
        load(RAX, O_ELEMENTS);
        address_of(RAX, RAX, RCX, x->scale, 0);
    } else {
        load(RAX, O_ELEMENTS);
        address_of(RAX, RAX, -1, 1, lane * x->lane_bytes);
    }
    load_lane(lane);
}
