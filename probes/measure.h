/* Measures one point: a kernel at a working set. */
#ifndef CV_MEASURE_H
#define CV_MEASURE_H

#include "probe.h"

#define CV_MAX_SAMPLES 255

struct cv_effort {
    double sample_seconds; /* length of one sample: long against the clock's resolution, short against a time slice */
    double limit_seconds;  /* stop sampling after this, precise or not */
    double warmup_seconds; /* longest first pass through the working set */
    double precision;      /* stop when the median's confidence interval is this narrow, relative half width */
    int least, most;       /* samples */
};

struct cv_point {
    double samples[CV_MAX_SAMPLES]; /* seconds per reference */
    double clocks[CV_MAX_SAMPLES];  /* seconds of one dependent addition around the sample: the core's clock */
    double witness[CV_MAX_SAMPLES]; /* cycles of a turn of taken branches, the more of those before and after it: twice as many while
                                     * another thread runs on the core */
    int count;                      /* accepted */
    int rejected;                   /* with a context switch; those during which the clock moved are not counted */
    uint64_t references;            /* of one sample */
    double interval;                /* relative half width of the 95 % confidence interval of the median; < 0: unknown */
    int precise;
    double cycle_seconds; /* of one dependent addition: the least while sampling */
    double elapsed_seconds;
};

/* Runs a kernel for about so many references; returns the seconds of one. */
double cv_seconds_each(const struct cv_kernel *kernel, struct cv_state *state, uint64_t wanted);

/* Warms up and samples until the effort is spent or `*stop` is set. The state must be prepared. */
void cv_measure(const struct cv_kernel *kernel, struct cv_state *state, const struct cv_effort *effort, struct cv_point *point,
                const volatile int *stop);

#endif
