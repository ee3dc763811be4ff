/* Lines that leave a level: dirty ones are written to the next, and an exclusive or victim level takes clean ones too. */
#include "detailed.h"

static void write_back(cv_node *n, cv_bytes b, uint32_t owner);

void cv_send_down(cv_node *n, uint64_t line, cv_sectors sectors, uint32_t owner)
{
    bool to_victims = n->below && n->below->takes_victims;
    uint64_t written = to_victims ? sectors.valid : sectors.dirty;
    cv_count(n, owner, CV_COUNT_WRITE_BACKS, sectors.dirty != 0);
    cv_count(n, owner, CV_COUNT_CASTOUTS, to_victims && !sectors.dirty);
    cv_count(n, owner, CV_COUNT_BYTES_WRITTEN, (uint64_t)__builtin_popcountll(written) << n->sector_shift);
    if (to_victims) {
        cv_install(n->below, line, sectors, owner); /* the whole line */
        return;
    }
    while (n->below && sectors.dirty)
        write_back(n->below, cv_next_run(n, line, &sectors.dirty), owner);
}

/* A write-back goes on to the next level. */
static void hand_on(cv_node *n, cv_bytes b, uint32_t owner)
{
    cv_count(n, owner, CV_COUNT_WRITE_BACKS, 1);
    cv_count(n, owner, CV_COUNT_BYTES_WRITTEN, b.last - b.first + 1);
    if (n->below)
        write_back(n->below, b, owner);
}

/* pycachesim loads a line that a write-back does not find, as any other, and leaves one that it finds where it is. */
static void write_back_as_pycachesim(cv_node *n, uint64_t line, uint64_t need, cv_bytes b, uint32_t owner)
{
    uint64_t set = cv_set_of(n, line);
    if (cv_find(n, set, line) == NO_WAY)
        cv_read(n, b, (cv_cause){owner, false, false});
    uint32_t way = cv_find(n, set, line);
    if (way != NO_WAY)
        n->dirty[set * n->is.ways + way] |= need;
}

static void write_back_line(cv_node *n, uint64_t line, cv_bytes b, uint32_t owner)
{
    uint64_t need = cv_touched(n, b), set = cv_set_of(n, line);
    uint32_t way = cv_find(n, set, line);
    if (n->of->semantics == CV_PYCACHESIM) {
        write_back_as_pycachesim(n, line, need, b, owner);
        return;
    }
    if (way == NO_WAY && !n->stores_allocate && !n->takes_victims) {
        hand_on(n, b, owner);
        return;
    }
    uint64_t held = way == NO_WAY ? 0 : n->valid[set * n->is.ways + way];
    cv_sectors moved = cv_fetch(n, line, need & ~cv_covered(n, b) & ~held, (cv_cause){owner, false, false});
    cv_sectors sectors = {need | moved.valid, moved.dirty | (n->is.write_through ? 0 : need)};
    cv_install(n, line, sectors, owner);
    if (n->is.write_through)
        hand_on(n, b, owner);
}

static void write_back(cv_node *n, cv_bytes b, uint32_t owner)
{
    for (uint64_t line = b.first >> n->line_shift; line <= b.last >> n->line_shift; line++)
        write_back_line(n, line, cv_within(n, line, b), owner);
}
