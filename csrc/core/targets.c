/* Where indirect jumps, calls and returns go (ITTAGE, after Seznec 2011): tables with histories of 8 to 200 bits beside one by branch
 * alone. The longest history that knows the branch decides. */
#include "predictors.h"

static const unsigned history_length[CV_TARGET_TABLES] = {8, 24, 72, 200};

/* After a misprediction: a new entry in a table with a longer history, where one that was not right of late can go. */
static void allocate(cv_targets *targets, cv_target_entry *const *entry, const uint64_t *key, int provider, uint64_t target)
{
    for (int table = cv_history_table(&targets->random, provider, CV_TARGET_TABLES); table < CV_TARGET_TABLES; table++) {
        if (entry[table]->sure) {
            entry[table]->sure--;
            continue;
        }
        *entry[table] = (cv_target_entry){key[table], target, 0};
        return;
    }
}

int cv_targets_step(cv_targets *targets, cv_history *history, uint64_t branch, uint64_t target)
{
    cv_target_entry *const last = &targets->last[branch % CV_TARGET_LAST], *entry[CV_TARGET_TABLES];
    uint64_t key[CV_TARGET_TABLES], predicted = last->key == branch ? last->target : 0;
    int provider = -1;
    for (int table = CV_TARGET_TABLES - 1; table >= 0 && provider < 0; table--) {
        key[table] = cv_history_hash(history, history_length[table], (unsigned)table, branch) | 1; /* 0 marks an empty entry */
        entry[table] = &targets->by_history[table][(key[table] >> 1) % CV_TARGET_ENTRIES];
        if (entry[table]->key == key[table])
            provider = table;
    }
    if (provider >= 0) {
        cv_target_entry *const own = entry[provider];
        predicted = own->target;
        if (own->target == target)
            own->sure += own->sure < 3;
        else if (own->sure)
            own->sure--;
        else
            own->target = target;
    }
    *last = (cv_target_entry){branch, target, 0};
    if (predicted != target)
        allocate(targets, entry, key, provider, target);
    /* The product's high bits: low bits of the targets alone would make aligned handlers look alike. */
    cv_history_add(history, target * UINT64_C(0x9e3779b97f4a7c15) >> 60, 4);
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
