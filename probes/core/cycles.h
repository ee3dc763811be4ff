/* Cycles of a core without a counter of them: a chain of multiplications beside what is timed. */
#ifndef CV_CYCLES_H
#define CV_CYCLES_H

#include "code.h"

/* A busy sibling thread takes turns from a chain of additions, hardly from multiplications, which wait for most of their time. How many
 * cycles each of them takes is known from additions, which take one. */
struct cv_clock {
    struct cv_code code;
    double cycles; /* of a turn */
};

/* What pieces find in their registers; `hot` is memory that they may use. */
struct cv_registers cv_start(char *hot);

double cv_seconds(const struct cv_code *code, struct cv_registers *registers, uint64_t turns);

/* Copies of one piece. Returns 0, or -1 where code cannot be made. */
int cv_make(struct cv_code *code, struct cv_piece piece, unsigned copies, int wide);

/* Makes the clock in its own code; `other` is overwritten. Returns 0 or -1. */
int cv_make_clock(struct cv_clock *clock, struct cv_code *other, char *hot);

/* Copies of a loop's body of so many slots, its turns in rbp, after `skipped` one-byte instructions. Returns 0 or -1. */
int cv_make_loop(struct cv_code *code, unsigned slots, unsigned skipped);

#endif
