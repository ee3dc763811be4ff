/* The lines of one level: find, put, take out. */
#include "detailed.h"

uint64_t cv_covered(const cv_node *n, cv_bytes b)
{
    uint64_t sector = n->is.sector_bytes, mask = n->is.line_bytes - 1;
    uint64_t low = ((b.first & mask) + sector - 1) >> n->sector_shift, end = ((b.last & mask) + 1) >> n->sector_shift;
    return end > low ? cv_mask_of((uint32_t)low, (uint32_t)end - 1) : 0;
}

cv_bytes cv_next_run(const cv_node *n, uint64_t line, uint64_t *mask)
{
    uint32_t low = (uint32_t)__builtin_ctzll(*mask);
    uint64_t after = ~(*mask >> low);
    uint32_t high = low + (after ? (uint32_t)__builtin_ctzll(after) : 64) - 1;
    *mask &= ~cv_mask_of(low, high);
    uint64_t start = line << n->line_shift;
    return (cv_bytes){start + ((uint64_t)low << n->sector_shift), start + (((uint64_t)high + 1) << n->sector_shift) - 1};
}

uint32_t cv_find(const cv_node *n, uint64_t set, uint64_t line)
{
    const uint64_t *tags = n->tags + set * n->is.ways;
    for (uint32_t way = 0; way < n->is.ways; way++)
        if (tags[way] == line)
            return way;
    return NO_WAY;
}

/* Sectors of `n`'s line that hold dirty bytes of lines above; those lines go. */
static uint64_t invalidate_above(cv_node *n, uint64_t line, uint32_t owner);

/* Take one line out of a level above `below` and return its dirty bytes as sectors of below's line. */
static uint64_t invalidate(cv_node *n, uint64_t line, const cv_node *below, uint32_t owner)
{
    uint64_t set = cv_set_of(n, line), dirty = 0;
    uint32_t way = cv_find(n, set, line);
    if (way == NO_WAY)
        return 0;
    cv_count(n, owner, CV_COUNT_BACK_INVALIDATIONS, 1);
    uint64_t own = cv_take_out(n, set, way, owner).dirty;
    while (own)
        dirty |= cv_touched(below, cv_next_run(n, line, &own));
    return dirty;
}

static uint64_t invalidate_all(cv_node *n, cv_bytes b, const cv_node *below, uint32_t owner)
{
    uint64_t dirty = 0;
    for (uint64_t line = b.first >> n->line_shift; line <= b.last >> n->line_shift; line++)
        dirty |= invalidate(n, line, below, owner);
    for (uint32_t i = 0; i < n->n_above; i++)
        dirty |= invalidate_all(n->above[i], b, below, owner);
    return dirty;
}

static uint64_t invalidate_above(cv_node *n, uint64_t line, uint32_t owner)
{
    uint64_t start = line << n->line_shift, dirty = 0;
    for (uint32_t i = 0; i < n->n_above; i++)
        dirty |= invalidate_all(n->above[i], (cv_bytes){start, start + n->is.line_bytes - 1}, n, owner);
    return dirty;
}

cv_sectors cv_take_out(cv_node *n, uint64_t set, uint32_t way, uint32_t owner)
{
    uint64_t at = set * n->is.ways + way;
    assert(way < n->is.ways && n->tags[at] != NO_TAG);
    cv_sectors sectors = {n->valid[at], n->dirty[at]};
    if (n->is.inclusion == CV_INCLUSIVE)
        sectors.dirty |= invalidate_above(n, n->tags[at], owner);
    cv_count(n, owner, CV_COUNT_EVICTIONS, 1);
    cv_count(n, owner, CV_COUNT_UNUSED_PREFETCHES, n->fresh[at]);
    n->tags[at] = NO_TAG;
    n->valid[at] = n->dirty[at] = n->fresh[at] = 0;
    return sectors;
}

void cv_put(cv_node *n, uint64_t line, cv_sectors sectors, uint32_t owner, bool prefetched)
{
    uint64_t set = cv_set_of(n, line), gone = NO_TAG;
    uint32_t way = cv_find(n, set, NO_TAG);
    cv_sectors victim = {0, 0};
    assert(cv_find(n, set, line) == NO_WAY);
    if (way == NO_WAY) {
        way = n->policy->victim(&n->memory, set);
        gone = n->tags[set * n->is.ways + way];
        victim = cv_take_out(n, set, way, owner);
    }
    uint64_t at = set * n->is.ways + way;
    n->tags[at] = line;
    n->valid[at] = sectors.valid;
    n->dirty[at] = sectors.dirty;
    n->fresh[at] = prefetched;
    n->policy->fill(&n->memory, set, way);
    cv_count(n, owner, CV_COUNT_FILLS, 1);
    if (gone != NO_TAG)
        cv_send_down(n, gone, victim, owner);
}

void cv_install(cv_node *n, uint64_t line, cv_sectors sectors, uint32_t owner)
{
    uint64_t set = cv_set_of(n, line);
    uint32_t way = cv_find(n, set, line);
    if (way == NO_WAY) {
        cv_put(n, line, sectors, owner, false);
        return;
    }
    n->valid[set * n->is.ways + way] |= sectors.valid;
    n->dirty[set * n->is.ways + way] |= sectors.dirty;
    n->policy->hit(&n->memory, set, way);
}
