/* Branch prediction along executed paths: a small TAGE for directions, history-indexed tables for indirect targets, a return stack.
 *
 * How each segment ends is read from its code bytes; which way it went is seen in the visit that follows. A segment that was only
 * cut (at 60 instructions, at an exit within an instruction) ends in no branch. Outcomes that are not known, at the end of a
 * piece or where a signal handler ran, are passed over. The predictor is one core's: its state goes on from window to window, but for
 * the return stack, which is emptied where a path does not continue (returns from there on are not counted as mispredicted). */
#ifndef CV_BRANCH_H
#define CV_BRANCH_H

#include <stddef.h>
#include <stdint.h>

#include "cv_paths.h"
#include "cv_status.h"
#include "cv_trace.h"

/* How a segment ends. */
enum cv_end_kind {
    CV_END_FALL = 0,        /* goes on after itself: the tracer cut it there; or its code is not known */
    CV_END_CONDITIONAL = 1, /* jcc, loop, jrcxz */
    CV_END_JUMP = 2,
    CV_END_CALL = 3,
    CV_END_INDIRECT_JUMP = 4,
    CV_END_INDIRECT_CALL = 5,
    CV_END_RETURN = 6,
    CV_END_REPEAT = 7, /* within a repeated string instruction, which comes again or not */
    CV_END_OTHER = 8   /* system call, interrupt, ...: goes anywhere, predicted by nobody */
};

typedef struct {
    uint64_t branch; /* address of the last instruction */
    uint64_t after;  /* address after it */
    uint64_t target; /* of a direct branch, else 0 */
    uint32_t kind;   /* enum cv_end_kind */
    uint32_t turn;   /* 1: a turn of a repeated string instruction that the segment before began */
} cv_segment_end;

/* Reads how a segment ends from its last instruction; `code` may be empty. */
cv_segment_end cv_read_end(const struct cv_wire_segment *segment, const struct cv_wire_instruction *instructions, const uint8_t *code);

enum cv_visit_flags {
    CV_VISIT_KNOWN = 1,        /* it is known what came next */
    CV_VISIT_TAKEN = 2,        /* a branch, and control did not go on after it */
    CV_VISIT_MISPREDICTED = 4, /* its branch was mispredicted */
    CV_VISIT_OVERRIDDEN = 8    /* its branch, a conditional one, was foreseen, but not by its own last outcomes */
};

/* Per segment, over the visits of windows that are not warm-up. */
typedef struct {
    uint64_t visits;
    uint64_t known;                 /* visits of which it is known what came next */
    uint64_t taken;                 /* ... and that a branch ended which did not go on after itself */
    uint64_t mispredicted;          /* conditional branches */
    uint64_t indirect_mispredicted; /* indirect jumps and calls, returns */
    uint64_t repeats;               /* executions of the repeated string instruction that ends the segment, seen from begin to end */
    uint64_t turns;                 /* turns of such executions */
} cv_branch_counts;

/* A segment was followed by another one so many times (warm-up apart). */
typedef struct {
    uint32_t from, to;
    uint64_t count;
} cv_edge;

typedef struct cv_branches cv_branches;

/* `trace` says what the segments are and must live as long. NULL when there is no memory. */
cv_branches *cv_branches_new(const cv_trace *trace);
void cv_branches_free(cv_branches *branches);
/* Count nothing from now on: only the flags of visits are asked for. */
void cv_branches_flags_alone(cv_branches *branches);

/* Walks one piece. `flags`: one enum cv_visit_flags a visit, or NULL. Segments must be defined: CV_ERROR_ARGUMENT. */
cv_status cv_branches_walk(cv_branches *branches, const cv_path *path, uint8_t *flags);
/* The same as a reader of paths (cv_paths_add_sink). */
cv_status cv_branches_sink(void *branches, const cv_path *path);
/* The flags of the last piece that cv_branches_sink was given: for readers that were added after it. */
const uint8_t *cv_branches_flags(const cv_branches *branches);

/* Arrays that stay valid until the next walk. */
size_t cv_branches_counts(const cv_branches *branches, const cv_branch_counts **counts); /* of the segments walked so far */
size_t cv_branches_ends(const cv_branches *branches, const cv_segment_end **ends);
size_t cv_branches_edges(const cv_branches *branches, const cv_edge **edges);

#endif
