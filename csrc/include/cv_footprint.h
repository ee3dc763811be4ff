/* How many different lines a window of w accesses touches, averaged over all windows of that length, for every power of two w in one
 * pass: the average footprint (X. Xiang, B. Bao, C. Ding and Y. Gao, Linear-time modeling of program working set in shared cache, PACT
 * 2011). A line is missing from the windows that fit into its gaps: before its first access, between two, behind its last. */
#ifndef CV_FOOTPRINT_H
#define CV_FOOTPRINT_H

#include "cv_refs.h"
#include "cv_status.h"

#define CV_FOOTPRINT_WINDOWS 48

typedef struct cv_footprint cv_footprint;

/* `line_bytes`: a power of two, at least 8. */
cv_status cv_footprint_new(uint64_t line_bytes, cv_footprint **made);

/* References in the order of the program; each line that one touches is an access. */
cv_status cv_footprint_feed(cv_footprint *f, const cv_refs *refs);

/* Accesses and different lines so far, and for each w = 2^i up to the number of accesses the lines of all windows together; returns how
 * many w there are (room for CV_FOOTPRINT_WINDOWS). The average is lines[i] / (accesses - 2^i + 1). */
uint32_t cv_footprint_result(const cv_footprint *f, uint64_t *accesses, uint64_t *distinct, double *lines);

void cv_footprint_free(cv_footprint *f);

#endif
