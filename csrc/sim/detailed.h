/* Inside the detailed engine: levels linked from the core to memory, asked for one line at a time. */
#ifndef CV_SIM_DETAILED_H
#define CV_SIM_DETAILED_H

#include "cv_detailed.h"
#include "policies.h"

#define NO_WAY UINT32_MAX
#define NO_TAG UINT64_MAX /* no line has this number: a line is at least 8 bytes */

/* Bytes first..last, both included, so that the end of the address space needs no care. */
typedef struct {
    uint64_t first, last;
} cv_bytes;

typedef struct {
    uint32_t owner;
    bool prefetch; /* no access: counted apart */
    bool combined; /* a store that need not fetch what it covers */
} cv_cause;

/* Sectors that a level above an exclusive one gets from it. */
typedef struct {
    uint64_t valid, dirty;
} cv_sectors;

typedef struct cv_node cv_node;
typedef struct cv_prefetch cv_prefetch;
typedef struct cv_shadow cv_shadow;
typedef struct cv_combiner cv_combiner;

/* One level of one core, or of all where it is shared. */
struct cv_node {
    cv_detailed_level is;
    cv_detailed *of;
    cv_node *below;  /* NULL: memory */
    cv_node **above; /* of every core */
    uint32_t n_above, number;
    uint32_t line_shift, sector_shift, set_bits;
    uint64_t all;       /* mask of all sectors of a line */
    bool takes_victims; /* exclusive or victim: filled from above only */
    bool stores_allocate;
    bool inclusive_below; /* so that all lines here must be fetched through it */
    const cv_policy *policy;
    cv_level memory; /* what the policy remembers; sets and ways */
    uint64_t *tags, *valid, *dirty;
    uint8_t *fresh; /* a prefetched line that was not used yet */
    cv_prefetch *prefetch;
    cv_shadow *shadow;
    cv_combiner *combiner;
};

/* A line that a prefetcher wants, until the reference that caused it is done. */
typedef struct {
    cv_node *node;
    uint64_t line;
} cv_wish;

struct cv_detailed {
    uint32_t n_levels, n_tlbs, cores, semantics, n_nodes;
    cv_node *nodes;
    cv_node **caches, **tlbs; /* first level of each core */
    uint64_t *counts[2 * CV_DETAILED_MAX_LEVELS];
    uint64_t owners, owners_capacity, owners_limit, references;
    uint32_t groups, burst; /* rows of counts of each owner, and the one in use */
    cv_wish *wishes;
    size_t n_wishes, wishes_capacity;
    bool out_of_memory;
    bool warm;
    uint64_t uncounted[CV_DETAILED_COUNTS]; /* what happens meanwhile */
};

static inline uint64_t cv_row(const cv_detailed *d, uint32_t owner) { return (uint64_t)owner * d->groups + d->burst; }

static inline uint64_t *cv_counts_of(const cv_node *n, uint32_t owner)
{
    assert(n->of->warm || owner < n->of->owners);
    return n->of->warm ? n->of->uncounted : n->of->counts[n->number] + cv_row(n->of, owner) * CV_DETAILED_COUNTS;
}

static inline void cv_count(const cv_node *n, uint32_t owner, enum cv_detailed_count which, uint64_t amount)
{
    cv_counts_of(n, owner)[which] += amount;
}

/* The part of some bytes that lies in a line. */
static inline cv_bytes cv_within(const cv_node *n, uint64_t line, cv_bytes b)
{
    uint64_t first = line << n->line_shift, last = first + n->is.line_bytes - 1;
    return (cv_bytes){b.first > first ? b.first : first, b.last < last ? b.last : last};
}

static inline uint64_t cv_mask_of(uint32_t low, uint32_t high)
{
    return (high == 63 ? UINT64_MAX : (UINT64_C(1) << (high + 1)) - 1) & ~((UINT64_C(1) << low) - 1);
}

/* Sectors of a line that hold one of the bytes (all of which lie in the line). */
static inline uint64_t cv_touched(const cv_node *n, cv_bytes b)
{
    uint64_t mask = n->is.line_bytes - 1;
    return cv_mask_of((uint32_t)((b.first & mask) >> n->sector_shift), (uint32_t)((b.last & mask) >> n->sector_shift));
}

/* Sectors all of whose bytes are among them. */
uint64_t cv_covered(const cv_node *n, cv_bytes b);
/* The lowest run of adjacent sectors of a mask as bytes of a line; takes it out of the mask. */
cv_bytes cv_next_run(const cv_node *n, uint64_t line, uint64_t *mask);

/* detailed_node.c; `above`: the level above, NULL for the first. */
cv_status cv_node_new(cv_node *n, const cv_detailed_level *is, const cv_detailed_level *above);
void cv_node_free(cv_node *n);

/* detailed_index.c */
uint64_t cv_set_of(const cv_node *n, uint64_t line);

/* detailed_level.c: the lines of one level. */
uint32_t cv_find(const cv_node *n, uint64_t set, uint64_t line);
/* Take a line out, with those above that must go with it; returns its sectors, dirty ones of the levels above included. */
cv_sectors cv_take_out(cv_node *n, uint64_t set, uint32_t way, uint32_t owner);
/* Put a line that is not there into its set, and send the line that makes room for it down. */
void cv_put(cv_node *n, uint64_t line, cv_sectors sectors, uint32_t owner, bool prefetched);
/* Put sectors into the line that is there, which counts as used, or in as a new one. */
void cv_install(cv_node *n, uint64_t line, cv_sectors sectors, uint32_t owner);

/* detailed_access.c: requests to a level, of bytes that may lie in several of its lines. */
cv_sectors cv_read(cv_node *n, cv_bytes b, cv_cause cause);
void cv_store(cv_node *n, cv_bytes b, cv_cause cause);
/* Ask the level below for sectors of a line. */
cv_sectors cv_fetch(cv_node *n, uint64_t line, uint64_t missing, cv_cause cause);
/* detailed_write_back.c: a line that left goes to the level below. */
void cv_send_down(cv_node *n, uint64_t line, cv_sectors sectors, uint32_t owner);

/* detailed_cachegrind.c */
void cv_cachegrind(cv_node *n, cv_bytes b, uint32_t owner);

/* detailed_prefetch.c */
cv_status cv_prefetch_new(cv_node *n);
void cv_prefetch_free(cv_prefetch *p);
/* Learn from an access; `news`: it missed or was the first use of a prefetched line. */
void cv_prefetch_learn(cv_node *n, uint64_t line, uint64_t address, uint32_t owner, bool news);
void cv_prefetch_run(cv_detailed *d, uint32_t owner);

/* detailed_classify.c */
cv_status cv_shadow_new(cv_node *n);
void cv_shadow_free(cv_shadow *s);
/* Note an access; says why it missed, if it did. */
enum cv_detailed_count cv_shadow_touch(cv_node *n, uint64_t line, uint64_t sectors);

/* detailed_combine.c */
cv_status cv_combiner_new(cv_node *n);
void cv_combiner_free(cv_combiner *c);
void cv_combine(cv_node *n, cv_bytes b, uint32_t owner);
/* Send what is held of a line, because it is about to be read. */
void cv_combiner_release(cv_node *n, uint64_t line);
/* detailed_access.c: send combined bytes of one line. */
void cv_send_store(cv_node *n, cv_bytes b, cv_cause cause);

#endif
