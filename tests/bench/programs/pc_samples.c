/* Where is a program's time? Usage: pc_samples OUT COMMAND ARGUMENTS
 *
 * Interrupts the command's first thread every 0.3 to 0.9 ms and writes a line for each sample: the processor seconds since the one
 * before, the offset of the program counter in its file, and the file's path. Faults and system calls count where they were made; a
 * thread that waits gets samples of 0 s. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_MAPPINGS 4096
#define LEAST_MICROSECONDS 300
#define MORE_MICROSECONDS 600 /* so that no loop of the program is in step */

struct mapping {
    unsigned long begin, end, offset;
    char path[4096];
};

static struct mapping mappings[MOST_MAPPINGS];
static size_t count;

static void read_mappings(pid_t process)
{
    char name[64], line[4352];
    snprintf(name, sizeof name, "/proc/%d/maps", process);
    FILE *const file = fopen(name, "r");
    count = 0;
    while (file && count < MOST_MAPPINGS && fgets(line, sizeof line, file)) {
        struct mapping *const m = &mappings[count];
        char access[8];
        m->path[0] = 0;
        if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %4095s", &m->begin, &m->end, access, &m->offset, m->path) >= 4 && access[2] == 'x')
            count++;
    }
    if (file)
        fclose(file);
}

static const struct mapping *mapping_of(unsigned long address)
{
    for (size_t i = 0; i < count; i++)
        if (address >= mappings[i].begin && address < mappings[i].end)
            return &mappings[i];
    return NULL;
}

static double processor_seconds(clockid_t clock)
{
    struct timespec now = {0, 0};
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void sample(pid_t process, clockid_t clock, double *before, FILE *out)
{
    struct user_regs_struct registers;
    const double now = processor_seconds(clock);
    if (ptrace(PTRACE_GETREGS, process, NULL, &registers))
        return;
    if (!mapping_of(registers.rip))
        read_mappings(process);
    const struct mapping *const m = mapping_of(registers.rip);
    if (m)
        fprintf(out, "%.9f %llx %s\n", now - *before, registers.rip - m->begin + m->offset, m->path);
    *before = now;
}

/* Starts the command once `go` is closed. */
static pid_t start(char **command, int *go)
{
    int ends[2];
    if (pipe(ends))
        return -1;
    const pid_t process = fork();
    *go = ends[1];
    if (process) {
        close(ends[0]);
        return process;
    }
    char none;
    close(ends[1]);
    if (read(ends[0], &none, 1) || close(ends[0]))
        _exit(126);
    execvp(command[0], command);
    _exit(127);
}

int main(int arguments, char **argument)
{
    int status = 0;
    FILE *const out = arguments > 2 ? fopen(argument[1], "w") : NULL;
    if (!out)
        return 2;
    int go;
    const pid_t process = start(argument + 2, &go);
    clockid_t clock;
    if (process < 0 || ptrace(PTRACE_SEIZE, process, NULL, (void *)PTRACE_O_EXITKILL) || clock_getcpuclockid(process, &clock))
        return 1;
    close(go);
    double before = 0;
    for (;;) {
        usleep(LEAST_MICROSECONDS + (unsigned)(rand() % MORE_MICROSECONDS));
        ptrace(PTRACE_INTERRUPT, process, NULL, NULL);
        if (waitpid(process, &status, 0) < 0 || WIFEXITED(status) || WIFSIGNALED(status))
            break;
        const int stopped = status >> 16 == PTRACE_EVENT_STOP;
        if (stopped)
            sample(process, clock, &before, out);
        const long signal = stopped || WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
        ptrace(PTRACE_CONT, process, NULL, (void *)signal);
    }
    fclose(out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
