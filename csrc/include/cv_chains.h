/* Chains of loads along executed paths: which references wait for each other, and how far apart stores and loads of the same bytes are.
 *
 * Values are followed from load to address through registers and memory (cv_flow.h), over any number of segments. An out-of-order core
 * has a few hundred instructions in flight: in each stretch of as many, the longest chain of loads whose addresses need one another's
 * values is what cannot overlap. Its members are counted as serial. In a list each node's load is; in a gather two of a stretch's
 * loads; of four lists walked side by side every fourth. A load of bytes that were stored within the same number of instructions is
 * forwarded: it waits for the store's value, but no cache serves it, so it is no member of a chain. */
#ifndef CV_CHAINS_H
#define CV_CHAINS_H

#include <stddef.h>
#include <stdint.h>

#include "cv_paths.h"
#include "cv_status.h"
#include "cv_trace.h"

#define CV_CHAIN_STRETCH 512 /* instructions: the order of today's re-order buffers */

/* Per site, over the references of windows that are not warm-up. */
typedef struct {
    uint64_t references; /* that were walked */
    uint64_t split;      /* ... and touched two lines */
    uint64_t forwarded;  /* loads of what was just stored */
    uint64_t serial;     /* loads on the longest chain of their stretch */
    uint64_t bringing;   /* loads that bring the line of such a load: the first of those in it that waited as long */
} cv_chain_counts;

typedef struct cv_chains cv_chains;

/* `trace` says what the segments are and must live as long. NULL when there is no memory. */
cv_chains *cv_chains_new(const cv_trace *trace);
void cv_chains_free(cv_chains *chains);

/* A reader of paths (cv_paths_add_sink). */
cv_status cv_chains_sink(void *chains, const cv_path *path);
/* Counts the stretch that is not full yet; at the end of the run. */
void cv_chains_finish(cv_chains *chains);

/* An array that stays valid until the next piece, of the sites walked so far. */
size_t cv_chains_counts(const cv_chains *chains, const cv_chain_counts **counts);
/* Instructions and loads walked (warm-up included), and the sum of the longest chains of all stretches. */
void cv_chains_totals(const cv_chains *chains, uint64_t *instructions, uint64_t *loads, uint64_t *chained);

#endif
