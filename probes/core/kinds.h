/* Kinds of instructions that are mixed with each other: which ports they share shows in how long mixes take. */
#ifndef CV_PROBE_KINDS_H
#define CV_PROBE_KINDS_H

#include "code.h"

/* What an instruction writes: no two that follow each other write the same register. */
enum cv_family { CV_GENERAL, CV_VECTOR, CV_FAMILIES };

struct cv_kind {
    const char *name;
    const unsigned char *variants; /* a length and so many bytes of code each, one for each register; ended by a length of 0 */
    enum cv_family family;
    int mixed; /* with all other mixed kinds; else it is timed alone */
    int (*supported)(void);
};

extern const struct cv_kind cv_kinds[];
extern const size_t cv_kind_count;

/* One of a kind's variants, number modulo how many there are. */
struct cv_piece cv_variant(const struct cv_kind *kind, unsigned number);

#endif
