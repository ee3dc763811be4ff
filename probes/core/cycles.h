/* Cycles of made code on a core without a counter of them, and that others may share: a chain of multiplications and a loop of taken
 * branches beside each sample say how long a cycle is, and whether another thread ran on the core. */
#ifndef CV_CYCLES_H
#define CV_CYCLES_H

#include <signal.h>

#include "code.h"

#define CV_KEPT 32  /* samples of a piece */
#define CV_LOWEST 5 /* looks at the witness */
/* Of vectors of 64 bytes before a sample: they start at a third of their pace, for up to 15 us on Emerald Rapids. */
#define CV_WARM_CYCLES 60000

/* A busy sibling thread takes turns from a chain of additions, hardly from multiplications, which wait for most of their time. How many
 * cycles each of them takes is known from additions, which take one. */
struct cv_clock {
    struct cv_code code;
    double cycles; /* of a turn */
};

/* Nothing else runs on the core while a loop of taken branches takes no longer than it ever does: a busy sibling thread takes turns in the
 * prediction of branches, so that the loop takes twice as long, whatever else the thread does. */
struct cv_bench {
    struct cv_clock clock;
    struct cv_code code, witness; /* what is timed; the loop */
    char *hot;                    /* memory that pieces may use */
    double empty, least;          /* seconds that timing itself takes; cycles of the witness on a core alone, as far as seen */
    double lowest[CV_LOWEST];     /* ascending: the last one counts, for a clock that stopped twice makes one too low */
    double patience;              /* seconds left to wait for others */
    uint64_t warm;                /* turns right before each sample that are not timed */
};

/* The last samples of a piece. */
struct cv_samples {
    unsigned kept, taken;
    double cycles[CV_KEPT], witness[CV_KEPT]; /* of one copy; the longer of the witnesses before and after it */
};

/* What pieces find in their registers; `hot` is memory that they may use. */
struct cv_registers cv_start(char *hot);

/* Copies of one piece. Returns 0, or -1 where code cannot be made. */
int cv_make(struct cv_code *code, struct cv_piece piece, unsigned copies, int wide);

/* Copies of a loop's body of so many slots, its turns in rbp, after `skipped` one-byte instructions. Returns 0 or -1. */
int cv_make_loop(struct cv_code *code, unsigned slots, unsigned skipped);

/* Makes clock and witness, with so many bytes for the code that is timed, and looks at the core for a while. Returns 0 or -1. */
int cv_bench_open(struct cv_bench *bench, char *hot, size_t room, double patience, const volatile sig_atomic_t *stop);
void cv_bench_close(struct cv_bench *bench);

/* Cycles of so many turns of the code. */
double cv_turns_cycles(struct cv_bench *bench, struct cv_registers registers, uint64_t turns);

/* Times the code for so many turns once nothing else runs on the core; keeps the cycles over `each` unless the clock changed, or patience
 * came to an end. `registers` end as the code leaves them. */
void cv_sample(struct cv_bench *bench, struct cv_registers *registers, uint64_t turns, double each, struct cv_samples *samples);

/* How many samples count, of those in `counted`, if that is not NULL; as far as is known now. */
unsigned cv_counted(const struct cv_bench *bench, const struct cv_samples *samples, double *counted);

/* The median of the samples that count; 0 without any. */
double cv_middle(const struct cv_bench *bench, const struct cv_samples *samples);

/* Prints a line of JSON: a name, what was asked for, and the samples that count. */
void cv_print_samples(const struct cv_bench *bench, const char *name, unsigned filled, const struct cv_samples *samples);

/* Prints the cycles of a turn of the witness on the core alone in the same way. */
void cv_print_witness(const struct cv_bench *bench);

#endif
