/* Code that is put together at run time: copies of a piece between an entrance and a way back. x86-64 only. */
#ifndef CV_CODE_H
#define CV_CODE_H

#include <stddef.h>
#include <stdint.h>

/* A piece of machine code that may stand anywhere. */
struct cv_piece {
    const unsigned char *begin, *end;
};

struct cv_code {
    unsigned char *base; /* writable or executable, never both */
    size_t room, used;
};

/* What the pieces find in their registers; the entrance loads them from here. */
struct cv_registers {
    uint64_t rax, rcx, r8, r9, r10, rdi, rbp;
    uint64_t xmm[4]; /* bits of registers 0 to 3, in every lane; the others are as 0 */
};

/* Returns 0, or -1 with errno where the system forbids such memory. */
int cv_code_open(struct cv_code *code, size_t room);
void cv_code_close(struct cv_code *code);

/* Registers that pieces find filled beyond 16 bytes: those of 32 bytes (1), which needs AVX, or of 64, masks 1 and 2 with all elements, and
 * zeros in vector 16, which needs AVX-512. */
#define CV_WIDEST 2

/* Begin anew; append copies of a piece; at the end code that can be called. Pieces that do not fit are left out (returns -1). */
int cv_code_begin(struct cv_code *code);
int cv_code_put(struct cv_code *code, struct cv_piece piece, unsigned copies);
int cv_code_seal(struct cv_code *code, int wide);

/* Runs it so many turns; `registers` is updated with rax, rdi and rbp as they end, so that chains go on. */
void cv_code_run(const struct cv_code *code, struct cv_registers *registers, uint64_t turns);

#endif
