/* Writes machine code: what the translator adds, and copies of the program's instructions. */
#include "translator.h"

/* lea reg, [base + index * scale + displacement]; base, index: 0 to 15 or -1 */
void address_of(int reg, int base, int index, int scale, int32_t displacement)
{
    const unsigned ss = scale == 8 ? 3 : scale == 4 ? 2 : scale == 2 ? 1 : 0, i = index < 0 ? 4 : (unsigned)index & 7;
    byte(0x48u | (reg >= 8 ? 4 : 0) | (index >= 8 ? 2 : 0) | (base >= 8 ? 1 : 0));
    byte(0x8d);
    byte((base < 0 ? 0x04u : 0x84u) | (unsigned)(reg & 7) << 3);
    byte(ss << 6 | i << 3 | (base < 0 ? 5u : (unsigned)base & 7));
    word((uint32_t)displacement);
}

/* A constant near the code. */
uint64_t constant(uint64_t value)
{
    region->pool -= 8;
    *(uint64_t *)region->pool = value;
    return region->pool;
}

void relative(uint64_t target)
{
    const int64_t distance = (int64_t)target - (int64_t)(out + 4);
    if (distance != (int32_t)distance)
        fail("an operand lies too far from the code cache");
    word((uint32_t)distance);
}

void jump(uint64_t target)
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
void nothing(int n)
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

void store_constant(uint32_t offset, uint64_t value)
{
    for (uint32_t i = 0; i < 2; i++) {
        CODE_BYTES("\x65\xc7\x04\x25");
        word(offset + 4 * i);
        word((uint32_t)(value >> 32 * i));
    }
}

void patch(uint8_t *site, const uint8_t *to)
{
    const uint32_t distance = (uint32_t)((int64_t)to - (int64_t)(site + 4));
    memcpy(site, &distance, 4);
}

/* ---- addresses ---- */

static void address_of_constant(uint64_t value)
{
    CODE_BYTES("\x48\xb8"); /* mov rax, imm64 */
    bytes(&value, 8);
}

/* The address of a reference into rax, which is spilled, as is rcx. */
void load_address(const struct cv_x86 *x, int reference)
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

/* ---- the program's own instructions ---- */

void copy(const struct cv_x86 *x, const uint8_t *code)
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
void load_target(const struct cv_x86 *x, const uint8_t *code)
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

void push_return(uint64_t address)
{
    CODE_BYTES("\xff\x35");
    relative(constant(address));
}

/* ---- counters ---- */

static uint32_t counter_of(struct cv_blob_exit counted)
{
    if (SHARED->exits == CV_MOST_EXITS) {
        fail("more code than there are counters");
        return 0;
    }
    EXITS[SHARED->exits] = counted;
    return CV_SLOT_COUNTERS + 8 * (uint32_t)SHARED->exits++;
}

uint32_t new_counter(uint32_t first, int segments, int sign)
{
    return counter_of((struct cv_blob_exit){.first = first, .sign = (int16_t)sign, .segments = (uint16_t)segments});
}

uint32_t lanes_counter(uint32_t segment, int lane, int n)
{
    return counter_of((struct cv_blob_exit){.first = segment, .lane = (uint16_t)lane, .lanes = (uint16_t)n});
}

/* Instructions that ran where a counter is incremented; 0: nobody asks. */
static int32_t counted(uint32_t counter)
{
    const struct cv_blob_exit *e = &EXITS[(counter - CV_SLOT_COUNTERS) / 8];
    int32_t all = 0;
    for (uint32_t i = 0; SHARED->following && i < e->segments; i++)
        all += SEGMENTS[LISTED[e->first + i]].instructions;
    return all;
}

static void add_to(int reg, uint32_t offset, int32_t n)
{
    load(reg, offset);
    address_of(reg, reg, -1, 1, n);
    store(reg, offset);
}

void add_one(uint32_t counter)
{
    add_to(RCX, counter, 1);
    if (counted(counter))
        add_to(RCX, O_TOTAL, counted(counter));
}

void count_free(uint32_t counter) /* changes the flags, the carry where instructions are counted */
{
    CODE_BYTES("\x65\x48\xff\x04\x25");
    word(counter);
    if (!SHARED->following)
        return;
    CODE_BYTES("\x65\x48\x81\x04\x25"); /* add qword gs:[total], imm32 */
    word(O_TOTAL);
    word((uint32_t)counted(counter));
}

void count_kept(uint32_t counter)
{
    store(RAX, O_A);
    add_to(RAX, counter, 1);
    if (SHARED->following)
        add_to(RAX, O_TOTAL, counted(counter));
    load(RAX, O_A);
}

/* Those left over are taken off: ~rcx + 1 is -rcx, and neither changes the flags. */
static void add_turns_to_total(int sign)
{
    if (sign < 0)
        CODE_BYTES("\x48\xf7\xd1"); /* not rcx */
    load(RAX, O_TOTAL);
    address_of(RAX, RAX, RCX, 1, sign < 0);
    store(RAX, O_TOTAL);
    if (sign < 0)
        CODE_BYTES("\x48\xf7\xd1");
}

void add_turns(uint32_t counter)
{
    store(RAX, O_A);
    load(RAX, counter);
    address_of(RAX, RAX, RCX, 1, 0);
    store(RAX, counter);
    if (SHARED->following)
        add_turns_to_total(EXITS[(counter - CV_SLOT_COUNTERS) / 8].sign);
    load(RAX, O_A);
}

void count_to(uint32_t counter, uint64_t target)
{
    if (flags_live(target, SHARED->following != 0))
        count_kept(counter);
    else
        count_free(counter);
}
