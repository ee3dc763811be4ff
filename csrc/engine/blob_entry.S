/* The ways between the program and the engine. Emitted code jumps here with all of the program's registers as they are; gs:0 is the
 * thread's slot (blob_shared.h has the offsets). */
#define TARGET 32
#define JUMP 40
#define SP 48
#define FLAG 80
#define NEXT 96
#define CHILD 104
#define WORDS 128
#define LEAVE_MASK 160
#define LEAVING 168
#define OUTSIDE_TARGET 176
#define STACK_TOP 0x20000
.intel_syntax noprefix
.section .text.first,"ax"
.globl cv_table
cv_table:
    .quad enter_dispatch, enter_call, enter_poll, enter_burst_end, enter_resume, enter_request, enter_mark, enter_returned

.macro SAVE
    pushfq
    cld
    push rax
    push rcx
    push rdx
    push rbx
    push rbp
    push rsi
    push rdi
    push r8
    push r9
    push r10
    push r11
    push r12
    push r13
    push r14
    push r15
.endm
.macro RESTORE
    pop r15
    pop r14
    pop r13
    pop r12
    pop r11
    pop r10
    pop r9
    pop r8
    pop rdi
    pop rsi
    pop rbp
    pop rbx
    pop rdx
    pop rcx
    pop rax
    popfq
.endm
/* Calls function(slot, registers) on the engine's stack and goes on where it says. */
.macro SWITCH function
    mov gs:[SP], rsp
    mov rsp, gs:[0]
    lea rsp, [rsp + STACK_TOP]
    SAVE
    mov rdi, gs:[0]
    mov rsi, rsp
    call \function
    mov gs:[JUMP], rax
    RESTORE
    mov rsp, gs:[SP]
    jmp qword ptr gs:[JUMP]
.endm
enter_dispatch: SWITCH cv_dispatch
enter_poll: SWITCH cv_poll
enter_burst_end: SWITCH cv_burst_end
.globl enter_resume
enter_resume: SWITCH cv_resume
enter_request: SWITCH cv_request
enter_mark: SWITCH cv_mark
enter_returned: SWITCH cv_returned
enter_call: SWITCH cv_before_call /* goes on at one of the following */
enter_after_call: SWITCH cv_after_call
enter_called: SWITCH cv_called
enter_interrupted: SWITCH cv_interrupted
enter_outside_asked: SWITCH cv_outside_asked

/* An indirect branch whose target the table does not have, or has another one for. */
.globl cv_lookup_miss
cv_lookup_miss:
    mov rcx, gs:[16]
    jmp enter_dispatch

/* A system call: a signal that came before it must be delivered before it, or the call might wait for ever. Between the test and the
 * system call itself the signal handler knows that nothing has happened yet (cv_call_begin, cv_call_end). */
.globl cv_plain_call, cv_watched_call, cv_done_call, cv_fork_call, cv_thread_call, cv_call_begin, cv_call_end, cv_watched_begin, cv_watched_end
cv_plain_call:
cv_call_begin:
    mov rcx, gs:[FLAG]
    jrcxz 1f
    jmp enter_interrupted
1:
cv_call_end:
    syscall
cv_done_call: /* a signal that interrupted the call, or that it let through, comes before the program goes on */
    mov rcx, gs:[FLAG]
    jrcxz 1f
    jmp enter_called
1:  mov rcx, gs:[TARGET]
    jmp qword ptr gs:[NEXT]
cv_watched_call:
cv_watched_begin:
    mov rcx, gs:[FLAG]
    jrcxz 1f
    jmp enter_interrupted
1:
cv_watched_end:
    syscall
    jmp enter_after_call

/* To native code with the program's signal mask, on the program's stack: a handler that runs now finds it as it should be. The program has
 * no gs segment; without it, the way on is a frame on the engine's stack. */
.globl cv_leave
cv_leave:
    mov gs:[8], rax
    mov gs:[16], rcx
    mov gs:[24], rdx
    mov gs:[WORDS], rdi
    mov gs:[WORDS + 8], rsi
    mov gs:[WORDS + 16], r10
    mov gs:[WORDS + 24], r11
    mov eax, 14 /* rt_sigprocmask */
    mov edi, 2
    mov rsi, gs:[0]
    lea rsi, [rsi + LEAVE_MASK]
    mov edx, 0
    mov r10d, 8
    syscall
    mov rax, gs:[8]
    mov rcx, gs:[16]
    mov rdx, gs:[24]
    mov rdi, gs:[WORDS]
    mov rsi, gs:[WORDS + 8]
    mov r10, gs:[WORDS + 16]
    mov r11, gs:[WORDS + 24]
    mov gs:[16], rcx
    mov gs:[SP], rsp
    mov rsp, gs:[0]
    lea rsp, [rsp + STACK_TOP]
    mov ecx, ss
    push rcx
    push qword ptr gs:[SP]
    pushfq
    mov ecx, cs
    push rcx
    push qword ptr gs:[OUTSIDE_TARGET]
    push qword ptr gs:[16]
    mov qword ptr gs:[LEAVING], 0
    mov ecx, 0
    wrgsbase rcx
    pop rcx
    iretq

/* To code that the program made itself. What was asked of the thread comes first; the signal handler begins anew here. */
.globl cv_enter_outside, cv_outside_begin, cv_outside_end
cv_enter_outside:
    mov gs:[16], rcx
cv_outside_begin:
    mov rcx, gs:[FLAG]
    jrcxz 1f
    mov rcx, gs:[16]
    jmp enter_outside_asked
1:  mov rcx, gs:[16]
cv_outside_end:
    jmp qword ptr gs:[OUTSIDE_TARGET]

/* All signals are blocked here. The child goes on natively. */
cv_fork_call:
    syscall
    mov rcx, rax
    jrcxz 1f
    jmp enter_after_call
1:  lea rsp, [rsp - 128]
    SAVE
    cld
    mov rdi, gs:[0]
    mov rbx, rsp
    and rsp, -16
    call cv_child
    mov rsp, rbx
    mov [rsp + 13 * 8], rax /* rcx, which a system call sets to the next address */
    RESTORE
    lea rsp, [rsp + 128]
    jmp rcx
/* Its parent waits in cv_after_call until it has its own slot. */
cv_thread_call:
    syscall
    mov rcx, rax
    jrcxz 1f
    jmp enter_after_call
1:  mov rcx, gs:[CHILD]
    wrgsbase rcx
    SWITCH cv_thread_start

/* Signals arrive here, on the slot's own stack, all others blocked. */
.globl cv_signal_entry, cv_signal_return
cv_signal_entry:
    cld
    sub rsp, 8
    call cv_on_signal
    add rsp, 8
    ret
cv_signal_return:
    mov eax, 15
    syscall

/* void cv_save_vectors(void *area, uint64_t features); void cv_load_vectors(const void *area, uint64_t features) */
.globl cv_save_vectors, cv_load_vectors
cv_save_vectors:
    mov rax, rsi
    mov rdx, rsi
    shr rdx, 32
    xsave64 [rdi]
    ret
cv_load_vectors:
    mov rax, rsi
    mov rdx, rsi
    shr rdx, 32
    xrstor64 [rdi]
    ret

.section .note.GNU-stack,"",@progbits
