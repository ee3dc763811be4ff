/* What a core takes for instructions that hit the first level, in its own cycles (docs/howto/add-a-core.md). */
#ifndef CV_CORE_PROBE_H
#define CV_CORE_PROBE_H

#include <signal.h>

#include "../memory.h"

/* Prints one line of JSON for every body: cycles of one instruction in samples during which nothing else ran on the core; then one with
 * the cycles of a taken branch (witness.taken), by which that is judged. Then answers lines "FILLER COUNT" from stdin: cycles of two
 * independent loads from memory with so many fillers after each, which take the time of one while the core's window holds both, of two when
 * it does not; "JUMPS COUNT": cycles of one of a row of jumps; "loop.SLOTS TURNS": cycles of a run of a loop with so many slots and turns.
 * Returns 0; 1 where code cannot be made. */
int cv_core_probe(struct cv_arena *arena, size_t bytes, const volatile sig_atomic_t *stop);

#endif
