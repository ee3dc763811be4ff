/* Inside the simulator: how references travel through the levels.
 *
 * References are handled in batches. Exact front filters (pack_*.c, filter.c) drop references that can change nothing; the others
 * become an array of records, which the first level turns into a shorter array of records for the second (its misses and the
 * dirty lines it pushed out, in order), and so on (lru_*.c). A record is one word:
 *
 *   bits 47..0  line: the line number, its region renumbered densely (regions.c)
 *   bit  48     flag: a write (first level) or a write-back from the level above (deeper levels)
 *   bits 63..49 label: the owner that a miss is charged to, or where an owner of the batch has more bits, the index of the
 *               reference in its batch, through which the owner is found
 *
 * Only misses and write-backs touch the counters of a level (counters.c): hits follow from the accesses. */
#ifndef CV_SIM_INTERNAL_H
#define CV_SIM_INTERNAL_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cv_sim.h"

#define LINE_BITS 48
#define LINE_MASK ((UINT64_C(1) << LINE_BITS) - 1)
#define FLAG (UINT64_C(1) << LINE_BITS)
#define LABEL_SHIFT (LINE_BITS + 1)
#define LABELS (UINT64_C(1) << (64 - LABEL_SHIFT))
#define BATCH 8192  /* references of a batch; at most LABELS */
#define PREFETCH 32 /* records beyond the end of an array that are read to prefetch for them: zeros */
#define HISTORY 8   /* references before a batch that a filter may look at */
#define CACHE_LINE 64

/* Dense numbers of the address regions that a stream touches. */
#define REGION_BITS 26 /* log2 of the lines of a region */
#define REGIONS_DIRECT UINT64_C(1024)
#define REGIONS_MAX (UINT64_C(1) << (LINE_BITS - REGION_BITS))

typedef struct {
    uint64_t *keys; /* region + 1, 0 where empty; open addressing */
    uint32_t *ids;
    uint64_t *region_of; /* of the ids from REGIONS_DIRECT on */
    size_t capacity, used;
    uint64_t recent[2], change[2]; /* the last two regions; what turns their line numbers into dense ones, by exclusive or */
} cv_regions;

cv_status cv_regions_new(cv_regions *r);
void cv_regions_free(cv_regions *r);
/* Dense line number of a line; CV_ERROR_LIMIT or CV_ERROR_MEMORY. The region becomes the most recent one. */
cv_status cv_regions_translate(cv_regions *r, uint64_t line, uint64_t *dense);
/* One more than the largest region number that dense lines can have. */
static inline uint64_t cv_regions_end(const cv_regions *r) { return REGIONS_DIRECT + 2 * r->used; }

/* One level of one hierarchy: rows of tags in recency order, most recent first. */
typedef struct cv_level cv_level;
/* Run `n` records through a level; returns the number of records for the next level, written to `out` (room for 2 n). */
typedef size_t (*cv_level_run)(cv_level *l, const uint64_t *in, size_t n, uint64_t *out);

/* Counters by number (tally.h). */
#define CV_TALLY_LANES 4
typedef struct {
    uint32_t (*lanes)[CV_TALLY_LANES];
    uint64_t *totals;      /* what was folded out of the lanes */
    uint64_t used, folded; /* counters in lanes and in totals */
    uint64_t pending;      /* at least what is in any lane */
} cv_tally;

struct cv_level {
    cv_level_run run;      /* without branches, for levels where hits and misses mix */
    cv_level_run run_hits; /* with a branch, for first levels where most records hit */
    void *rows;            /* sets x stride tags of 32 or 64 bits */
    uint64_t sets;
    uint64_t magic;        /* ceil(2^64 / sets): division by multiplication */
    uint64_t line_limit;   /* lines below it have tags that fit */
    uint32_t ways, stride; /* stride: tags from one row to the next */
    uint32_t page_shift;   /* log2 of the lines of a page where pages lie in frames, else 0 */
    uint32_t shift;        /* of a tag in its line; where sets are a power of two at most its logarithm (level.h) */
    bool power_of_two, first, wide;
    bool frames;              /* pages lie in frames; page_shift may still be 0 */
    bool own;                 /* by thread */
    uint32_t parts, adjacent; /* ... else as in cv_sim_level, at least 1 */
    uint32_t policy;          /* enum cv_sim_policy */
    uint64_t *state;          /* of each set, of other policies than LRU */
    uint8_t *ages;            /* of each way, of some policies */
    uint64_t seed;            /* of policies that choose at random */
    int32_t selector;         /* of DRRIP: who wins the duel */
    uint32_t bimodal;         /* of DRRIP: bimodal fills */
    struct {
        uint32_t
            *offsets; /* per region number: makes (dense line + offset) mod sets the set of the true line; the true region for frames */
        uint64_t offsets_end;
        uint32_t n_threads; /* in `threads` */
        uint32_t fills;     /* misses of references with gaps in sets with room, so far */
        cv_level *threads;  /* lines of those that do not run; empty without any yet, and for the one that runs */
        cv_tally unknown;   /* per owner: accesses that may have hit, of references with gaps */
        cv_tally counts;    /* number 2 owner: misses; 2 owner + 1: write-backs */
    } all;                  /* threads share it */
};

