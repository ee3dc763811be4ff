/* Binds the calling thread to one CPU. */
#ifndef CV_PINNING_H
#define CV_PINNING_H

/* Returns 0, or -1 with errno set when the CPU does not exist or is not allowed here. */
int cv_pin(int cpu);

/* Returns the n-th CPU (from 0) this process may run on other than `except`, or -1. Call before cv_pin. */
int cv_other_cpu(int except, int n);

#endif
