/* Pieces of the kernel's work. */
#ifndef CV_SYSTEM_WORK_H
#define CV_SYSTEM_WORK_H

#include <stddef.h>

/* How a sample is timed: a short one is thrown away when another task came in between; a long one nearly always has one, so that the
 * thread's own processor time has to do; work of several tasks is timed by the processor time of all of them; and what threads on two CPUs
 * wait for times itself (together.h). */
enum cv_pace { CV_SHORT, CV_LONG, CV_WITH_OTHERS, CV_TOGETHER };

struct cv_work {
    const char *name;
    /* Does it `times` times and returns how many pages, calls or bytes that were; 0: not possible here. */
    size_t (*run)(size_t times);
    size_t times; /* of one sample */
    enum cv_pace pace;
    void (*beside)(size_t times); /* what `run` does beside it: timed alone, and taken off; or NULL */
};

extern const struct cv_work cv_works[];
extern const size_t cv_work_count;

/* Processor time of the processes that were started so far. */
double cv_work_children(void);

/* Opens the files that the work is done on; those that cannot be had leave their work out. */
void cv_work_begin(void);
void cv_work_end(void);

#endif
