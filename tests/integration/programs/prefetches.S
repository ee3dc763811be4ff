/* Prefetches with operands of every form, some of what is not there, between changes of their registers. */
        .section .note.GNU-stack, "", @progbits
        .bss
        .balign 64
        .globl  room
room:   .skip   65536

        .text
        .globl  _start
_start: lea     room(%rip), %rbx
        mov     %rbx, %r12
        mov     %rbx, %r13
        mov     $3, %ecx
        mov     $5, %r9d
        mov     $50, %ebp
turn:   prefetcht0  (%rbx)
        prefetcht1  64(%rbx)
        add     $8, %rbx
        prefetcht2  4096(%rbx)
        prefetchnta (%rbx, %rcx, 8)
        prefetchw   -4(%r12, %r9, 4)
        prefetcht0  (%r12)
        prefetcht0  (%r13)
        prefetcht0  room+128(%rip)
        prefetcht0  room+256
        prefetcht0  room(, %rcx, 4)
        prefetcht0  (%r13, %rbp)
        prefetcht0  -1
        dec     %ebp
        jnz     turn
        mov     $60, %eax
        xor     %edi, %edi
        syscall
