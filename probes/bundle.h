/* The probe as one file: its own executable holds a plan, and it measures without anybody who asks (docs/tasks/probe-elsewhere.md). */
#ifndef CV_BUNDLE_H
#define CV_BUNDLE_H

#include <signal.h>

/* Returns the plan beyond the end of this executable, or NULL; `argument` is argv[0], for where /proc is missing. */
char *cv_bundled_plan(const char *argument);

/* Measures what the plan says and prints lines of JSON; returns the exit status. `self` runs one task in a process of its own. */
int cv_run_bundle(const char *plan, int (*self)(int count, char **arguments));

#endif
