/* Where indirect jumps, calls and returns go. An indirect branch is looked up with the last 16 targets, which tells the places of an
 * interpreted program apart, where that is not known with the last four, and at last by itself. */
#include "predictors.h"

static uint64_t mix(uint64_t branch, uint64_t history)
{
    uint64_t h = (branch + history * UINT64_C(0xd6e8feb86659fd93)) * UINT64_C(0x9e3779b97f4a7c15);
    return (h ^ h >> 32) | 1; /* 0 marks an empty entry */
}

int cv_targets_step(cv_targets *targets, uint64_t branch, uint64_t target)
{
    static const unsigned history_bits[CV_TARGET_TABLES] = {16, 64};
    cv_target_entry *last = &targets->last[branch % CV_TARGET_LAST];
    uint64_t predicted = last->key == branch ? last->target : 0;
    *last = (cv_target_entry){branch, target};
    for (int table = 0; table < CV_TARGET_TABLES; table++) {
        uint64_t key = mix(branch, targets->history << (64 - history_bits[table]));
        cv_target_entry *entry = &targets->by_history[table][(key >> 1) % CV_TARGET_ENTRIES];
        if (entry->key == key)
            predicted = entry->target;
        *entry = (cv_target_entry){key, target};
    }
    /* The product's high bits: low bits of the targets alone would make aligned handlers look alike. */
    targets->history = targets->history << 4 ^ target * UINT64_C(0x9e3779b97f4a7c15) >> 48;
    return predicted != target;
}

void cv_targets_call(cv_targets *targets, uint64_t after)
{
    targets->returns[targets->depth++ % CV_RETURNS] = after;
    if (targets->depth > targets->floor + CV_RETURNS)
        targets->floor = targets->depth - CV_RETURNS;
}

int cv_targets_return(cv_targets *targets, uint64_t target)
{
    if (!targets->depth)
        return 0;
    targets->depth--;
    if (targets->depth < targets->floor) {
        targets->floor = targets->depth;
        return 1; /* the call was seen, but the stack was too small */
    }
    return targets->returns[targets->depth % CV_RETURNS] != target;
}

void cv_targets_forget(cv_targets *targets) { targets->depth = targets->floor = 0; }
