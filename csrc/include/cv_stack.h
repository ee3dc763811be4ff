/* Exact LRU stack distances of a stream (Mattson et al., IBM Systems Journal 1970): the distance of an access is how many different
 * other lines were touched since its line was touched before. A fully associative LRU cache of c lines hits exactly the accesses whose
 * distance is below c, so one pass gives the misses of every size. Lines touched by a reference as in cv_sim.h. */
#ifndef CV_STACK_H
#define CV_STACK_H

#include "cv_refs.h"
#include "cv_status.h"

typedef struct cv_stack cv_stack;

/* `line_bytes`: a power of two, 8 .. 4096. */
cv_status cv_stack_new(uint32_t line_bytes, cv_stack **stack);
cv_status cv_stack_feed(cv_stack *stack, const cv_refs *refs);
/* Lines touched for the first time; their number is the footprint in lines. */
uint64_t cv_stack_cold(const cv_stack *stack);
/* Accesses by distance 0, 1, ..: valid until the next feed. Returns how many distances there are. */
uint64_t cv_stack_histogram(const cv_stack *stack, const uint64_t **counts);
void cv_stack_free(cv_stack *stack);

#endif
