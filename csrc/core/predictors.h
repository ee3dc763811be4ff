/* The predictors of cv_branch.h. All of them start empty and are deterministic. */
#ifndef CV_PREDICTORS_H
#define CV_PREDICTORS_H

#include "cv_branch.h"

#include <stddef.h>
#include <stdint.h>

/* ---- what branches did before ---- */

#define CV_HISTORY_WORDS 4

/* A bit for each conditional branch, four for the target of each indirect one; the latest are the low bits of the first word. */
typedef struct {
    uint64_t word[CV_HISTORY_WORDS];
} cv_history;

static inline void cv_history_add(cv_history *history, uint64_t value, unsigned bits)
{
    for (int word = CV_HISTORY_WORDS - 1; word; word--)
        history->word[word] = history->word[word] << bits | history->word[word - 1] >> (64 - bits);
    history->word[0] = history->word[0] << bits | value;
}

/* Hash of a branch and the last `length` bits, for the table of that length. */
static inline uint64_t cv_history_hash(const cv_history *history, unsigned length, unsigned table, uint64_t branch)
{
    uint64_t h = (branch + table) * UINT64_C(0x9e3779b97f4a7c15);
    for (unsigned word = 0; word < CV_HISTORY_WORDS && length > 64 * word; word++) {
        const unsigned rest = length - 64 * word;
        h = (h ^ (rest < 64 ? history->word[word] & ((UINT64_C(1) << rest) - 1) : history->word[word])) * UINT64_C(0xd6e8feb86659fd93);
        h ^= h >> 32;
    }
    return h;
}

/* The table from which to look for room for a new entry: that of the next longer history, half of the time the one after, and so on.
 * Otherwise branches that share an entry would drive each other out forever. */
static inline int cv_history_table(uint64_t *random, int provider, int tables)
{
    int table = provider + 1;
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    for (uint64_t bits = *random >> 32; table + 1 < tables && bits & 1; bits >>= 1)
        table++;
    return table;
}

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
    uint8_t own[CV_TAGE_BIMODAL];     /* the same, learned also where tables decide: what fetch goes by until they answer */
    cv_tage_entry tagged[CV_TAGE_TABLES][CV_TAGE_ENTRIES];
    uint64_t random; /* where the next entry goes */
} cv_tage;

void cv_tage_start(cv_tage *tage);
/* Returns CV_VISIT_MISPREDICTED, CV_VISIT_OVERRIDDEN or 0, and learns. */
unsigned cv_tage_step(cv_tage *tage, cv_history *history, uint64_t branch, int taken);

/* ---- targets.c: targets of indirect branches and returns ---- */

#define CV_TARGET_TABLES 4
#define CV_TARGET_ENTRIES 384 /* of each of them: random patterns of 1,024 targets are foreseen on Raptor Cove, of 2,048 half */
#define CV_TARGET_LAST 2048   /* entries by branch alone */
#define CV_RETURNS 32         /* depth of the return stack */

typedef struct {
    uint64_t key; /* 0: empty */
    uint64_t target;
    uint32_t sure; /* 0..3: how often it was right of late */
} cv_target_entry;

typedef struct {
    cv_target_entry by_history[CV_TARGET_TABLES][CV_TARGET_ENTRIES];
    cv_target_entry last[CV_TARGET_LAST];
    uint64_t random; /* where the next entry goes */
    uint64_t returns[CV_RETURNS];
    uint64_t depth; /* of the stack, including what was lost */
    uint64_t floor; /* entries up to here were overwritten */
} cv_targets;

/* Returns 1 when the indirect jump or call was mispredicted, and learns. */
int cv_targets_step(cv_targets *targets, cv_history *history, uint64_t branch, uint64_t target);
void cv_targets_call(cv_targets *targets, uint64_t after);
/* Returns 1 when the return was mispredicted; one from a call that was not seen is not. */
int cv_targets_return(cv_targets *targets, uint64_t target);
/* Forgets calls: what follows is not known to return from them. */
void cv_targets_forget(cv_targets *targets);

#endif
