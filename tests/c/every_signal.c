/* Signals of every kind, threads, forks and jumps out of handlers; says what it saw, which is the same under any engine. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

extern char etext[], __executable_start[];
static volatile long ticks, faults, foreign;
static sigjmp_buf back;
static char *volatile page;

static unsigned long address_of(void *context) { return (unsigned long)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP]; }

static void on_tick(int number, siginfo_t *info, void *context)
{
    char text[64];
    (void)number, (void)info;
    ticks++;
    foreign += address_of(context) >> 40 == 0x20; /* the engine's addresses must not show */
    snprintf(text, sizeof text, "%f", 1.5 * (double)ticks);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)number;
    const unsigned long at = address_of(context);
    faults++;
    foreign += at < (unsigned long)__executable_start || at >= (unsigned long)etext;
    if (info->si_addr == (void *)page)
        mprotect(page, 4096, PROT_READ | PROT_WRITE);
    else
        siglongjmp(back, 1);
}

static void on_division(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    faults++;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 3; /* after the idiv */
}

static void handle(int number, void (*with)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = {.sa_sigaction = with, .sa_flags = SA_SIGINFO | flags};
    sigaction(number, &action, NULL);
}

static void *work(void *number)
{
    long sum = 0;
    for (long k = 0; k < 3000000; k++)
        sum += k ^ (long)number;
    return (void *)sum;
}

int main(void)
{
    const stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    const struct itimerval often = {{0, 1000}, {0, 1000}};
    sigaltstack(&stack, NULL);
    handle(SIGALRM, on_tick, SA_RESTART);
    handle(SIGSEGV, on_fault, SA_ONSTACK);
    handle(SIGFPE, on_division, 0);
    setitimer(ITIMER_REAL, &often, NULL);
    double sum = 0;
    for (long i = 0; i < 20000000; i++)
        sum += 1.0 / (double)(i + 1);
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[0] = 7;
    for (int k = 0; k < 100; k++)
        if (!sigsetjmp(back, 1))
            *(volatile int *)8 = 1;
    long quotient = 7;
    __asm__ volatile("cqto; idivq %1" : "+a"(quotient) : "r"(0L) : "rdx");
    pthread_t threads[8];
    long all = 0;
    for (long k = 0; k < 8; k++)
        pthread_create(&threads[k], NULL, work, (void *)k);
    for (int k = 0; k < 8; k++) {
        void *one;
        pthread_join(threads[k], &one);
        all += (long)one;
    }
    int wrong = 0;
    for (int k = 0; k < 30; k++) {
        int status;
        const pid_t child = fork();
        if (!child)
            _exit(k);
        while (waitpid(child, &status, 0) < 0)
            ;
        wrong += WEXITSTATUS(status) != k;
    }
    wrong += system("exit 5") != 5 * 256;
    printf("%.12g %ld page %d faults %ld foreign %ld ticks %d wrong %d\n", sum, all, page[0], faults, foreign, ticks > 5, wrong);
    return 0;
}
