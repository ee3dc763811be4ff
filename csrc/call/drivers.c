/* Drivers that need nothing but Linux: clocks, hardware counters through perf_event, load and memory of the host. */
#include <errno.h>
#include <linux/perf_event.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static const char *no_trouble(void) { return NULL; }

static void read_clock(double *values)
{
    values[0] = seconds(CLOCK_MONOTONIC);
    values[1] = seconds(CLOCK_PROCESS_CPUTIME_ID);
}

struct cv_call_driver cv_call_clock = {
    .name = "clock",
    .count = 2,
    .metrics = {{"time", "s", 0}, {"cpu_time", "s", 0}},
    .open = no_trouble,
    .read = read_clock,
};

#define EVENTS 5
static int files[EVENTS];
static const unsigned long long events[EVENTS] = {
    PERF_COUNT_HW_CPU_CYCLES,   PERF_COUNT_HW_INSTRUCTIONS,  PERF_COUNT_HW_CACHE_REFERENCES,
    PERF_COUNT_HW_CACHE_MISSES, PERF_COUNT_HW_BRANCH_MISSES,
};

/* Events a machine lacks are left out one by one; only when none works the driver says no. */
static const char *open_counters(void)
{
    static char why[160];
    int working = 0, last = 0;
    for (int i = 0; i < EVENTS; i++) {
        struct perf_event_attr attr;
        memset(&attr, 0, sizeof attr);
        attr.size = sizeof attr;
        attr.type = PERF_TYPE_HARDWARE;
        attr.config = events[i];
        attr.exclude_kernel = 1;
        attr.exclude_hv = 1;
        attr.inherit = 1;
        files[i] = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
        if (files[i] < 0)
            last = errno;
        else
            working++;
    }
    if (working)
        return NULL;
    snprintf(why, sizeof why, "no hardware counters here (%s)%s", strerror(last),
             last == EACCES || last == EPERM ? ", lower /proc/sys/kernel/perf_event_paranoid" : "");
    return why;
}

static void read_counters(double *values)
{
    for (int i = 0; i < EVENTS; i++) {
        unsigned long long count = 0;
        values[i] = files[i] >= 0 && read(files[i], &count, sizeof count) == sizeof count ? (double)count : NAN;
    }
}

struct cv_call_driver cv_call_counters = {
    .name = "counters",
    .count = EVENTS,
    .metrics =
        {{"cycles", "1", 0}, {"instructions", "1", 0}, {"cache_references", "1", 0}, {"cache_misses", "1", 0}, {"branch_misses", "1", 0}},
    .open = open_counters,
    .read = read_counters,
};

static double memory_available(void)
{
    char line[128];
    double kilobytes = NAN;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lf", &kilobytes) == 1)
            break;
    if (file)
        fclose(file);
    return 1024 * kilobytes;
}

static void read_host(double *values)
{
    struct rusage usage;
    if (getloadavg(&values[0], 1) != 1)
        values[0] = NAN;
    values[1] = memory_available();
    getrusage(RUSAGE_SELF, &usage);
    values[2] = 1024.0 * (double)usage.ru_maxrss;
    values[3] = (double)usage.ru_majflt;
    values[4] = (double)usage.ru_nivcsw;
}

struct cv_call_driver cv_call_host = {
    .name = "host",
    .count = 5,
    .metrics = {{"load", "1", 1}, {"memory_available", "B", 1}, {"memory_peak", "B", 1}, {"major_faults", "1", 0}, {"preemptions", "1", 0}},
    .open = no_trouble,
    .read = read_host,
};
