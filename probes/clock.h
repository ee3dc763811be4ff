/* Time and disturbance of the calling thread. */
#ifndef CV_CLOCK_H
#define CV_CLOCK_H

/* Monotonic seconds, not slewed by time synchronization. A call costs some tens of ns, a sample lasts 0.6 ms. */
double cv_now(void);

/* Context switches of this thread so far: a sample during which it changes was disturbed. */
long cv_switches(void);

#endif
