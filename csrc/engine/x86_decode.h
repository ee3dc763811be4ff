/* A decoder of x86-64 machine code that knows what copying an instruction and recording its references needs: its length, where it goes,
 * which flags and registers it reads and writes, and its memory operands. It knows no semantics. Freestanding: the engine has it inside the
 * traced program, and the controller uses the same one.
 *
 * Sources: Intel, Software Developer's Manual, volume 2, appendix A (opcode maps) and section 2.7 (EVEX, compressed displacements). */
#ifndef CV_X86_DECODE_H
#define CV_X86_DECODE_H

#include <stdint.h>

enum cv_x86_kind {
    CV_X86_PLAIN,
    CV_X86_BRANCH, /* conditional, to `target` */
    CV_X86_LOOP,   /* loop, loope, loopne, jrcxz: conditional without a long form */
    CV_X86_JUMP,
    CV_X86_CALL,
    CV_X86_RETURN,
    CV_X86_JUMP_INDIRECT,
    CV_X86_CALL_INDIRECT,
    CV_X86_SYSCALL,
    CV_X86_REQUEST, /* xchg rbx, rbx: does nothing, and ends what asks a tracer (csrc/mpi/cv_bursts.h) */
    CV_X86_REFUSED  /* must not be copied: `refusal` says why */
};

enum cv_x86_refusal {
    CV_X86_ACCEPTED,
    CV_X86_UNKNOWN,      /* no instruction, or none that the decoder knows */
    CV_X86_FAR,          /* far branches, iret */
    CV_X86_OLD_SYSCALL,  /* int n, sysenter */
    CV_X86_GS,           /* uses the gs segment, which the engine has taken */
    CV_X86_TRANSACTION,  /* xbegin, xabort, xend */
    CV_X86_ADDRESS_SIZE, /* 32-bit addresses relative to the instruction */
    CV_X86_REFUSALS
};

enum cv_x86_encoding { CV_X86_LEGACY, CV_X86_VEX, CV_X86_EVEX };

/* How the address of a reference follows from the registers before the instruction. */
enum cv_x86_where {
    CV_X86_OPERAND, /* the operand of the ModRM byte */
    CV_X86_PUSH,    /* rsp minus its size */
    CV_X86_POP,     /* rsp */
    CV_X86_SOURCE,  /* rsi */
    CV_X86_TARGET,  /* rdi */
    CV_X86_FRAME,   /* rbp */
    CV_X86_TABLE,   /* rbx + al */
    CV_X86_ABSOLUTE /* `displacement` */
};

/* Where the elements lie that a mask chooses. */
enum cv_x86_lanes {
    CV_X86_GATHERED, /* by a vector of indices */
    CV_X86_IN_ROW,   /* one after the other */
    CV_X86_PACKED    /* as many as the mask has bits, one after the other */
};

enum { CV_X86_LOAD = 1, CV_X86_STORE = 2 };

enum { CV_X86_NO_REGISTER = -1, CV_X86_RIP = -2 };

/* Sets of registers are numbered like those of a trace's flows: general ones by their encoding, vectors from 16, flags 32. */
#define CV_X86_VECTOR_SET 16
#define CV_X86_FLAGS_SET (UINT64_C(1) << 32)

struct cv_x86_reference {
    uint8_t where;  /* enum cv_x86_where */
    uint8_t access; /* CV_X86_LOAD, CV_X86_STORE or both */
    uint16_t size;  /* bytes */
};

struct cv_x86 {
    uint64_t address;
    uint64_t target;        /* of a direct branch, jump or call */
    int64_t displacement;   /* of the memory operand; relative to the next instruction where base is CV_X86_RIP */
    uint64_t reads, writes; /* sets of registers */
    struct cv_x86_reference references[2];
    uint8_t n_references;
    uint8_t length;
    uint8_t kind;
    uint8_t refusal;
    uint8_t encoding;
    uint8_t map;    /* 0: one byte, 1: 0F, 2: 0F38, 3: 0F3A, 5, 6 */
    uint8_t prefix; /* mandatory prefix or the same in VEX and EVEX: 0, 1 (66), 2 (F3), 3 (F2) */
    uint8_t opcode;
    uint8_t condition;    /* of a branch */
    uint8_t rex;          /* W 8, R 4, X 2, B 1 */
    uint8_t prefixes;     /* bytes before the opcode's escape or VEX */
    uint8_t modrm_offset; /* 0: none */
    uint8_t modrm;
    uint8_t displacement_offset; /* of a 4-byte displacement relative to rip; 0: none */
    uint8_t segment;             /* 0, or the prefix 0x64 */
    uint8_t memory;              /* has a memory operand */
    uint8_t repeated;            /* rep movs, stos, lods, ins, outs */
    uint8_t compares;            /* repe, repne cmps, scas: repeated, too */
    uint8_t locked;
    uint8_t prefetches;   /* its reference only asks for a line */
    uint8_t vector_bytes; /* 16, 32, 64 */
    uint8_t gathered;     /* vector-indexed operand */
    uint8_t lanes;        /* elements of the operand that a mask chooses; 0: it is one reference */
    uint8_t lane_bytes;
    uint8_t lane_kind;   /* enum cv_x86_lanes */
    uint8_t index_bytes; /* of an index */
    uint8_t mask;        /* register that has the mask */
    uint8_t mask_bytes;  /* 0: an opmask register; 4, 8: the highest bit of each element of a vector register */
    uint8_t reads_flags; /* reads one of PF, AF, ZF, SF, OF, which inc writes */
    uint8_t sets_flags;  /* surely writes all of them */
    uint8_t keeps_carry; /* inc, dec */
    uint8_t flops;       /* operations times lanes */
    uint8_t scale;
    int8_t base, index; /* 0 to 15, or CV_X86_NO_REGISTER, CV_X86_RIP */
    uint16_t pops;      /* bytes that a return takes beyond its address */
};

/* Decodes the instruction at `address`, whose bytes are `code`; `size`: how many of them are readable. Returns its length; 0: not one whole
 * instruction, `refusal` says why. Refused instructions have a length, too. */
int cv_x86_decode(const uint8_t *code, int size, uint64_t address, struct cv_x86 *out);

/* Whether an instruction might read or write rcx: by all that its encoding allows, but for vector instructions that are known. */
int cv_x86_touches_rcx(const struct cv_x86 *x);

#endif
