/* Looks at the core every now and then while something else runs on it: does another thread share it? */
#ifndef CV_WATCH_H
#define CV_WATCH_H

#include <signal.h>

/* Cycles that a turn of taken branches takes now, under 10 us: twice as many while another thread shares the core. */
double cv_look(void);

/* Until `*stop` is set; then prints one JSON line: the looks, and the cycles of an independent instruction in their mean. Says
 * "watching" before the first. Returns an exit status. */
int cv_watch(const volatile sig_atomic_t *stop);

/* Has who asked gone? Killed, it tells nobody, but nobody has the other end of the pipe. */
int cv_unheard(void);

#endif
