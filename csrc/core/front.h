/* What the core has near: targets of taken branches that the front end knows at once, lines of code in its cache, and pages whose
 * translations loads find at once. All are sets whose entries lie in the order of their last use. They outlast gaps between paths: the
 * code of a program stays. */
#ifndef CV_CORE_FRONT_H
#define CV_CORE_FRONT_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CODE_WAYS 8
#define PAGE_WAYS 8
#define PAGE_SHIFT 12
#define DECODED_SLOTS 8 /* of an entry of the cache of decoded code, which holds no more than a line */

typedef struct {
    uint64_t *key; /* sets * ways, + 1; 0: empty */
    uint32_t sets, ways;
} near_sets;

/* Room for so many entries, none: nothing is kept, and all counts as near. */
static inline int near_new(near_sets *n, uint32_t entries, uint32_t ways)
{
    n->ways = ways;
    n->sets = entries ? (entries + ways - 1) / ways : 0;
    n->key = calloc((size_t)n->sets * ways + 1, sizeof *n->key);
    return n->key != NULL;
}

/* Is the entry near? It is from now on. */
static inline int near_use(near_sets *n, uint64_t set, uint64_t key)
{
    if (!n->sets)
        return 1;
    uint64_t *const first = n->key + (n->sets & (n->sets - 1) ? set % n->sets : set & (n->sets - 1)) * n->ways;
    uint64_t before = first[0];
    first[0] = key + 1;
    for (uint32_t at = 1; at < n->ways && before != key + 1; at++) {
        const uint64_t next = first[at];
        first[at] = before;
        before = next;
    }
    return before == key + 1;
}

#endif
