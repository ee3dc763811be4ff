/* How long a line survives in the last cache while its owner leaves it alone: others may share that cache. */
#ifndef CV_RESIDENCY_H
#define CV_RESIDENCY_H

#include <signal.h>

#include "memory.h"

/* Prints one JSON line a pause: its length and the seconds of a dependent load of a line that was left alone for it, for a working
 * set of `bytes`, which should fit the last cache but not the one before. Returns an exit status. */
int cv_residency(struct cv_arena *arena, size_t bytes, const volatile sig_atomic_t *stop);

#endif
