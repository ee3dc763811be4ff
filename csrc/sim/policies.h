/* The replacement policies, one file each (policy.h says what a policy is made of). */
#ifndef CV_SIM_POLICIES_H
#define CV_SIM_POLICIES_H

#include "sim.h"

size_t cv_policy_fifo(cv_level *l, const uint64_t *in, size_t n, uint64_t *out);
size_t cv_policy_random(cv_level *l, const uint64_t *in, size_t n, uint64_t *out);
size_t cv_policy_tree_plru(cv_level *l, const uint64_t *in, size_t n, uint64_t *out);
size_t cv_policy_bit_plru(cv_level *l, const uint64_t *in, size_t n, uint64_t *out);
size_t cv_policy_srrip(cv_level *l, const uint64_t *in, size_t n, uint64_t *out);

/* Set up a level with a policy other than LRU; CV_ERROR_ARGUMENT when the policy is unknown or cannot have so many ways. */
cv_status cv_policy_level(cv_level *l);

#endif
