/* Which references of an instruction have an address word in a visit. The engine that records and the controller that describes the
 * segment both ask here. */
#ifndef CV_ADDRESS_WORDS_H
#define CV_ADDRESS_WORDS_H

#include "x86_decode.h"

/* Words after those of its references that a repeated instruction has: turns before, turns after, and its pointer after. */
#define CV_REPEAT_WORDS 3

/* An operand without registers is always at the same place. */
static inline int cv_has_word(const struct cv_x86 *x, int reference)
{
    const int where = x->references[reference].where;
    if (where == CV_X86_OPERAND)
        return x->segment || (x->base != CV_X86_RIP && (x->base >= 0 || x->index >= 0));
    return where != CV_X86_ABSOLUTE || x->segment;
}

static inline int cv_words_of(const struct cv_x86 *x)
{
    int words = x->repeated || x->compares ? CV_REPEAT_WORDS : 0;
    if (x->lanes)
        return x->lanes;
    for (int i = 0; i < x->n_references; i++)
        words += cv_has_word(x, i);
    return words;
}

#endif
