/* A bundle runs each task of its plan in a process of its own, as the caller of the plain probe does, and prints what they print,
 * each after a line that says which it is; before, what the system says of the machine.
 *
 * The plan is text: lines "plan NAME", "file PATH", "task NAME LARGEST OPTION ..." followed by the task's input up to a line ".".
 * Lines of the input whose working set is beyond a quarter of the memory, all threads' beyond half of it, are left out, as are kernels
 * that this CPU cannot run and threads without a CPU. %c is the CPU, %n the number of CPUs, %b the largest working set. */
#define _GNU_SOURCE
#include "bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "probe.h"

#define MARK "CVBUNDLE"
#define MOST_WORDS 32

char *cv_bundled_plan(const char *argument)
{
    struct {
        char mark[8];
        uint64_t length;
    } end;
    char *plan = NULL;
    FILE *file = fopen("/proc/self/exe", "rb");
    if (!file && !(file = fopen(argument, "rb")))
        return NULL;
    if (!fseek(file, -(long)sizeof end, SEEK_END) && fread(&end, sizeof end, 1, file) == 1 && !memcmp(end.mark, MARK, 8) &&
        end.length < (1 << 24) && !fseek(file, -(long)(sizeof end + end.length), SEEK_END) && (plan = calloc(1, end.length + 1)) &&
        fread(plan, 1, end.length, file) != end.length) {
        free(plan);
        plan = NULL;
    }
    fclose(file);
    return plan;
}

static void cv_put_text(const char *text, size_t length)
{
    putchar('"');
    for (size_t i = 0; i < length; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 32 || c > 126)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void cv_put_file(const char *path, const char *text, size_t length)
{
    fputs("{\"file\": ", stdout);
    cv_put_text(path, strlen(path));
    fputs(", \"text\": ", stdout);
    cv_put_text(text, length);
    puts("}");
}

static int cv_copy_file(const char *path)
{
    static char text[1 << 16];
    FILE *const file = fopen(path, "rb");
    if (!file)
        return -1;
    const size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    cv_put_file(path, text, length);
    return 0;
}

/* The part of /proc/cpuinfo about one CPU. */
static void cv_copy_cpuinfo(int cpu)
{
    static char text[1 << 16];
    char line[8192];
    size_t length = 0;
    int wanted = 0, number;
    FILE *const file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "processor : %d", &number) == 1)
            wanted = number == cpu;
        if (wanted && length + strlen(line) < sizeof text)
            length += (size_t)sprintf(text + length, "%s", line);
    }
    if (file)
        fclose(file);
    cv_put_file("/proc/cpuinfo", text, length);
}

/* The caches as the CPU itself tells them, in the form of the kernel's files: for where /sys is missing. */
static void cv_caches_of_cpuid(int cpu)
{
#ifdef __x86_64__
    unsigned eax, ebx, ecx, edx;
    __cpuid(0, eax, ebx, ecx, edx);
    const unsigned leaf = ecx == signature_AMD_ecx ? 0x8000001du : 4u;
    for (unsigned index = 0; index < 8; index++) {
        if (!__get_cpuid_count(leaf, index, &eax, &ebx, &ecx, &edx) || !(eax & 31))
            return;
        const unsigned ways = (ebx >> 22) + 1, line = (ebx & 4095) + 1, parts = (ebx >> 12 & 1023) + 1;
        const char *const kinds[] = {"", "Data", "Instruction", "Unified"};
        const struct {
            const char *name;
            unsigned long value;
        } facts[] = {{"level", eax >> 5 & 7}, {"ways_of_associativity", ways}, {"coherency_line_size", line}};
        char path[128], text[32];
        for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
            sprintf(path, "/sys/devices/system/cpu/cpu%d/cache/index%u/%s", cpu, index, facts[i].name);
            cv_put_file(path, text, (size_t)sprintf(text, "%lu", facts[i].value));
        }
        sprintf(path, "/sys/devices/system/cpu/cpu%d/cache/index%u/size", cpu, index);
        cv_put_file(path, text, (size_t)sprintf(text, "%luK", (unsigned long)ways * line * parts * (ecx + 1ul) / 1024));
        sprintf(path, "/sys/devices/system/cpu/cpu%d/cache/index%u/type", cpu, index);
        const char *const kind = kinds[eax & 3];
        cv_put_file(path, kind, strlen(kind));
    }
#else
    (void)cpu;
#endif
}

static void cv_copy_caches(int cpu)
{
    const char *const names[] = {"type", "size", "level", "ways_of_associativity", "coherency_line_size", "shared_cpu_list"};
    char path[128];
    int found = 0;
    for (int index = 0; index < 8; index++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            sprintf(path, "/sys/devices/system/cpu/cpu%d/cache/index%d/%s", cpu, index, names[i]);
            found += !cv_copy_file(path);
        }
    if (!found)
        cv_caches_of_cpuid(cpu);
    sprintf(path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    cv_copy_file(path);
}

/* Finds the last CPU that this process may use; returns how many there are. */
static int cv_allowed_cpus(int *last)
{
    cpu_set_t allowed;
    *last = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed))
        return 1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        *last = CPU_ISSET(cpu, &allowed) ? cpu : *last;
    return CPU_COUNT(&allowed);
}

