/* Ground truth by single steps: how often each address of a program is executed; a repeated string instruction once. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROOM (1u << 20)

static struct entry {
    uint64_t address, count;
    int repeats;
} table[ROOM];

static int is_repeated(pid_t process, uint64_t address)
{
    long word = ptrace(PTRACE_PEEKTEXT, process, (void *)address, 0);
    const unsigned char *b = (const unsigned char *)&word;
    int at = 0, repeat = 0;
    for (; at < 6 && (b[at] == 0xf2 || b[at] == 0xf3 || b[at] == 0x66 || b[at] == 0x67); at++)
        repeat |= b[at] >= 0xf2;
    at += (b[at] & 0xf0) == 0x40;
    return repeat && ((b[at] >= 0xa4 && b[at] <= 0xa7) || (b[at] >= 0xaa && b[at] <= 0xaf));
}

int main(int count, char **arguments)
{
    int status;
    (void)count;
    uint64_t limit = strtoull(arguments[2], NULL, 10), steps = 0, last = 0;
    pid_t process = fork();
    if (!process) {
        prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execvp(arguments[3], arguments + 3);
        _exit(127);
    }
    waitpid(process, &status, 0);
    struct user_regs_struct r;
    int signal = 0;
    while (steps < limit && WIFSTOPPED(status)) {
        if (ptrace(PTRACE_GETREGS, process, 0, &r))
            break;
        uint64_t h = (r.rip ^ r.rip >> 19) & (ROOM - 1);
        while (table[h].address && table[h].address != r.rip)
            h = (h + 1) & (ROOM - 1);
        if (!table[h].address)
            table[h] = (struct entry){r.rip, 0, is_repeated(process, r.rip)};
        if (!signal && !(table[h].repeats && last == r.rip))
            table[h].count++;
        last = r.rip;
        steps++;
        if (ptrace(PTRACE_SINGLESTEP, process, 0, signal))
            break;
        signal = 0;
        if (waitpid(process, &status, 0) != process)
            break;
        if (WIFSTOPPED(status) && WSTOPSIG(status) != SIGTRAP)
            signal = WSTOPSIG(status);
    }
    if (WIFSTOPPED(status))
        kill(process, SIGKILL);
    FILE *out = fopen(arguments[1], "w");
    for (uint32_t i = 0; i < ROOM; i++)
        if (table[i].count)
            fprintf(out, "%lx %lu\n", (unsigned long)table[i].address, (unsigned long)table[i].count);
    fclose(out);
    return WIFSTOPPED(status) ? 3 : WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}
