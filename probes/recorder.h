/* Writes the references of kernels as the tracer writes those of a program (csrc/include/cv_wire.h), so that the same tools read both.
 *
 * Like a sampled trace it holds windows, for the first-level cache, and all references to 1 / CV_RECORD_CLASSES of the lines, for the
 * larger ones. What warms the caches up, thinned out, comes before what counts and has sites that all points share. A site is a segment
 * of its own; its file offset is (number of the point) << 16 | number of the site in its source file. */
#ifndef CV_RECORDER_H
#define CV_RECORDER_H

#include "memory.h"

enum cv_record_flags { CV_RECORD_STORE = 1, CV_RECORD_DEPENDENT = 4 }; /* as enum cv_wire_site_flags */

#define CV_RECORD_CLASSES 16u

/* One reference, made by the kernels in recorded/. */
void cv_record(uint64_t address, unsigned size, unsigned flags, unsigned site);

/* Writes the beginning of the stream to stdout: modules 0 to 2 are where the working set, the hot data and the indices lie. */
void cv_record_begin(const struct cv_arena *arena);

/* Writes `wanted` references of a prepared kernel, in whole turns of its loop. With `warm_lines`, those that fill caches of so many
 * lines come before, and further set samples after. */
void cv_record_point(const struct cv_kernel *kernel, struct cv_state *state, uint64_t wanted, uint64_t warm_lines);

/* Writes the end; nonzero when the stream could not be written. */
int cv_record_end(void);

#endif
