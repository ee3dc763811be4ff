/* The predictors of cv_branch.h. All of them start empty and are deterministic. */
#ifndef CV_PREDICTORS_H
#define CV_PREDICTORS_H

#include <stddef.h>
#include <stdint.h>

/* ---- tage.c: the direction of conditional branches ---- */

#define CV_TAGE_TABLES 6
#define CV_TAGE_ENTRIES 2048 /* of each tagged table */
#define CV_TAGE_BIMODAL 8192

typedef struct {
    uint16_t tag;   /* 0: empty */
    int8_t counter; /* -4..3; taken from 0 on */
    uint8_t useful; /* 0..3 */
} cv_tage_entry;

typedef struct {
    uint8_t bimodal[CV_TAGE_BIMODAL]; /* 0..3; taken from 2 on */
    cv_tage_entry tagged[CV_TAGE_TABLES][CV_TAGE_ENTRIES];
    uint64_t history[4]; /* directions, the latest in bit 0 of the first word */
} cv_tage;

void cv_tage_start(cv_tage *tage);
/* Returns 1 when the branch was mispredicted, and learns. */
int cv_tage_step(cv_tage *tage, uint64_t branch, int taken);

/* ---- targets.c: targets of indirect branches and returns ---- */

#define CV_TARGET_TABLES 2     /* by branch and the last 4, the last 16 targets */
#define CV_TARGET_ENTRIES 8192 /* of each of them */
#define CV_TARGET_LAST 2048    /* entries by branch alone */
#define CV_RETURNS 32          /* depth of the return stack */

typedef struct {
    uint64_t key; /* 0: empty */
    uint64_t target;
} cv_target_entry;

typedef struct {
    cv_target_entry by_history[CV_TARGET_TABLES][CV_TARGET_ENTRIES];
    cv_target_entry last[CV_TARGET_LAST];
    uint64_t history; /* four bits a target, at least */
    uint64_t returns[CV_RETURNS];
    uint64_t depth; /* of the stack, including what was lost */
    uint64_t floor; /* entries up to here were overwritten */
} cv_targets;

/* Returns 1 when the indirect jump or call was mispredicted, and learns. */
int cv_targets_step(cv_targets *targets, uint64_t branch, uint64_t target);
void cv_targets_call(cv_targets *targets, uint64_t after);
/* Returns 1 when the return was mispredicted; one from a call that was not seen is not. */
int cv_targets_return(cv_targets *targets, uint64_t target);
/* Forgets calls: what follows is not known to return from them. */
void cv_targets_forget(cv_targets *targets);

#endif
