/* How long instructions take in mixes of two kinds, from which the ports that they share are known. */
#ifndef CV_MIXES_H
#define CV_MIXES_H

#include <signal.h>

#include "../memory.h"

/* Prints one line of JSON for each kind alone (alone.KIND), among many that take a slot and no port (slots.KIND, cycles of one and
 * those), and for each mix (mix.KIND.COUNT.OTHER.COUNT): cycles in samples during which nothing else ran on the core; and at the end one
 * with the cycles of a taken branch (witness.taken), by which that is judged. Returns 0; 1 where code cannot be made. */
int cv_mix_probe(struct cv_arena *arena, const volatile sig_atomic_t *stop);

#endif
