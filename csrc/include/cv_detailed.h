/* Cache simulation reference by reference, for hierarchies that the fast engine (cv_sim.h) has no way to do: write-through, no
 * write-allocate, write combining, inclusive, exclusive and victim levels, sectors, line sizes that differ, hashed indices, prefetchers,
 * TLBs, levels shared by several cores, misses by cause. For a hierarchy that both can do, both count the same.
 *
 * Meaning (docs/cache-model.md): a level is asked by reads and by stores, which are its accesses, and gets write-backs, castouts and
 * prefetches, which are none. Counts are charged to the owner of the reference that caused them. */
#ifndef CV_DETAILED_H
#define CV_DETAILED_H

#include "cv_refs.h"
#include "cv_sim.h"
#include "cv_status.h"

#define CV_DETAILED_MAX_LEVELS 8
#define CV_DETAILED_MAX_CORES 65536
#define CV_DETAILED_MAX_LINE (UINT64_C(1) << 30) /* pages of a TLB are lines too */

/* How a level is filled, in relation to those above it (nearer to the core). */
enum cv_inclusion {
    CV_NON_INCLUSIVE = 0,
    CV_INCLUSIVE = 1, /* a line that leaves it leaves all levels above; no line above is larger */
    CV_EXCLUSIVE = 2, /* filled by all lines that leave the level above, which has the same lines; a hit moves the line up */
    CV_VICTIM = 3     /* filled likewise; a hit leaves the line where it is */
};

/* How the set of a line is found. */
enum cv_index {
    CV_INDEX_MODULO = 0,
    CV_INDEX_XOR = 1, /* exclusive or of all groups of log2(sets) bits of the line number; sets: a power of two */
    CV_INDEX_INTEL_SLICES =
        2, /* a slice by the parities that Maurice et al. found (RAID 2015), a set within it by modulo; slices: 2, 4, 8 */
    CV_INDEX_MIXED_SLICES = 3, /* a slice by a hash of the line number, any number of slices */
    CV_INDEX_PAGE_FRAMES = 4   /* by physical addresses, with pages of 4 KiB in frames at random; sets: a power of two */
};

enum cv_prefetcher {
    CV_PREFETCH_NONE = 0,
    CV_PREFETCH_NEXT_LINE = 1,
    CV_PREFETCH_STRIDE = 2, /* by owner */
    CV_PREFETCH_STREAM = 3
};

/* What a write does, for comparison with other simulators. */
enum cv_semantics {
    CV_WRITE_BACK = 0,     /* as each level says */
    CV_NO_WRITE_BACKS = 1, /* a write is a read (PEBIL, drcachesim) */
    CV_CACHEGRIND = 2,     /* likewise, and a reference to two lines is one access and at most one miss */
    CV_PYCACHESIM = 3      /* a store or write-back that hits does not promote; a write-back that misses is an access */
};

typedef struct {
    uint64_t sets;
    uint64_t line_bytes;
    uint64_t sector_bytes; /* unit of validity and of transfer; a power of two from line_bytes / 64 to line_bytes */
    uint64_t seed;         /* of random policies */
    uint32_t ways;
    uint32_t policy; /* enum cv_sim_policy */
    uint32_t inclusion;
    uint32_t write_through;
    uint32_t no_allocate; /* a store that misses goes on to the next level */
    uint32_t combining;   /* entries of the buffer that combines the stores which leave this level; 0: none, at most 64 */
    uint32_t index;
    uint32_t slices; /* divides sets */
    uint32_t prefetcher;
    uint32_t degree;   /* lines that a prefetcher asks for at once, 1 .. 64 */
    uint32_t entries;  /* of the prefetcher's table, 1 .. 65536 */
    uint32_t shared;   /* by all cores; so are the levels below */
    uint32_t classify; /* tell misses by cause */
} cv_detailed_level;

enum cv_detailed_count {
    CV_COUNT_ACCESSES = 0,
    CV_COUNT_MISSES,
    CV_COUNT_WRITE_BACKS,        /* dirty lines that left, or write-backs that went on to the next level */
    CV_COUNT_WRITES_THROUGH,     /* stores that went on to the next level */
    CV_COUNT_FETCHES,            /* requests to the next level, other than for prefetches */
    CV_COUNT_CASTOUTS,           /* clean lines handed to an exclusive or victim level */
    CV_COUNT_BACK_INVALIDATIONS, /* lines that left because an inclusive level below lost them */
    CV_COUNT_FILLS,              /* lines that came, for any reason */
    CV_COUNT_EVICTIONS,          /* lines that left, for any reason */
    CV_COUNT_PREFETCHES,         /* issued by this level's prefetcher: lines that were not there */
    CV_COUNT_USEFUL_PREFETCHES,  /* of them, accessed before they left */
    CV_COUNT_UNUSED_PREFETCHES,  /* of them, gone without */
    CV_COUNT_COMPULSORY,         /* misses by cause, where asked for */
    CV_COUNT_CAPACITY,
    CV_COUNT_CONFLICT,
    CV_COUNT_BYTES_READ,    /* from the next level, prefetches included */
    CV_COUNT_BYTES_WRITTEN, /* to the next level */
    CV_DETAILED_COUNTS
};

typedef struct cv_detailed cv_detailed;

/* Make the hierarchy of `cores` cores: `n_levels` caches, nearest first, and `n_tlbs` levels of a TLB (lines are pages; policy, ways and
 * sets apply). CV_ERROR_ARGUMENT for what cannot be. */
cv_status cv_detailed_new(const cv_detailed_level *levels, uint32_t n_levels, const cv_detailed_level *tlbs, uint32_t n_tlbs,
                          uint32_t cores, uint32_t semantics, cv_detailed **made);

/* References fed from now on are warm-up, or no more: they change the caches and nothing is counted for them. */
void cv_detailed_warm(cv_detailed *d, int on);

/* Keep the counts of each owner in CV_SIM_GROUPS groups, by the number of the burst that is fed modulo the groups; before the first
 * feed. */
cv_status cv_detailed_group_bursts(cv_detailed *d);
/* What is fed from now on belongs to this burst; means nothing where bursts are not distinguished. */
void cv_detailed_burst(cv_detailed *d, uint64_t number);

/* Simulate references of one core, one after another. */
cv_status cv_detailed_feed(cv_detailed *d, uint32_t core, const cv_refs *refs);

/* Refuse references whose owner is `owners` or more with CV_ERROR_LIMIT. */
cv_status cv_detailed_limit_owners(cv_detailed *d, uint64_t owners);

uint32_t cv_detailed_cores(const cv_detailed *d);
uint64_t cv_detailed_references(const cv_detailed *d);
uint64_t cv_detailed_owners(const cv_detailed *d);

/* Counts of a level (caches, then TLBs; the cores' together): rows of CV_DETAILED_COUNTS numbers, one row for each owner, or where
 * they are grouped CV_SIM_GROUPS of them. */
cv_status cv_detailed_counts(const cv_detailed *d, uint32_t level, uint64_t *rows);

void cv_detailed_free(cv_detailed *d);

#endif
