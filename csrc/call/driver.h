/* One interface for all sources of measurements. A driver takes a snapshot of its values at the begin and at the end of a region;
 * a metric is the difference of the two or, for states like a load, the value at the end. */
#ifndef CV_CALL_DRIVER_H
#define CV_CALL_DRIVER_H

#define CV_CALL_METRICS 16

struct cv_call_metric {
    const char *name;
    const char *unit;
    int state; /* 1: the value at the end; 0: end minus begin */
};

struct cv_call_driver {
    const char *name;
    int count;
    struct cv_call_metric metrics[CV_CALL_METRICS];
    /* Returns NULL when the driver works, else why not, in words; called once. */
    const char *(*open)(void);
    void (*read)(double *values);
    /* Called before the snapshots of a region's begin, outside of what is measured; may be NULL. */
    void (*prepare)(void);
};

extern struct cv_call_driver cv_call_clock, cv_call_counters, cv_call_host;
#ifdef CONVOLVER_CALL_MPI
extern struct cv_call_driver cv_call_mpi, cv_call_network;
#endif

/* Where this process stands in a parallel run; the MPI driver fills it, else the launcher's environment does. */
struct cv_call_place {
    int rank, size;
    char run[64];
};
void cv_call_mpi_place(struct cv_call_place *place);

#endif
