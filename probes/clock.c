#define _GNU_SOURCE
#include "clock.h"

#include <sys/resource.h>
#include <time.h>

double cv_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_RAW, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

long cv_switches(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw + usage.ru_nivcsw;
}