static void cv_describe(int cpu)
{
    struct utsname name;
    uname(&name);
    fputs("{\"bundle\": 1, \"host\": ", stdout);
    cv_put_text(name.nodename, strlen(name.nodename));
    fputs(", \"kernel\": ", stdout);
    cv_put_text(name.release, strlen(name.release));
    fputs(", \"architecture\": ", stdout);
    cv_put_text(name.machine, strlen(name.machine));
    printf(", \"cpu\": %d, \"cpus\": %ld, \"page_bytes\": %ld, \"memory_bytes\": %lld, \"started\": %lld}\n", cpu,
           sysconf(_SC_NPROCESSORS_ONLN), sysconf(_SC_PAGESIZE), (long long)sysconf(_SC_PAGESIZE) * sysconf(_SC_PHYS_PAGES),
           (long long)time(NULL));
    cv_copy_cpuinfo(cpu);
    cv_copy_caches(cpu);
}

/* Reads the lines of a task's input up to ".", leaves out what this machine cannot do, and returns a descriptor to read them from. */
static int cv_task_input(const char **plan, long long most, int cpus)
{
    char name[64], number[8];
    unsigned long long bytes;
    const int input = memfd_create("plan", 0);
    while (**plan) {
        const char *const line = *plan;
        const size_t length = strcspn(line, "\n");
        *plan += length + (line[length] == '\n');
        if (length == 1 && *line == '.')
            break;
        const struct cv_kernel *const kernel = sscanf(line, "%63s %llu %7s", name, &bytes, number) == 3 ? cv_find_kernel(name) : NULL;
        if (!kernel) {
            if (dprintf(input, "%.*s\n", (int)length, line) < 0)
                break;
            continue;
        }
        const int busy = !strcmp(number, "%n"), threads = busy ? cpus : atoi(number);
        const int possible = threads <= cpus && threads > busy && (long long)bytes <= most && (long long)bytes <= 2 * most / threads;
        if (possible && (!kernel->supported || kernel->supported()) && dprintf(input, "%s %llu %d\n", name, bytes, threads) < 0)
            break;
    }
    if (input >= 0)
        lseek(input, 0, SEEK_SET);
    return input;
}

/* Runs "NAME LARGEST OPTION ..." with an input; what it prints follows. The largest working set is as the machine allows. */
static int cv_run_task(char *words, int input, int cpu, long long most, int (*self)(int count, char **arguments))
{
    char *arguments[MOST_WORDS] = {"probe"}, number[16], largest[32];
    int count = 1, status = 0;
    const char *const name = strtok(words, " ");
    const char *const asked = strtok(NULL, " ");
    sprintf(number, "%d", cpu);
    sprintf(largest, "%lld", asked && atoll(asked) < most ? atoll(asked) : most);
    for (char *word; count < MOST_WORDS - 1 && (word = strtok(NULL, " "));)
        arguments[count++] = !strcmp(word, "%c") ? number : !strcmp(word, "%b") ? largest : word;
    printf("{\"task\": \"%s\"}\n", name);
    fflush(stdout);
    const pid_t child = fork();
    if (!child) {
        dup2(input, 0);
        exit(self(count, arguments));
    }
    if (child < 0 || waitpid(child, &status, 0) < 0)
        status = -1;
    printf("{\"task\": \"%s\", \"status\": %d}\n", name, WIFEXITED(status) ? WEXITSTATUS(status) : 128);
    fflush(stdout);
    return WIFEXITED(status) && WEXITSTATUS(status) == 130 ? 130 : 0;
}

int cv_run_bundle(const char *plan, int (*self)(int count, char **arguments))
{
    int cpu;
    const int cpus = cv_allowed_cpus(&cpu);
    const long long memory = (long long)sysconf(_SC_PAGESIZE) * sysconf(_SC_AVPHYS_PAGES);
    int done = 0, status = 0, tasks = 0;
    for (const char *at = plan; (at = strstr(at, "task ")); at++)
        tasks++;
    cv_describe(cpu);
    while (*plan && !status) {
        char line[1024];
        const size_t length = strcspn(plan, "\n");
        snprintf(line, sizeof line, "%.*s", (int)length, plan);
        plan += length + (plan[length] == '\n');
        if (!strncmp(line, "file ", 5))
            cv_copy_file(line + 5);
        else if (!strncmp(line, "plan ", 5))
            printf("{\"plan\": \"%s\"}\n", line + 5);
        else if (!strncmp(line, "task ", 5)) {
            const int input = cv_task_input(&plan, memory / 4, cpus);
            fprintf(stderr, "\rprobing: %d of %d", ++done, tasks);
            status = cv_run_task(line + 5, input, cpu, memory / 4 / (1 << 20) * (1 << 20), self);
            close(input);
        }
    }
    fputs(status ? "\n" : "\nThe probe is done; `convolver machine add FILE` makes the profile.\n", stderr);
    return status;
}
