/* Executed paths: the visits of a trace's windows in the order of execution, thread by thread, with their references.
 *
 * Where the tracer records visits of all segments (bursts, by default), each visit of a piece is followed by the segment that the
 * same thread executed next. A piece is one thread's path within one window, cut where another thread goes on and at the length that
 * the builder was made with. Memory is bounded by that length. */
#ifndef CV_PATHS_H
#define CV_PATHS_H

#include <stddef.h>
#include <stdint.h>

#include "cv_status.h"
#include "cv_trace.h"

#define CV_PATH_UNKNOWN UINT32_MAX

typedef struct {
    uint64_t window; /* bursts opened so far; 0 when the run is not cut into bursts */
    uint32_t thread;
    uint32_t continues; /* 1: the path goes on where this thread's last piece ended; 0: what came before is not known */
    uint32_t following; /* segment executed right after the last visit, or CV_PATH_UNKNOWN */
    size_t visits, references;
    size_t warm_visits;              /* as many at the beginning are warm-up */
    const uint32_t *segments;        /* id of each visit's segment */
    const uint32_t *first_reference; /* of each visit; one element more than visits, so that the last one's end is there, too */
    const uint64_t *addresses;
    const uint32_t *sites;
} cv_path;

/* Eats one piece, whose arrays are the builder's own; anything but CV_OK stops decoding and is returned to the caller. */
typedef cv_status (*cv_path_sink)(void *context, const cv_path *path);

typedef struct cv_paths cv_paths;

/* Pieces of at most max_visits visits (and of at most eight times as many references, the last visit's apart). `warmup`: windows begin
 * with a warm-up whose end is marked. NULL when there is no memory. */
cv_paths *cv_paths_new(size_t max_visits, int warmup);
void cv_paths_free(cv_paths *paths);
/* Sinks are called in the order in which they were added. */
cv_status cv_paths_add_sink(cv_paths *paths, cv_path_sink sink, void *context);
/* Of long windows a part tells shares as well: after the first `whole` pieces of a window, only one in `every` is built. */
void cv_paths_thin(cv_paths *paths, size_t whole, size_t every);
/* Build paths from what `trace` decodes from now on; the builder must live as long. */
void cv_trace_build_paths(cv_trace *trace, cv_paths *paths);
/* Decode nothing else from now on: no batches, no features. */
void cv_trace_paths_alone(cv_trace *trace);

#endif
