/* What the decoder tells a builder of paths (cv_paths.h). */
#ifndef CV_TRACE_PATHS_H
#define CV_TRACE_PATHS_H

#include "cv_paths.h"

/* `records` visits of one segment, their heads and words one after another from `at` on. */
cv_status cv_paths_visits(cv_paths *paths, cv_trace *trace, uint32_t segment, const uint64_t *at, size_t records);
/* Visits were left out here: what follows does not continue what came before. */
cv_status cv_paths_gap(cv_paths *paths);
/* A control record; called after the decoder has changed its own state. */
cv_status cv_paths_control(cv_paths *paths, const cv_batch *now, unsigned kind);
cv_status cv_paths_flush(cv_paths *paths);

#endif