typedef struct cv_simd cv_simd;
bool cv_level_possible(const cv_sim_level *geometry);
/* Of a possible geometry; CV_ERROR_ARGUMENT for an unknown policy or one that cannot have so many ways. */
cv_status cv_level_new(cv_level *l, const cv_sim_level *geometry, bool first, const cv_simd *simd);
void cv_level_free(cv_level *l);
/* Put one thread's lines away and go on with those of another. */
cv_status cv_level_switch(cv_level *l, uint32_t from, uint32_t to, const cv_simd *simd);
/* Prepare for the regions that appeared since the last call and for lines below `line_end`. */
cv_status cv_level_prepare(cv_level *l, const cv_regions *r, uint64_t line_end);

/* Part of a batch on its way into records. */
typedef struct {
    const uint64_t *address; /* of the batch; `history` more lie before it */
    const uint8_t *write;    /* likewise */
    const uint32_t *label;   /* of the batch */
    size_t begin, end;       /* references of the batch to handle now */
    size_t history;          /* references that may be looked at before `begin` */
    uint32_t line_shift;
    cv_regions *regions;
    cv_status status; /* out */
} cv_pack_job;

/* Make records of the references that do not repeat, write for write, the `lag` references before them in windows of `lag`
 * (0: of all); returns their number. Such a window changes nothing in an LRU cache of at least `lag` ways. */
typedef size_t (*cv_pack)(cv_pack_job *job, unsigned lag, uint64_t *records);

/* What is known of a batch before it is simulated. */
typedef struct {
    uint64_t lines; /* all line numbers or-ed, or 0 where they were not asked for */
    uint32_t max_owner;
    bool straddles; /* a reference touches more than one line */
} cv_survey;

/* A batch of references of one line each. */
typedef struct {
    uint64_t *address;
    uint32_t *owner;
    uint8_t *write;
    size_t count;
} cv_lines;

/* Which lines are simulated (cv_sim_select); all where mask is 0. */
typedef struct {
    uint64_t mask, value;
} cv_selection;

/* Where a batch is read: reference `at`, and the next of its lines when it was cut in the middle. */
typedef struct {
    size_t at;
    uint64_t line;
} cv_cursor;

/* The code paths of one instruction set. */
struct cv_simd {
    const char *name;
    cv_pack pack;
    /* `lines`: line numbers are asked for. */
    cv_survey (*survey)(const cv_refs *refs, uint32_t line_shift, bool lines);
    /* Append the selected references of a batch without straddling ones, from the cursor on as far as there is room for sure. */
    void (*select)(cv_lines *lines, const cv_refs *refs, uint32_t line_shift, cv_selection selection, cv_cursor *cursor);
    /* Choose the functions and the row layout of a level with 32-bit tags. */
    void (*level)(cv_level *l);
    /* Add one to the counter of each number, of which none is above `largest`. */
    void (*tally)(cv_tally *t, const uint32_t *id, size_t n, uint32_t largest);
    /* Count (in cv_level.all.counts) the records that leave a level. `owner`: of the batch's references, where labels are indices. */
    void (*charge)(cv_tally *t, const uint32_t *owner, const uint64_t *out, size_t n);
};

extern const cv_simd cv_simd_portable;
#if defined(__x86_64__)
extern const cv_simd cv_simd_avx2, cv_simd_avx512;
#endif
/* The best one that runs here; CONVOLVER_SIMD=portable|avx2|avx512 asks for less. */
const cv_simd *cv_simd_choose(void);
/* lru_wide.c: 64-bit tags, any instruction set. */
void cv_lru_wide(cv_level *l);

/* filter.c: a direct-mapped filter for repeated lines, exact where `slots` divides the sets of every first level. */
#define FILTER_SLOTS 64
typedef struct {
    uint64_t slot[FILTER_SLOTS];
    uint32_t slots; /* in use, a power of two */
} cv_filter;

void cv_filter_reset(cv_filter *filter);
size_t cv_filter_run(cv_filter *filter, const uint64_t *in, size_t n, uint64_t *out);

/* adapt.c: which filters to use, by timing them while simulating. */
typedef struct {
    uint8_t lag;
    bool direct_mapped, hits; /* hits: the first level branches */
} cv_plan;

#define MAX_PLANS 16
typedef struct {
    cv_plan plans[MAX_PLANS];
    double cost[MAX_PLANS]; /* seconds per reference at the last trial */
    uint32_t n_plans, best;
    uint32_t countdown; /* batches until the next trial */
} cv_adapt;

