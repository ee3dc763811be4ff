/* The command line of the probe. */
#ifndef CV_OPTIONS_H
#define CV_OPTIONS_H

#include <stddef.h>

#include "measure.h"
#include "memory.h"

/* What to do with the points of the plan: time them, write their references, or just make them (for a tracer to see);
 * or, without a plan, run one kernel until the end, see how long lines survive in the last cache, time the core's
 * instructions alone or in mixes, or the kernel's work, or see whether the core is shared while another program runs on it. */
enum cv_task { CV_MEASURE, CV_RECORD, CV_RUN, CV_FOREVER, CV_RESIDENCY, CV_CORE, CV_PORTS, CV_SYSTEM, CV_WATCH };

struct cv_options {
    int list;            /* print the kernel table and end */
    const char *forever; /* a kernel to run until the process is ended, or NULL */
    enum cv_task task;
    int cpu;      /* -1: do not pin */
    size_t bytes; /* largest working set */
    enum cv_pages pages;
    const char *beside; /* what the other threads run, or NULL: the same kernel */
    int other;          /* CPU of the only other thread; -1: the next ones that are allowed */
    struct cv_effort effort;
};

/* Returns 0, or -1 after a message on stderr. */
int cv_parse_options(int count, char **arguments, struct cv_options *options);

#endif
