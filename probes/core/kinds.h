/* Kinds of instructions that are mixed with each other: which ports they share shows in how long mixes take. */
#ifndef CV_PROBE_KINDS_H
#define CV_PROBE_KINDS_H

#include "code.h"

/* What an instruction writes: no two that follow each other write the same register. */
enum cv_family { CV_GENERAL, CV_VECTOR, CV_MASK, CV_FAMILIES };

/* What a kind is mixed with: nothing; all that are not of AVX-512; those and AVX-512; AVX-512 and what is mixed with it. On some cores,
 * vectors of 64 bytes close ports to others. */
enum cv_mixing { CV_ALONE, CV_MIXED, CV_BESIDE, CV_WIDE };

struct cv_kind {
    const char *name;
    const unsigned char *variants; /* a length and so many bytes of code each, one for each register; ended by a length of 0 */
    enum cv_family family;
    enum cv_mixing mixing;
    int widest; /* needs registers of 64 bytes */
    int (*supported)(void);
};

extern const struct cv_kind cv_kinds[];
extern const size_t cv_kind_count;

/* One of a kind's variants, number modulo how many there are. */
struct cv_piece cv_variant(const struct cv_kind *kind, unsigned number);

#endif
