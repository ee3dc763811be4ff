/* Queued real-time signals (`queued PROCESS NUMBER` sends them, with values from 0 on). The program without arguments says which came
 * out of their order, and how many came in all, once the last one has come (its value is -1); it computes or sleeps (SLEEPS) meanwhile.
 * Then it says what is left of a tracer: the gs segment, and a mask of signals. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile sig_atomic_t came, ended;
static volatile long wrong, others;

static void on(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    const int value = info->si_value.sival_int;
    if (value < 0) {
        ended = 1;
        return;
    }
    wrong += value != came || info->si_code != SI_QUEUE;
    came++;
}

static void queue(pid_t process, int value)
{
    while (sigqueue(process, SIGRTMIN, (union sigval){.sival_int = value}) && errno == EAGAIN)
        usleep(100);
}

int main(int count, char **arguments)
{
    if (count > 2) {
        const pid_t process = atoi(arguments[1]);
        const int number = atoi(arguments[2]);
        for (int i = 0; i < number; i++) {
            queue(process, i);
            if (i % 8 == 7)
                usleep(50);
        }
        queue(process, -1);
        return 0;
    }
    struct sigaction action = {.sa_sigaction = on, .sa_flags = SA_SIGINFO};
    unsigned long gs = 1, mask = 1;
    sigaction(SIGRTMIN, &action, NULL);
    if (write(1, "begun, ", 7) != 7)
        return 1;
    while (!ended) {
#ifdef SLEEPS
        usleep(1000000);
#else
        others++;
#endif
    }
    syscall(SYS_arch_prctl, 0x1004, &gs); /* ARCH_GET_GS */
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, 8);
    printf("%ld of %d wrong, gs %lx, mask %lx\n", wrong, came, gs, mask);
    return 0;
}
