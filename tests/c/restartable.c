/* Restartable sequences (rseq) that wait for a signal, which aborts them: none is ever committed. Prints how many were. The sequence may
 * lie in a library (LIBRARY), which is the last argument, and its description anywhere (SECTION). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#define TEXT(x) #x
#define VALUE(x) TEXT(x)
#ifndef SECTION
#define SECTION __rseq_cs
#endif
#ifndef SIGNATURE
#define SIGNATURE 0x53053053
#endif
#ifndef TIMES
#define TIMES 100
#endif

/* It clears the flag itself: a signal that came before it began does not end its wait. */
typedef int sequence_function(char *area, volatile sig_atomic_t *flag);
sequence_function sequence;

#ifndef CALLER
__asm__(".pushsection " VALUE(
    SECTION) ", \"aw\"\n.balign 32\ndescription: .long 0, 0\n.quad 1f, 2f - 1f, 3f\n.popsection\n"
             ".globl sequence\n.type sequence, @function\nsequence: lea description(%rip), %rax\nmov %rax, 8(%rdi)\n"
             "1: movl $0, (%rsi)\n4: cmpl $0, (%rsi)\nje 4b\nmov $1, %eax\n2: ret\n"
             ".byte 0x0f, 0xb9, 0x3d\n.long " VALUE(SIGNATURE) "\n3: xor %eax, %eax\nret\n.size sequence, .-sequence\n");
#endif

#ifndef LIBRARY
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));
static char own[32] __attribute__((aligned(32)));
static volatile sig_atomic_t came, stopped;

static void on(int number)
{
    came = 1;
    stopped |= number == SIGTERM;
}

int main(int count, char **arguments)
{
    const struct itimerval often = {{0, 1000}, {0, 1000}};
    const int by_libc = &__rseq_size && __rseq_size;
    char *area = by_libc ? (char *)__builtin_thread_pointer() + __rseq_offset : own;
    int committed = 0;
#ifdef CALLER
    sequence_function *wait_for = (sequence_function *)dlsym(dlopen(arguments[count - 1], RTLD_NOW), "sequence");
#else
    sequence_function *const wait_for = sequence;
    (void)count, (void)arguments;
#endif
    if (!by_libc && syscall(334, own, sizeof own, 0, SIGNATURE))
        return 77; /* the kernel has none */
    signal(SIGALRM, on);
    signal(SIGTERM, on);
    setitimer(ITIMER_REAL, &often, 0);
    if (write(1, "begun, ", 7) != 7)
        return 1;
    for (int i = 0; i < TIMES && !stopped; i++)
        committed += wait_for(area, &came);
    printf("%d committed\n", committed);
    return 0;
}
#endif
