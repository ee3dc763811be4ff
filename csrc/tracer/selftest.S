/* SPDX-License-Identifier: GPL-2.0-or-later
 * The program that build_tracer.py tries a new tool on: scalar SSE in all the ways that the XMM peephole rewrites, and FMA where the
 * processor has it. Its exit status is a checksum of the results, so a wrong one shows. It executes 1 + 1000 + 2 segments: the entry,
 * the turns of the loop, the test for FMA, and what follows it, with FMA or without. */
        .section .note.GNU-stack, "", @progbits
        .data
        .balign 32
values: .double 1.25, -2.5, 3.75, 0.625
sums:   .double 0, 0, 0, 0
singles:.float 1.5, 2.5, -3.5, 4.5

        .text
        .globl _start
_start: mov     $1, %eax
        xor     %ecx, %ecx
        cpuid                           /* a helper call in the middle of the block */
        mov     %ecx, %r8d
        shr     $12, %r8d
        and     $1, %r8d                /* 1: FMA */
        mov     $1000, %r12d
        lea     values(%rip), %rsi
        lea     sums(%rip), %rdi
        lea     singles(%rip), %rdx
        pxor    %xmm4, %xmm4
        jmp     loop
        .balign 16
loop:   prefetcht0 64(%rsi,%r12,8)      /* anywhere */
        movsd   (%rsi), %xmm0           /* low half, zero above */
        addsd   8(%rsi), %xmm0
        movhpd  16(%rsi), %xmm0         /* high half */
        movupd  (%rdi), %xmm5           /* unaligned: no check, so no exit in the middle of the block */
        addpd   %xmm5, %xmm0
        movupd  %xmm0, (%rdi)
        movlpd  24(%rsi), %xmm0         /* low half, rest stays */
        movsd   %xmm0, %xmm4            /* register to register: rest stays */
        movss   4(%rdx), %xmm1
        mulss   8(%rdx), %xmm1
        cvtss2sd %xmm1, %xmm2
        addsd   %xmm4, %xmm2
        addsd   16(%rdi), %xmm2
        movsd   %xmm2, 16(%rdi)
        sqrtsd  %xmm2, %xmm3
        unpcklpd %xmm3, %xmm4
        dec     %r12d
        jnz     loop
        test    %r8d, %r8d
        jz      sum
        vmovupd values(%rip), %ymm5
        vmovupd sums(%rip), %ymm6
        vfmadd231pd values(%rip), %ymm5, %ymm6
        vfmadd213sd 8(%rsi), %xmm6, %xmm5
        vmovupd %ymm6, sums(%rip)
        vaddsd  %xmm5, %xmm4, %xmm4
        vzeroupper
sum:    mov     sums(%rip), %rax
        xor     sums+8(%rip), %rax
        xor     sums+16(%rip), %rax
        xor     sums+24(%rip), %rax
        movq    %xmm4, %rbx
        xor     %rbx, %rax
        movhlps %xmm4, %xmm4
        movq    %xmm4, %rbx
        xor     %rbx, %rax
        mov     $0x9E3779B97F4A7C15, %rcx
        imul    %rcx, %rax
        shr     $57, %rax
        mov     %eax, %edi
        mov     $60, %eax
        syscall
