/* Who touches which words of memory, fed with the references of all threads in the order of the run: what tells lines that threads contend
 * for, and loops in which one waits for another.
 *
 * Contention shows in references that crowd on few lines: they are looked at in pieces of CV_TOUCHES_PIECE references, and of each piece
 * those to lines that have CV_TOUCHES_HOT of them. A loop waits that loads the same few words over and over, stores nothing, and loads one
 * that another thread stores to. */
#ifndef CV_TOUCHES_H
#define CV_TOUCHES_H

#include "cv_refs.h"
#include "cv_status.h"

#define CV_TOUCHES_PIECE 1048576
#define CV_TOUCHES_HOT 32       /* fewer cannot take a program a per cent longer */
#define CV_TOUCHES_TURNS 64     /* that a loop which waits takes at least without a change */
#define CV_TOUCHES_MOST_LOADS 4 /* of such a loop */
#define CV_TOUCHES_WORD_SHIFT 3
#define CV_TOUCHES_LINE_SHIFT 6

enum cv_touches_kind {
    CV_TOUCHES_ALL = 0,   /* by thread and site */
    CV_TOUCHES_LINES = 1, /* to lines that have many in a piece: by word, thread, site and window */
    CV_TOUCHES_WAITS = 2, /* loads of loops that wait: by word, thread and site */
    CV_TOUCHES_KINDS = 3
};

/* How many references. What they are not counted by is 0. */
typedef struct {
    uint64_t word; /* address / 8 */
    uint64_t window;
    uint32_t thread;
    uint32_t site;
    uint64_t count;
} cv_touch_count;

typedef struct cv_touches cv_touches;

cv_touches *cv_touches_new(void);
void cv_touches_free(cv_touches *touches);
/* References of one thread in one window, one after another; owners are sites. */
cv_status cv_touches_feed(cv_touches *touches, uint32_t thread, uint64_t window, const cv_refs *refs);
/* Ends the last piece; nothing is fed after that. */
cv_status cv_touches_end(cv_touches *touches);
/* All counts of a kind, in no order; returns how many there are, and writes at most `room`. */
size_t cv_touches_counts(const cv_touches *touches, enum cv_touches_kind kind, cv_touch_count *out, size_t room);

#endif
