/* What the parts of the translator share: one translation at a time is made, with the lock held. */
#ifndef CV_TRANSLATOR_H
#define CV_TRANSLATOR_H

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
    O_AWAITED = 224,
    O_TOTAL = 232
};

#define MOST_INSTRUCTIONS 48 /* of a segment */
#define MOST_WORDS 128       /* of a visit */
#define LANDING_BYTES 48     /* before a superblock's head, for indirect branches */

/* The translation that is being made (blob_translate.c): where its next byte goes, and in which code cache; why it cannot be made; the
 * address that it is of, where its copy begins, and its mode; not 0: what branches did is known. */
extern uint8_t *out;
extern struct cv_blob_region *region;
extern const char *failed;
extern uint64_t head, head_code;
extern int head_mode, head_version;

static inline void fail(const char *why)
{
    if (!failed)
        failed = why;
}

/* blob_segments.c */
struct decoded {
    uint64_t address;
    struct cv_x86 x; /* length 0: none */
    uint8_t code[16];
};
enum { SEGMENT_TABLE = CV_NATIVE };                   /* beside the tables of translations, one a mode */
extern struct cv_x86 instructions[MOST_INSTRUCTIONS]; /* of the segment that was asked for last */
extern uint8_t codes[MOST_INSTRUCTIONS][16];
extern int n_instructions;
const struct decoded *decode(uint64_t address);
void fill_lookups(int mode);
void remember(int mode, uint64_t address, uint64_t code);
void erase(int mode, uint64_t address);
int flags_live(uint64_t address, int carry);
int64_t segment_at(uint64_t address);
int lanes_before(int i); /* masked elements of the instructions before the i-th */
void begin_block(uint64_t start);
void place(uint64_t address, int segments, int spilled);
void end_block(void);
struct cv_blob_region *region_for(uint64_t address);

/* blob_emit.c */
static inline void byte(unsigned value) { *out++ = (uint8_t)value; }

static inline void word(uint32_t value)
{
    memcpy(out, &value, 4);
    out += 4;
}

static inline void bytes(const void *from, unsigned long n)
{
    memcpy(out, from, n);
    out += n;
}
#define CODE_BYTES(literal) bytes(literal, sizeof literal - 1)

static inline void with_slot(unsigned opcode, int reg, uint32_t offset)
{
    byte(0x65);
    byte(0x48 | (reg >= 8 ? 4 : 0));
    byte(opcode);
    byte(4u | (unsigned)(reg & 7) << 3);
    byte(0x25);
    word(offset);
}

static inline void store(int reg, uint32_t offset) { with_slot(0x89, reg, offset); }

static inline void load(int reg, uint32_t offset) { with_slot(0x8b, reg, offset); }

/* rax and rcx into the slot, and back. */
static inline void spill(void)
{
    store(RAX, O_A);
    store(RCX, O_B);
}

static inline void unspill(void)
{
    load(RAX, O_A);
    load(RCX, O_B);
}

void address_of(int reg, int base, int index, int scale, int32_t displacement);
uint64_t constant(uint64_t value);
void relative(uint64_t target);
void jump(uint64_t target);
void nothing(int n);
void store_constant(uint32_t offset, uint64_t value);
void patch(uint8_t *site, const uint8_t *to);
void load_address(const struct cv_x86 *x, int reference);
void copy(const struct cv_x86 *x, const uint8_t *code);
void load_target(const struct cv_x86 *x, const uint8_t *code);
void push_return(uint64_t address);
uint32_t new_counter(uint32_t first, int segments, int sign);
uint32_t lanes_counter(uint32_t segment, int lane, int n); /* of so many masked elements, from one on */
void add_one(uint32_t counter);                            /* by rcx */
void count_free(uint32_t counter);                         /* changes the flags */
void count_kept(uint32_t counter);
void add_turns(uint32_t counter);
void count_to(uint32_t counter, uint64_t target);

/* blob_exits.c */
void begin_exits(void);
uint64_t exit_stub_bytes(void); /* at most */
void exit_stubs(void);
void exit_to(uint64_t target, int mode);
void sever(struct cv_blob_superblock *superblock);
void indirect(int mode);
void look_at_return(void);
void landing(uint64_t address);
int is_marked(uint64_t address);
void mark_at(uint64_t address);

/* blob_filter.c */
extern int rcx_kept, rcx_away;
void begin_filter(void);
uint64_t hit_stub_bytes(void); /* at most */
void hit_stubs(void);
void bring_rcx(void);
int may_change_rcx(const struct cv_x86 *x);
void find_dead_flags(uint8_t *dead);
void filter_instruction(const struct cv_x86 *x, uint32_t segment, int *reference, int flags_dead);
void filter_behind(const struct cv_x86 *x, uint32_t segment);

/* blob_lanes.c */
void count_lanes(int i, uint32_t segment);
void begin_lanes(const struct cv_x86 *x);
void load_element(const struct cv_x86 *x, int lane);

#endif
