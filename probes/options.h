/* The command line of the probe. */
#ifndef CV_OPTIONS_H
#define CV_OPTIONS_H

#include <stddef.h>

#include "measure.h"
#include "memory.h"

struct cv_options {
    int list; /* print the kernel table and end */
    const char *forever; /* a kernel to run until the process is ended, or NULL */
    int cpu;  /* -1: do not pin */
    size_t bytes; /* largest working set */
    enum cv_pages pages;
    struct cv_effort effort;
};

/* Returns 0, or -1 after a message on stderr. */
int cv_parse_options(int count, char **arguments, struct cv_options *options);

#endif
