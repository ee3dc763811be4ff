/* What two threads on two CPUs cost each other. */
#ifndef CV_TOGETHER_H
#define CV_TOGETHER_H

#include <stddef.h>

/* Elapsed seconds of what was done so far: these pieces of work wait, so that processor time says nothing. */
double cv_together_seconds(void);
void cv_add_together(double more);

int cv_other_cpus(void);   /* how many CPUs there are besides this one */
int cv_spaced(int number); /* ... which of them game `number` is played with; there must be one */

/* As `run` of struct cv_work; each returns 0 where there is no second CPU. */
size_t cv_thread_create(size_t times);    /* making a thread, until the call returns */
size_t cv_thread_start(size_t times);     /* ... from there until it runs */
size_t cv_thread_join(size_t times);      /* of a thread that has ended */
size_t cv_thread_wake(size_t times);      /* from a signal to a sleeping thread until it runs */
size_t cv_thread_wake_each(size_t times); /* a call that wakes several: of it, each one's part */
size_t cv_thread_handover(size_t times);  /* a word of memory from one that writes it to one that looks at it */
size_t cv_thread_barrier(size_t times);   /* two threads that look until both are there */
/* ... one a CPU; 0 where that is two. */
size_t cv_thread_barrier_all(size_t times);
size_t cv_thread_lock(size_t times);     /* lock and unlock, which nobody else wants */
size_t cv_thread_pass(size_t times);     /* of a lock that another one waits for, until that has it and what it guards */
size_t cv_thread_asleep(size_t times);   /* processor time of a thread that sleeps at a barrier of four threads a CPU, until it goes on */
size_t cv_thread_given(size_t times);    /* a line of many that one loads in a row after the other has stored to them */
size_t cv_thread_taken(size_t times);    /* ... and that is stored to after the other has loaded it */
size_t cv_thread_counter(size_t times);  /* counting in memory, alone ... */
size_t cv_thread_counters(size_t times); /* ... and of two threads in two words of one line */
size_t cv_thread_sum(size_t times);      /* the same with atomic operations on one word */
size_t cv_thread_sums(size_t times);
size_t cv_thread_step(size_t times); /* a step of other work; and what two lose each time that count so many of them after the last time */
size_t cv_thread_shared_3(size_t times);
size_t cv_thread_shared_9(size_t times);
size_t cv_thread_shared_27(size_t times);
size_t cv_thread_shared_81(size_t times);
size_t cv_thread_shared_243(size_t times);
size_t cv_thread_atomic_3(size_t times);
size_t cv_thread_atomic_9(size_t times);
size_t cv_thread_atomic_27(size_t times);
size_t cv_thread_atomic_81(size_t times);
size_t cv_thread_atomic_243(size_t times);

#endif
