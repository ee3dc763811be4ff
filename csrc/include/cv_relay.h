/* Simulators on threads of their own, fed by one decoder: the decoder fills one buffer with batches while all simulators read the
 * other. Each simulator gets every reference of windows in order; simulators that select different sets (cv_sim_select) share the
 * work without sharing anything else, so that their counts add up to those of one. */
#ifndef CV_RELAY_H
#define CV_RELAY_H

#include "cv_sim.h"
#include "cv_trace.h"

typedef struct cv_relay cv_relay;

/* The simulators stay the caller's and must outlive the relay's threads. */
cv_status cv_relay_new(cv_sim *const *simulators, uint32_t count, cv_relay **relay);
/* A sink (cv_batch_sink). Returns the first error of any simulator so far. */
cv_status cv_relay_sink(void *relay, const cv_refs *refs, const cv_batch *batch);
/* Wait until all references so far are simulated; the simulators may be read then. */
cv_status cv_relay_drain(cv_relay *relay);
/* End the threads, in the middle of their work if need be: nobody may read the counts then. What is fed from then on is refused. */
void cv_relay_stop(cv_relay *relay);
void cv_relay_free(cv_relay *relay);

#endif
