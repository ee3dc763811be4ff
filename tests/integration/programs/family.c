/* Forks children that each run `work` number times two and exit with their number; then waits, and execs argv[1] where it is given. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define N 1000

long values[N];

__attribute__((noinline)) void work(void)
{
    for (int i = 0; i < N; i++)
        values[i] += i;
}

int main(int argc, char **argv)
{
    work();
    for (int child = 1; child <= 2; child++)
        if (fork() == 0) {
            for (int i = 0; i < 2 * child; i++)
                work();
            exit(child);
        }
    int status, sum = 0;
    while (wait(&status) > 0)
        sum += WEXITSTATUS(status);
    work();
    if (argc > 1)
        execv(argv[1], argv + 1);
    return sum;
}
