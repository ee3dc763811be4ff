/* What is timed of a core: pieces of code, each a chain of dependent instructions or a set of independent ones. */
#ifndef CV_BODIES_H
#define CV_BODIES_H

#include "code.h"

struct cv_body {
    const char *name; /* latency.KIND, throughput.KIND, forward.*, branch.* */
    struct cv_piece piece;
    unsigned instructions; /* timed ones in a piece: cycles are of one of them */
    int wide;              /* registers filled beyond 16 bytes (code.h) */
    int (*supported)(void);
    unsigned copies; /* in a turn; 0: as many as a turn should have */
};

/* What fills the window between two loads that miss every cache. */
struct cv_filler {
    const char *name;              /* window.reorder_buffer, ... */
    struct cv_piece first, second; /* after the first load, after the second */
    unsigned instructions;         /* in a piece */
};

/* A jump to the next piece: any number of them tells how many the front end follows at which pace. */
struct cv_jump {
    const char *name; /* front.jumps, front.lines */
    struct cv_piece piece;
};

extern const struct cv_body cv_bodies[];
extern const size_t cv_body_count;
extern const struct cv_filler cv_fillers[];
extern const size_t cv_filler_count;
extern const struct cv_jump cv_jumps[];
extern const size_t cv_jump_count;
extern const struct cv_piece cv_loop_begin, cv_loop_slot, cv_loop_end; /* a loop of rbp turns; its distance follows the end */
extern const struct cv_piece cv_addition, cv_multiplication, cv_first_load, cv_second_load; /* dependent; the loads of a window */

#endif
