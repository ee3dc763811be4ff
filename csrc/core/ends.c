/* How a segment ends: just as much decoding as the branches of x86-64 need. */
#include "cv_branch.h"

#include <string.h>

/* The last instruction without its prefixes. */
typedef struct {
    const uint8_t *at;
    size_t left;
    int repeated; /* had F2 or F3 */
} opcode;

static int is_prefix(uint8_t byte)
{
    static const uint8_t all[] = {0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3};
    return memchr(all, byte, sizeof all) != NULL;
}

static opcode skip_prefixes(const uint8_t *code, size_t size)
{
    opcode op = {code, size, 0};
    for (; op.left && is_prefix(*op.at); op.at++, op.left--)
        op.repeated |= *op.at == 0xf2 || *op.at == 0xf3;
    if (op.left && *op.at >> 4 == 4) /* REX */
        op.at++, op.left--;
    return op;
}

static int is_string(uint8_t byte)
{
    return (byte >= 0xa4 && byte <= 0xa7) || (byte >= 0xaa && byte <= 0xaf) || (byte >= 0x6c && byte <= 0x6f);
}

static enum cv_end_kind kind_0f(uint8_t byte)
{
    if (byte >= 0x80 && byte <= 0x8f)
        return CV_END_CONDITIONAL;
    return byte == 0x05 || byte == 0x07 || byte == 0x0b || byte == 0x34 || byte == 0x35 ? CV_END_OTHER : CV_END_FALL;
}

static enum cv_end_kind kind_ff(uint8_t modrm)
{
    switch (modrm >> 3 & 7) {
    case 2: return CV_END_INDIRECT_CALL;
    case 4: return CV_END_INDIRECT_JUMP;
    case 3:
    case 5: return CV_END_OTHER;
    default: return CV_END_FALL;
    }
}

static enum cv_end_kind kind_of(opcode op)
{
    uint8_t byte = op.left ? op.at[0] : 0, second = op.left > 1 ? op.at[1] : 0;
    if (op.repeated && is_string(byte))
        return CV_END_REPEAT;
    if ((byte >= 0x70 && byte <= 0x7f) || (byte >= 0xe0 && byte <= 0xe3))
        return CV_END_CONDITIONAL;
    switch (byte) {
    case 0x0f: return kind_0f(second);
    case 0xe8: return CV_END_CALL;
    case 0xe9:
    case 0xeb: return CV_END_JUMP;
    case 0xc2:
    case 0xc3: return CV_END_RETURN;
    case 0xff: return kind_ff(second);
    case 0xca:
    case 0xcb:
    case 0xcc:
    case 0xcd:
    case 0xcf:
    case 0xf1:
    case 0xf4: return CV_END_OTHER;
    default: return CV_END_FALL;
    }
}

/* The displacement of a direct branch lies at its end: 4 bytes after 0F xx, E8 and E9, else one. */
static uint64_t target_of(opcode op, uint64_t after)
{
    size_t opcodes = op.at[0] == 0x0f ? 2 : 1;
    int wide = op.at[0] == 0x0f || op.at[0] == 0xe8 || op.at[0] == 0xe9;
    int32_t distance = 0;
    if (op.left < opcodes + (wide ? 4 : 1))
        return after;
    if (wide)
        memcpy(&distance, op.at + opcodes, 4);
    else
        distance = (int8_t)op.at[opcodes];
    return after + (uint64_t)(int64_t)distance;
}

cv_segment_end cv_read_end(const struct cv_wire_segment *segment, const struct cv_wire_instruction *instructions, const uint8_t *code)
{
    cv_segment_end end = {.branch = segment->address, .after = segment->address + segment->code_bytes};
    if (!segment->instructions)
        return end;
    const struct cv_wire_instruction *last = &instructions[segment->instructions - 1];
    end.branch = segment->address + last->offset;
    end.after = end.branch + last->length;
    if ((size_t)last->offset + last->length > segment->code_bytes)
        return end;
    opcode op = skip_prefixes(code + last->offset, last->length);
    end.kind = kind_of(op);
    if (end.kind == CV_END_CONDITIONAL || end.kind == CV_END_JUMP || end.kind == CV_END_CALL)
        end.target = target_of(op, end.after);
    end.turn = end.kind == CV_END_REPEAT && segment->instructions == 1 && (instructions[0].flags & CV_WIRE_CONTINUED);
    return end;
}
