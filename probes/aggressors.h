/* Threads that run the measured kernel on other CPUs at the same time, for curves of a busy node. */
#ifndef CV_AGGRESSORS_H
#define CV_AGGRESSORS_H

#include <stddef.h>

#include "memory.h"

struct cv_aggressors;

/* Starts `count` threads, each on its own CPU other than `cpu`, each with its own working set, and returns when all are warm. A
 * single one runs on CPU `other` where that is not negative. Returns NULL when there are too few CPUs or too little memory. */
struct cv_aggressors *cv_aggressors_start(const struct cv_kernel *kernel, size_t bytes, enum cv_pages pages, int cpu, int other, int count);

/* Stops and joins them. */
void cv_aggressors_stop(struct cv_aggressors *group);

#endif
