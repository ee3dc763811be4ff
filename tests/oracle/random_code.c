/* Runs the functions of random_code.py, each with random registers, and writes what they left: registers, flags, vectors, memory. */
#include <stdint.h>
#include <string.h>
#include <unistd.h>

extern void (*const functions[])(void);
uint64_t memory[144], calls;
static uint64_t state = 88172645463325252u;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> (state & 7 ? 0 : 40);
}

void run(void (*function)(void));
__asm__(
    ".intel_syntax noprefix\n"
    ".text\nrun: push rbx; push rbp; push r12; push r13; push r14; push r15; push rdi\n"
#ifdef WIDE
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
    "vpxorq zmm\\n, zmm\\n, zmm\\n\n.endr\n"
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\nvmovdqu64 zmm\\n, [in_vectors + 64 * \\n]\n.endr\n"
    ".irp n,1,2,3,4,5,6,7\nkmovq k\\n, [in_vectors + 64 * \\n]\n.endr\n"
#else
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\nmovdqu xmm\\n, [in_vectors + 16 * \\n]\n.endr\n"
#endif
    "mov [saved_stack], rsp\n"
    "push qword ptr [in_registers + 120]; popfq\n"
    ".set at, 0\n.irp r,rax,rbx,rcx,rdx,rsi,rdi,rbp,r8,r9,r10,r11,r12,r13,r14,r15\nmov \\r, [in_registers + at]\n.set at, at + 8\n.endr\n"
    "call qword ptr [rsp]\n"
    ".set at, 0\n.irp r,rax,rbx,rcx,rdx,rsi,rdi,rbp,r8,r9,r10,r11,r12,r13,r14,r15\nmov [out_registers + at], \\r\n.set at, at + 8\n.endr\n"
    "pushfq; pop qword ptr [out_registers + 120]; cld\n"
    "sub rsp, [saved_stack]; mov [out_registers + 128], rsp; mov rsp, [saved_stack]\n"
#ifdef WIDE
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\nvmovdqu64 [out_vectors + 64 * \\n], zmm\\n\n.endr\n"
    ".irp n,1,2,3,4,5,6,7\nkmovq [out_vectors + 1024 + 8 * \\n], k\\n\n.endr\n"
#else
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\nmovdqu [out_vectors + 16 * \\n], xmm\\n\n.endr\n"
#endif
    "pop rdi; pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx; ret\n"
    ".att_syntax\n");
uint64_t in_registers[17], out_registers[17], in_vectors[128], out_vectors[136], saved_stack;

int main(void)
{
    for (int turn = 0; turn < 3; turn++)
        for (int f = 0; functions[f]; f++) {
            for (int i = 0; i < 14; i++)
                in_registers[i] = draw();
            in_registers[13] = draw() & 15;
            in_registers[14] = (uint64_t)memory;
            in_registers[15] = 0x202 | (draw() & 0x8d5);
            for (int i = 0; i < 128; i++)
                in_vectors[i] = draw();
            for (int i = 0; i < 144; i++)
                memory[i] = draw();
            calls = 0;
            run(functions[f]);
            if (write(1, out_registers, sizeof out_registers) < 0 || write(1, out_vectors, sizeof out_vectors) < 0 ||
                write(1, memory, sizeof memory) < 0)
                return 1;
        }
    return 0;
}
