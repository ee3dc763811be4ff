/* The names of kernel functions; table.c lists and describes them. */
#ifndef CV_KERNELS_H
#define CV_KERNELS_H

#include "../probe.h"

/* Kernels with memory are compiled twice: to run, and (recorded/) to tell their references. */
#ifdef CV_RECORDING
#define CV_NAME(name) cv_recorded_##name
#else
#define CV_NAME(name) cv_kernel_##name
#endif

#endif
