/* Inside the simulator: how references travel through the levels.
 *
 * References are handled in batches. A batch becomes an array of records, which the first level turns into a shorter array of
 * records for the second (its misses and the dirty lines it pushed out, in order), and so on. A record is one word:
 *
 *   bits 47..0  line: the line number, its 4 GiB-like region renumbered densely (regions.c)
 *   bit  48     flag: a write (first level) or a write-back from the level above (deeper levels)
 *   bits 63..49 index of the reference in its batch, through which its owner is found when a miss is counted */
#ifndef CV_SIM_INTERNAL_H
#define CV_SIM_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cv_sim.h"

#define LINE_BITS 48
#define LINE_MASK ((UINT64_C(1) << LINE_BITS) - 1)
#define FLAG (UINT64_C(1) << LINE_BITS)
#define INDEX_SHIFT (LINE_BITS + 1)
#define BATCH 8192 /* references of a batch; at most 1 << (64 - INDEX_SHIFT) */

/* Dense numbers of the address regions that a stream touches. */
#define REGION_BITS 26 /* log2 of the lines of a region */
#define REGIONS_DIRECT UINT64_C(1024)
#define REGIONS_MAX (UINT64_C(1) << (LINE_BITS - REGION_BITS))

typedef struct {
    uint64_t *keys; /* region + 1, 0 where empty; open addressing */
    uint32_t *ids;
    uint64_t *region_of; /* of the ids from REGIONS_DIRECT on */
    size_t capacity, used;
    uint64_t last_region, last_id;
} regions;

cv_status cv_regions_new(regions *r);
void cv_regions_free(regions *r);
/* Dense line number of a line; CV_ERROR_LIMIT or CV_ERROR_MEMORY. */
cv_status cv_regions_translate(regions *r, uint64_t line, uint64_t *dense);
/* One more than the largest region number that dense lines can have. */
static inline uint64_t regions_end(const regions *r) { return REGIONS_DIRECT + 2 * r->used; }

/* One level of one hierarchy: rows of tags in recency order, most recent first. */
typedef struct level level;
/* Run `n` records through a level; returns the number of records for the next level, written to `out` (room for 2 n). */
typedef size_t (*level_run)(level *l, const uint64_t *in, size_t n, uint64_t *out);

struct level {
    level_run run;
    uint64_t *rows; /* sets x ways: tag, TAG_DIRTY */
    uint64_t sets;
    uint32_t ways;
    uint32_t shift; /* log2(sets) where that is whole */
    bool power_of_two;
    bool first;
    uint64_t magic;    /* ceil(2^64 / sets): division by multiplication */
    uint32_t *offsets; /* per region number: what makes (dense line + offset) mod sets the set of the true line */
    uint64_t offsets_end;
    uint64_t *misses, *write_backs; /* per owner */
};

cv_status cv_level_new(level *l, const cv_sim_level *geometry, bool first);
void cv_level_free(level *l);
/* Learn the regions that appeared since the last call. */
cv_status cv_level_learn_regions(level *l, const regions *r);
/* lru_wide.c */
level_run cv_lru_wide(bool first);

typedef struct {
    uint32_t n_levels;
    level levels[CV_SIM_MAX_LEVELS];
} hierarchy;

/* The hierarchies of one line size share everything before their first levels. */
typedef struct {
    uint32_t line_shift;
    uint32_t hierarchies;
    hierarchy **hierarchy; /* not owned */
    regions regions;
    uint64_t *accesses; /* per owner: lines touched */
    uint64_t *records, *out[2];
    uint64_t *address; /* a batch whose references were split at lines */
    uint32_t *owner;
    uint8_t *write;
} front;

struct cv_sim {
    uint32_t hierarchies, fronts;
    hierarchy *hierarchy;
    front *front;
    uint64_t references, owners, owners_capacity;
};

/* split.c: cut references `*at`.. at line ends until BATCH lines are in f's buffers or the batch is through; returns the lines.
 * `*line` is the next line of reference `*at`, when it was cut in the middle. */
size_t cv_split_lines(const front *f, const cv_refs *refs, size_t *at, uint64_t *line);
/* True when a reference of the batch touches more than one line. */
bool cv_any_straddles(const cv_refs *refs, uint32_t line_shift);

/* counters.c */
cv_status cv_counters_reserve(cv_sim *sim, const cv_refs *refs);
void cv_count_accesses(uint64_t *accesses, const uint32_t *owner, size_t n);
void cv_count_level(level *l, const uint32_t *owner, const uint64_t *out, size_t n);

/* Allocate zeroed memory, on huge pages where the size is worth it. */
void *cv_table_alloc(size_t count, size_t size);

#endif
