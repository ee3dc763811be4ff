#define _GNU_SOURCE
#include "pinning.h"

#include <sched.h>

static cpu_set_t cv_allowed;
static int cv_allowed_known;

static void cv_learn_allowed(void)
{
    /* Pinning narrows what the kernel answers, so the first answer is kept. */
    if (!cv_allowed_known && !sched_getaffinity(0, sizeof cv_allowed, &cv_allowed))
        cv_allowed_known = 1;
}

int cv_pin(int cpu)
{
    cpu_set_t set;
    cv_learn_allowed();
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof set, &set);
}

int cv_other_cpu(int except, int n)
{
    cv_learn_allowed();
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (cpu != except && CPU_ISSET(cpu, &cv_allowed) && n-- == 0)
            return cpu;
    return -1;
}
