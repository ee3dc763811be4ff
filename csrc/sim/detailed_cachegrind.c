/* A reference as cachegrind counts it: one access whether it touches one line or two, and one miss if any of them is missing, which then
 * asks the next level for all of its bytes. Writes are reads. */
#include "detailed.h"

void cv_cachegrind(cv_node *n, cv_bytes b, uint32_t owner)
{
    bool missed = false;
    for (uint64_t line = b.first >> n->line_shift; line <= b.last >> n->line_shift; line++) {
        uint64_t set = cv_set_of(n, line);
        uint32_t way = cv_find(n, set, line);
        missed |= way == NO_WAY;
        if (way == NO_WAY)
            cv_put(n, line, (cv_sectors){n->all, 0}, owner, false);
        else
            n->policy->hit(&n->memory, set, way);
    }
    cv_count(n, owner, CV_COUNT_ACCESSES, 1);
    cv_count(n, owner, CV_COUNT_MISSES, missed);
    cv_count(n, owner, CV_COUNT_FETCHES, missed);
    if (missed && n->below)
        cv_cachegrind(n->below, b, owner);
}
