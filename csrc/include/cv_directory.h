/* Which lines pass from thread to thread: a directory of last writers and sharers, fed with the references of all threads in the order of
 * the run.
 *
 * A thread has a line while nobody else has stored to it since the thread touched it. It loads one that it does not have from the thread
 * that stored to it last (CV_HANDED_LOAD); and before a store to a line that others touched since its own last store, it takes it from
 * them (CV_HANDED_STORE). What that costs depends on caches: whether a core still has its copy follows from how many other lines its
 * thread touched since, which is counted exactly (the LRU stack distance). */
#ifndef CV_DIRECTORY_H
#define CV_DIRECTORY_H

#include "cv_refs.h"
#include "cv_status.h"

enum cv_handed { CV_HANDED_LOAD = 0, CV_HANDED_STORE = 1 };

/* Steps of distances: four to each doubling. Distances of a step or more and less than the next one are alike. */
#define CV_DIRECTORY_STEPS 128
#define CV_DIRECTORY_NEVER 255 /* the thread had not touched the line before */

/* How many references of an owner got a line from another thread. `own`: step of the distance since the thread itself touched the line,
 * `other`: since the one did that had it. */
typedef struct {
    uint32_t owner;
    uint8_t kind; /* enum cv_handed */
    uint8_t own;
    uint8_t other;
    uint8_t reserved;
    uint64_t count;
} cv_handed_count;

typedef struct cv_directory cv_directory;

cv_directory *cv_directory_new(uint32_t line_bytes); /* a power of two */
void cv_directory_free(cv_directory *directory);
/* References of one thread, one after another. CV_ERROR_ARGUMENT for no size. */
cv_status cv_directory_feed(cv_directory *directory, uint32_t thread, const cv_refs *refs);
/* All counts, in no order; at most `room`. */
size_t cv_directory_counts(const cv_directory *directory, cv_handed_count *out, size_t room);
/* The least distance of a step, in lines. */
uint64_t cv_directory_least(uint32_t step);

#endif