/* Which filters are exact: `longest_lag` 0 allows no lag, `filter_slots` 0 no direct-mapped filter. */
void cv_adapt_new(cv_adapt *a, uint32_t longest_lag, uint32_t filter_slots);
/* Count a batch; true when it should be used to time all plans. */
bool cv_adapt_trial_due(cv_adapt *a, size_t references);
/* Choose by the costs. */
void cv_adapt_decide(cv_adapt *a);

/* A level and how many lie before it. */
typedef struct {
    cv_level *level;
    uint32_t depth;
} cv_stage;

/* The hierarchies of one line size share everything before their first levels, and the levels that they have in common from the
 * first one on. */
typedef struct {
    const cv_simd *simd;
    cv_stage *stages; /* each after the one that it gets its records from, and all that get theirs from there (stages.c) */
    uint32_t n_stages;
    uint32_t line_shift;
    cv_regions regions;
    cv_filter filter;
    cv_adapt adapt;
    bool filter_in_use;
    bool warm;         /* nothing is counted */
    uint32_t gaps;     /* cv_sim_gaps */
    bool after_split;  /* the previous batch had references of several lines: no history */
    bool narrow;       /* a level has too few sets for the lines of the direct regions: they are watched */
    uint64_t line_end; /* dense lines so far that are watched are below it */
    cv_tally accesses; /* per owner: lines touched */
    uint64_t *records[2];
    uint64_t *out[CV_SIM_MAX_LEVELS]; /* records that leave the levels of each depth */
    cv_lines lines;                   /* references that were split or selected */
} cv_front;

typedef struct {
    cv_front *front;
    uint32_t n_levels;
    cv_level *levels[CV_SIM_MAX_LEVELS]; /* the front's */
} cv_hierarchy;

/* Room for the levels of so many hierarchies. */
cv_status cv_front_new(cv_front *f, const cv_simd *simd, uint32_t line_shift, uint32_t hierarchies);
void cv_front_free(cv_front *f);
/* All hierarchies are there. */
void cv_front_complete(cv_front *f);
/* Simulate a batch of at most BATCH references of one line each; `history` more lie before it and were simulated just before.
 */
cv_status cv_front_run(cv_front *f, const cv_refs *batch, size_t history, const cv_survey *survey);

#define NO_THREAD UINT32_MAX

struct cv_sim {
    const cv_simd *simd;
    cv_selection selection;
    bool warm;          /* cv_sim_warm */
    uint32_t groups;    /* of each owner; 1: none */
    uint32_t group_bit; /* cv_sim_group; 0: by burst */
    uint32_t burst;     /* modulo the groups */
    uint32_t thread;    /* cv_sim_thread; NO_THREAD: none was named */
    uint32_t *grouped;  /* owners of a batch */
    uint32_t hierarchies, fronts;
    cv_hierarchy *hierarchy;
    cv_front *front;
    uint64_t references, owners, owners_capacity; /* owners: those with counters, times the groups */
    uint64_t owners_limit;
    struct {
        uint32_t *of; /* an owner's number by first appearance, from 1; 0: not met */
        uint64_t capacity, count;
        uint32_t met;
    } rows; /* of counters, where owners have groups: most owners of a large program are in no sample of it */
};

/* stages.c */
/* Find or make the levels of h, whose front and number of levels are known. */
cv_status cv_stages_add(cv_hierarchy *h, const cv_sim_level *levels);
/* Run `n` records through all levels; `owner` where labels are indices. */
cv_status cv_stages_run(cv_front *f, const uint64_t *records, size_t n, const uint32_t *owner, bool hits);
cv_status cv_stages_switch(cv_front *f, uint32_t from, uint32_t to);
void cv_stages_free(cv_front *f);

/* lines.c */
cv_status cv_lines_new(cv_lines *lines);
void cv_lines_free(cv_lines *lines);
/* Cut references at line ends and append the selected lines, until BATCH are there or the batch is through. */
void cv_lines_split(cv_lines *lines, const cv_refs *refs, uint32_t line_shift, cv_selection selection, cv_cursor *cursor);

/* counters.c */
#define OWNERS_MAX (UINT64_C(1) << 31) /* twice as many counters are numbered in 32 bits */
cv_status cv_counters_reserve(cv_sim *sim, uint64_t owners);
/* Write where the references' counters are: of their owner's row, that of their group. */
cv_status cv_counters_group(cv_sim *sim, const cv_refs *refs, uint32_t *grouped);
cv_status cv_tally_reserve(cv_tally *t, uint64_t used);
/* To be called before n numbers are counted. */
cv_status cv_tally_expect(cv_tally *t, size_t n);
uint64_t cv_tally_get(const cv_tally *t, uint64_t i);
void cv_tally_free(cv_tally *t);

/* Allocate zeroed memory on a cache line, on huge pages where the size is worth it. */
void *cv_table_alloc(size_t count, size_t size);

#endif
