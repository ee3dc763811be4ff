/* Ground truth by single steps: how often each address of a program is executed; a repeated string instruction once.
 *
 * single_step TABLE LIMIT COMMAND...: counts up to the last system call within LIMIT steps, or to one that starts a thread or another
 * program. The first line of TABLE is the number of that call, 0 where the program came to its end. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROOM (1u << 20)

static struct entry {
    uint64_t address, count;
    int repeats, calls;
} table[ROOM];

static struct entry entry_of(pid_t process, uint64_t address)
{
    const long word = ptrace(PTRACE_PEEKTEXT, process, (void *)address, 0);
    const unsigned char *b = (const unsigned char *)&word;
    int at = 0, repeat = 0;
    for (; at < 6 && (b[at] == 0xf2 || b[at] == 0xf3 || b[at] == 0x66 || b[at] == 0x67); at++)
        repeat |= b[at] >= 0xf2;
    at += (b[at] & 0xf0) == 0x40;
    const int strings = (b[at] >= 0xa4 && b[at] <= 0xa7) || (b[at] >= 0xaa && b[at] <= 0xaf);
    return (struct entry){address, 0, repeat && strings, b[0] == 0x0f && b[1] == 0x05};
}

static struct entry *find(pid_t process, uint64_t address)
{
    uint64_t h = (address ^ address >> 19) & (ROOM - 1);
    while (table[h].address && table[h].address != address)
        h = (h + 1) & (ROOM - 1);
    if (!table[h].address)
        table[h] = entry_of(process, address);
    return &table[h];
}

static int starts_another(const struct user_regs_struct *r)
{
    const int shares = r->rax == SYS_clone && r->rdi & 0x100;
    return shares || r->rax == SYS_clone3 || r->rax == SYS_vfork || r->rax == SYS_execve || r->rax == SYS_execveat;
}

int main(int count, char **arguments)
{
    int status, signal = 0, ended = 0;
    (void)count;
    uint64_t limit = strtoull(arguments[2], NULL, 10), last = 0, calls = 0, steps = 0, n_since = 0;
    struct entry **since = calloc(limit, sizeof *since); /* what was counted since the last system call */
    pid_t process = fork();
    if (!process) {
        prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execvp(arguments[3], arguments + 3);
        _exit(127);
    }
    waitpid(process, &status, 0);
    struct user_regs_struct r;
    while (WIFSTOPPED(status) && !ptrace(PTRACE_GETREGS, process, 0, &r)) {
        struct entry *e = find(process, r.rip);
        if (!signal && !(e->repeats && last == r.rip)) {
            e->count++;
            since[n_since++] = e;
        }
        last = r.rip;
        if (!signal && e->calls) {
            calls++;
            n_since = 0;
            ended = starts_another(&r);
        }
        ended |= ++steps == limit;
        if (ended || ptrace(PTRACE_SINGLESTEP, process, 0, signal) || waitpid(process, &status, 0) != process)
            break;
        signal = WIFSTOPPED(status) && WSTOPSIG(status) != SIGTRAP ? WSTOPSIG(status) : 0;
    }
    while (ended && n_since)
        since[--n_since]->count--;
    if (WIFSTOPPED(status))
        kill(process, SIGKILL);
    FILE *out = fopen(arguments[1], "w");
    fprintf(out, "%lu\n", (unsigned long)(ended ? calls : 0));
    for (uint32_t i = 0; i < ROOM; i++)
        if (table[i].count)
            fprintf(out, "%lx %lu\n", (unsigned long)table[i].address, (unsigned long)table[i].count);
    fclose(out);
    return 0;
}
