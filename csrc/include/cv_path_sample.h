/* A sample of the executed path: short stretches, spread evenly over all that was recorded, for walks that cannot follow all of it.
 *
 * Pieces of path are cut into stretches of some thousand instructions. Every k-th of them is kept, each time one chosen at random out of k;
 * when as many are kept as may be, one of each two neighbors goes and k doubles (stratified sampling with one unit a stratum). So every
 * stretch has the same chance, and memory is bounded however long the run is. Stretches that show code which the others do not show are
 * kept beside them.
 *
 * What depends on all that came before is found out while all of it passes by: which branches were mispredicted, which references brought
 * a line of 64 bytes out of order, and how many references each block had from one such line to the next. What depends on little before
 * (the pipeline's state) is restored by a prefix that does not count. So each window takes as long whichever were walked before it, but for
 * the code that the core has near. */
#ifndef CV_PATH_SAMPLE_H
#define CV_PATH_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "cv_branch.h"
#include "cv_core.h"
#include "cv_paths.h"
#include "cv_status.h"
#include "cv_trace.h"

typedef struct {
    uint32_t counted; /* instructions of a stretch */
    uint32_t warm;    /* instructions before it, of the same piece, that are walked and not counted: on average so many */
    uint32_t most;    /* stretches at most; as many more are kept for rare code */
    uint32_t shown;   /* visits of a segment up to which it is rare */
} cv_sample_plan;

typedef struct {
    uint64_t stretch; /* its number among all stretches of the run */
    uint64_t rare;    /* 1: kept for the rare code that it shows; it was not chosen at random */
} cv_sample_window;

typedef struct cv_path_sample cv_path_sample;

/* The owner (block) of each site; one of `owners` or more: none. Copied. */
typedef struct {
    size_t sites, owners;
    const uint32_t *owner;
} cv_site_owners;

/* `trace` says what the segments are and `branches` (a reader of the same paths, added before) what was mispredicted; both must live as
 * long. NULL when there is no memory. */
cv_path_sample *cv_path_sample_new(const cv_trace *trace, const cv_branches *branches, const cv_sample_plan *plan,
                                   const cv_site_owners *owners);
void cv_path_sample_free(cv_path_sample *sample);
/* A reader of paths (cv_paths_add_sink). */
cv_status cv_path_sample_sink(void *sample, const cv_path *path);

uint64_t cv_path_sample_stretches(const cv_path_sample *sample); /* that passed by */
size_t cv_path_sample_count(const cv_path_sample *sample);       /* windows: first those chosen at random, then the rare ones */
void cv_path_sample_window(const cv_path_sample *sample, size_t window, cv_sample_window *about);
/* The visits of one window that count; returns their number. */
size_t cv_path_sample_visits(const cv_path_sample *sample, size_t window, const uint32_t **segments);
/* Which windows count a visit of a segment that is wanted? One byte a segment, and one a window: 1 or 0. */
void cv_path_sample_showing(const cv_path_sample *sample, const uint8_t *wanted, uint8_t *shows);

/* What windows show of blocks: in `window` the walk of the executions took so many cycles. An execution is that of one instruction.
 * `surplus`: cycles on the way of the lines that they brought out of order, beyond what their shares of all references would bring. Blocks
 * are the owners of cv_core_levels. */
typedef struct {
    uint32_t window, block;
    uint64_t cycles, executions;
    double surplus;
} cv_block_cycles;

/* The blocks of a program: that of each operation, and whether its executions are counted. Arrays are not copied. */
typedef struct {
    size_t ops, blocks;
    const uint32_t *block;
    const uint8_t *counted;
} cv_block_map;

typedef struct cv_sample_walk cv_sample_walk;

/* Walks of one core; all must live as long. NULL when there is no memory. */
cv_sample_walk *cv_sample_walk_new(const cv_path_sample *sample, cv_core *core, const cv_block_map *map);
void cv_sample_walk_free(cv_sample_walk *walk);
/* Walk some windows of the sample and add what they show to the result. CV_ERROR_ARGUMENT for a window that is not there, or code that the
 * core does not know. */
cv_status cv_sample_walk_windows(cv_sample_walk *walk, const uint32_t *windows, size_t count);
/* All that was walked so far; valid until the next walk. */
size_t cv_sample_walk_found(const cv_sample_walk *walk, const cv_block_cycles **found);

#endif
