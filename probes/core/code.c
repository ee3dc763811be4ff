#define _GNU_SOURCE
#include "code.h"

#include <string.h>
#include <sys/mman.h>

/* Labels around assembled instructions make them data that can be copied. Of other CPUs there is nothing to copy: no body asks for it. */
#if defined(__x86_64__)
#define PIECE(name, text)                                                                             \
    __asm__(".pushsection .rodata\ncv_begin_" #name ":\n" text "\ncv_end_" #name ":\n.popsection\n"); \
    extern const unsigned char cv_begin_##name[], cv_end_##name[];                                    \
    static const struct cv_piece cv_##name = {cv_begin_##name, cv_end_##name};
#else
#define PIECE(name, text) static const struct cv_piece cv_##name = {NULL, NULL};
#endif

/* void run(struct cv_registers *rdi, uint64_t turns rsi): the turns are counted on the stack, so that pieces have all registers
 * but the stack pointer. */
PIECE(enter, "push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n push %rdi\n push %rsi\n"
             "mov %rdi, %rsi\n mov (%rsi), %rax\n mov 8(%rsi), %rcx\n mov 16(%rsi), %r8\n mov 24(%rsi), %r9\n mov 32(%rsi), %r10\n"
             "mov 40(%rsi), %rdi\n mov 48(%rsi), %rbp\n xor %edx, %edx\n"
             ".irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n movsd 56(%rsi), %xmm\\r\n unpcklpd %xmm\\r, %xmm\\r\n .endr\n"
             "movsd 64(%rsi), %xmm1\n unpcklpd %xmm1, %xmm1\n movsd 72(%rsi), %xmm2\n unpcklpd %xmm2, %xmm2\n"
             "movsd 80(%rsi), %xmm3\n unpcklpd %xmm3, %xmm3\n")
PIECE(widen, ".irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n vinsertf128 $1, %xmm\\r, %ymm\\r, %ymm\\r\n .endr\n")
/* The upper halves again, a mask of all elements, and an index of zeros. */
PIECE(widest, ".irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n vinsertf64x4 $1, %ymm\\r, %zmm\\r, %zmm\\r\n .endr\n"
              "kxnorw %k1, %k1, %k1\n kxnorw %k2, %k2, %k2\n vpxord %zmm16, %zmm16, %zmm16\n")
PIECE(turn, "decq (%rsp)\n .byte 0x0f, 0x85\n") /* jne, whose distance follows */
PIECE(narrow, "vzeroupper\n")
PIECE(leave, "pop %rsi\n pop %rsi\n mov %rax, (%rsi)\n mov %rdi, 40(%rsi)\n mov %rbp, 48(%rsi)\n"
             "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n")

int cv_code_open(struct cv_code *code, size_t room)
{
    code->room = room;
    code->used = 0;
    code->base = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return code->base == MAP_FAILED ? -1 : 0;
}

void cv_code_close(struct cv_code *code) { munmap(code->base, code->room); }

int cv_code_put(struct cv_code *code, struct cv_piece piece, unsigned copies)
{
    const size_t length = (size_t)(piece.end - piece.begin);
    if (code->used + copies * length > code->room)
        return -1;
    for (; copies; copies--, code->used += length)
        memcpy(code->base + code->used, piece.begin, length);
    return 0;
}

static size_t cv_length(struct cv_piece piece) { return (size_t)(piece.end - piece.begin); }

/* Room for the entrance is left before the pieces: which halves of registers are filled is known at the end. */
static size_t cv_first_turn(void) { return (cv_length(cv_enter) + cv_length(cv_widen) + cv_length(cv_widest) + 63) / 64 * 64; }

int cv_code_begin(struct cv_code *code)
{
    if (mprotect(code->base, code->room, PROT_READ | PROT_WRITE))
        return -1;
    code->used = cv_first_turn();
    return 0;
}

int cv_code_seal(struct cv_code *code, int wide)
{
    const size_t first = cv_first_turn();
    int failed = cv_code_put(code, cv_turn, 1);
    const int32_t back = (int32_t)((int64_t)first - (int64_t)(code->used + 4));
    failed |= cv_code_put(code, (struct cv_piece){(const unsigned char *)&back, (const unsigned char *)(&back + 1)}, 1);
    if (wide)
        failed |= cv_code_put(code, cv_narrow, 1);
    failed |= cv_code_put(code, cv_leave, 1);
    const size_t end = code->used;
    memset(code->base, 0x90, first);
    code->used = 0;
    cv_code_put(code, cv_enter, 1);
    if (wide)
        cv_code_put(code, cv_widen, 1);
    if (wide == CV_WIDEST)
        cv_code_put(code, cv_widest, 1);
    code->used = end;
    return failed || mprotect(code->base, code->room, PROT_READ | PROT_EXEC) ? -1 : 0;
}

void cv_code_run(const struct cv_code *code, struct cv_registers *registers, uint64_t turns)
{
    void (*run)(struct cv_registers *, uint64_t);
    memcpy(&run, &code->base, sizeof run);
    run(registers, turns);
}
