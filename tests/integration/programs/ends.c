/* Ends in the way that its argument names, after some work. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long work[512];
static sigjmp_buf back;

__attribute__((noinline)) static void do_work(int rounds)
{
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < 512; i++)
            work[i] += r;
}

static void jump_back(int signal) { siglongjmp(back, signal); }

static int fork_child(void)
{
    pid_t child = fork();
    int status;
    if (child == 0) {
        do_work(1000);
        _exit(5);
    }
    waitpid(child, &status, 0);
    do_work(10);
    return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "exit";
    do_work(10);
    if (!strcmp(way, "segv"))
        *(volatile int *)0 = 1;
    if (!strcmp(way, "abort"))
        abort();
    if (!strcmp(way, "fork"))
        return fork_child();
    if (!strcmp(way, "exec"))
        execl("/bin/echo", "echo", "hello", (char *)NULL);
    if (!strcmp(way, "badexec")) {
        execl("/nonexistent", "nonexistent", (char *)NULL);
        do_work(10);
        return 9;
    }
    if (!strcmp(way, "handler")) {
        signal(SIGSEGV, jump_back);
        for (int i = 0; i < 5; i++)
            if (sigsetjmp(back, 1) == 0)
                *(volatile int *)0 = 1;
        do_work(10);
        return 3;
    }
    if (!strcmp(way, "forever")) {
        puts("started");
        fflush(stdout);
        for (;;)
            do_work(1000);
    }
    return 7;
}
