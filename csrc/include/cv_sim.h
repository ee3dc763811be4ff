/* Exact cache simulation of N hierarchies in one pass over a stream of references. Levels that hierarchies have in common from the
 * first one on are simulated once.
 *
 * Model (docs/cache-model.md): set-associative levels with exact LRU, write-back, write-allocate. A reference that straddles
 * a line touches each line once; each line touched is one access. A miss of level k is an access of level k + 1. A dirty line
 * that leaves a level is a write of the whole line to the next one, after the access that pushed it out: it promotes the line
 * there or allocates it without a fetch, and counts as a write-back of the level it leaves, never as an access or a hit (Dinero
 * IV's meaning). Misses and write-backs are charged to the owner of the reference that caused them. */
#ifndef CV_SIM_H
#define CV_SIM_H

#include "cv_refs.h"
#include "cv_status.h"

#define CV_SIM_MAX_LEVELS 8
#define CV_SIM_MAX_WAYS 64
#define CV_SIM_MAX_SETS (UINT64_C(1) << 26)

/* Replacement policies. All but LRU take about five times as long as LRU and have no vector path. */
enum cv_sim_policy {
    CV_SIM_LRU = 0,
    CV_SIM_FIFO = 1,
    CV_SIM_RANDOM = 2,
    CV_SIM_TREE_PLRU = 3, /* ways: a power of two */
    CV_SIM_BIT_PLRU = 4,
    CV_SIM_SRRIP = 5,
    CV_SIM_DRRIP = 6, /* its sets depend on each other: not with cv_sim_select */
    CV_SIM_NMRU = 7
};

typedef struct {
    uint64_t sets;       /* 1 .. CV_SIM_MAX_SETS, any number */
    uint32_t ways;       /* 1 .. CV_SIM_MAX_WAYS */
    uint32_t line_bytes; /* a power of two, 8 .. 4096; equal within a hierarchy */
    uint32_t policy;     /* enum cv_sim_policy */
    uint32_t own;        /* 1: each thread has one for itself (cv_sim_thread); the levels before it, too */
    uint32_t parts;      /* else: thread t has number t / adjacent % parts of so many; 0: all threads share one */
    uint32_t adjacent;   /* 0: 1 */
    uint32_t frames;     /* 1: as CV_INDEX_PAGE_FRAMES (cv_detailed.h); sets: a power of two, policy: another than LRU */
} cv_sim_level;

typedef struct cv_sim cv_sim;

/* Make a group of hierarchies. `levels` holds the levels of all hierarchies one after another, nearest first; hierarchy h has
 * `n_levels[h]` of them. CV_ERROR_ARGUMENT for an impossible geometry. */
cv_status cv_sim_new(const cv_sim_level *levels, const uint32_t *n_levels, uint32_t hierarchies, cv_sim **sim);

/* Simulate only the lines whose number has `value` in the bits of `mask`; nothing else is counted. A level whose number of sets is
 * a multiple of mask + 1 does for these lines exactly what it does for them among all others: so 1/n of the sets stands for all, and
 * n simulators with different values have the counts of one. `mask` + 1 is a power of two. To be called before the first feed. */
cv_status cv_sim_select(cv_sim *sim, uint64_t mask, uint64_t value);

/* Keep the counts of each owner in CV_SIM_GROUPS groups, whose differences tell how certain a sample is. To be called before the first
 * feed. By the three bits of the address from `first_bit` on: groups of sets, for a sample of sets. Or by the number of the burst that is
 * fed (cv_sim_burst), modulo the groups. */
#define CV_SIM_GROUPS 8
cv_status cv_sim_group(cv_sim *sim, uint32_t first_bit);
cv_status cv_sim_group_bursts(cv_sim *sim);
/* What is fed from now on belongs to this burst; means nothing where bursts are not distinguished. */
void cv_sim_burst(cv_sim *sim, uint64_t number);

/* Refuse references whose owner is `owners` or more with CV_ERROR_LIMIT, since tables are as large as the largest owner. */
cv_status cv_sim_limit_owners(cv_sim *sim, uint64_t owners);

/* Simulate a batch of any size; how a stream is cut into batches does not matter. Time is bounded by the batch: callers who want
 * to be interruptible feed about a million references at a time. CV_ERROR_LIMIT when the stream touches more distinct address
 * regions than can be numbered (docs/cache-model.md) or has an owner of 2^31
 * or more. After an error the simulator can only be freed. */
cv_status cv_sim_feed(cv_sim *sim, const cv_refs *refs);

/* What is fed from now on is of this thread, which has levels of its own; before, of the first one that is named. Lines that another thread
 * stores to stay where they are: coherence is not modeled. */
#define CV_SIM_MAX_THREADS 65536
cv_status cv_sim_thread(cv_sim *sim, uint32_t thread);

/* What is fed from now on fills the caches and is counted nowhere, or (0) is counted again. */
void cv_sim_warm(cv_sim *sim, int on);

/* What is fed from now on has gaps: references of the same lines were left out in between, and one of `one_in` (at least 2) of all is
 * there. A line that misses, and for which its set still has room, may have come in a gap: one of `one_in` of these misses is counted,
 * the others are no accesses of the level. So a line that comes back many times is missed as seldom as it is among all references;
 * where a set is full, every miss counts. 0: without gaps. */
void cv_sim_gaps(cv_sim *sim, uint32_t one_in);

/* References fed and counted, and one more than the largest owner fed. */
uint64_t cv_sim_references(const cv_sim *sim);
uint64_t cv_sim_owners(const cv_sim *sim);

/* Counts of one level per owner, each array of cv_sim_owners() elements, or of so many times CV_SIM_GROUPS where they are grouped (an
 * owner's groups side by side), or NULL. hits = accesses - misses. */
cv_status cv_sim_counts(const cv_sim *sim, uint32_t hierarchy, uint32_t level, uint64_t *accesses, uint64_t *misses, uint64_t *write_backs);

/* Instruction set in use: "portable", "avx2" or "avx512". The environment variable CONVOLVER_SIMD asks for one of them; one that this
 * processor lacks is replaced by the next lower. The counts are the same. */
const char *cv_sim_simd(const cv_sim *sim);

void cv_sim_free(cv_sim *sim);

#endif
