/* What the kernel takes: page faults, system calls, bytes moved, a process's beginning and end. */
#ifndef CV_SYSTEM_PROBE_H
#define CV_SYSTEM_PROBE_H

#include <signal.h>

/* Prints one line of JSON for every piece of work that the kernel here can do: seconds of one, each sample. A third of a second. */
void cv_system_probe(const volatile sig_atomic_t *stop);

#endif
