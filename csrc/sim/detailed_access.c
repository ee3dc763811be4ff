/* Reads and stores: what a level does when it is asked. */
#include "detailed.h"

/* Count an access to a line and say where it is; `have`: all sectors it needs are there. */
static bool begin_access(cv_node *n, uint64_t set, uint32_t way, uint64_t line, uint64_t need, uint32_t owner)
{
    bool have = way != NO_WAY && (n->valid[set * n->is.ways + way] & need) == need;
    cv_count(n, owner, CV_COUNT_ACCESSES, 1);
    cv_count(n, owner, CV_COUNT_MISSES, !have);
    if (n->shadow) {
        enum cv_detailed_count cause = cv_shadow_touch(n, line, need);
        cv_count(n, owner, cause, !have);
    }
    return have;
}

/* True when the access is the first to a prefetched line. */
static bool first_use(cv_node *n, uint64_t set, uint32_t way, uint32_t owner)
{
    uint64_t at = set * n->is.ways + way;
    bool fresh = n->fresh[at];
    n->fresh[at] = 0;
    cv_count(n, owner, CV_COUNT_USEFUL_PREFETCHES, fresh);
    return fresh;
}

cv_sectors cv_fetch(cv_node *n, uint64_t line, uint64_t missing, cv_cause cause)
{
    cv_sectors moved = {0, 0};
    if (n->combiner && missing)
        cv_combiner_release(n, line);
    while (missing) {
        cv_bytes run = cv_next_run(n, line, &missing);
        cv_count(n, cause.owner, CV_COUNT_BYTES_READ, run.last - run.first + 1);
        uint64_t requests = n->below ? (run.last >> n->below->line_shift) - (run.first >> n->below->line_shift) + 1 : 1;
        cv_count(n, cause.owner, CV_COUNT_FETCHES, cause.prefetch ? 0 : requests);
        if (!n->below)
            continue;
        cv_sectors got = cv_read(n->below, run, cause);
        moved.valid |= got.valid;
        moved.dirty |= got.dirty;
        missing &= ~moved.valid;
    }
    return moved;
}

/* A read that an exclusive or victim level answers: what it has, and what it gets from below for the level above. */
static cv_sectors read_victims(cv_node *n, uint64_t set, uint32_t way, uint64_t line, uint64_t need, cv_cause cause)
{
    cv_sectors moved = {0, 0};
    uint64_t missing = need;
    if (way != NO_WAY) {
        missing &= ~n->valid[set * n->is.ways + way];
        if (n->is.inclusion == CV_EXCLUSIVE)
            moved = cv_take_out(n, set, way, cause.owner);
        else
            n->policy->hit(&n->memory, set, way);
    }
    cv_sectors fetched = cv_fetch(n, line, missing, cause);
    return (cv_sectors){moved.valid | fetched.valid, moved.dirty | fetched.dirty};
}

static cv_sectors read_line(cv_node *n, uint64_t line, cv_bytes b, cv_cause cause)
{
    uint64_t need = cv_touched(n, b), set = cv_set_of(n, line);
    uint32_t way = cv_find(n, set, line);
    bool have = way != NO_WAY && (n->valid[set * n->is.ways + way] & need) == need, news = false;
    if (!cause.prefetch)
        news = !begin_access(n, set, way, line, need, cause.owner);
    if (way != NO_WAY && !cause.prefetch)
        news |= first_use(n, set, way, cause.owner);
    if (n->takes_victims)
        return read_victims(n, set, way, line, need, cause);
    if (have) {
        n->policy->hit(&n->memory, set, way);
    } else {
        uint64_t missing = way == NO_WAY ? need : need & ~n->valid[set * n->is.ways + way];
        cv_sectors moved = cv_fetch(n, line, missing, cause);
        cv_install(n, line, (cv_sectors){need | moved.valid, moved.dirty}, cause.owner);
    }
    if (n->prefetch && !cause.prefetch)
        cv_prefetch_learn(n, line, b.first, cause.owner, news);
    return (cv_sectors){0, 0};
}

cv_sectors cv_read(cv_node *n, cv_bytes b, cv_cause cause)
{
    cv_sectors moved = {0, 0};
    for (uint64_t line = b.first >> n->line_shift; line <= b.last >> n->line_shift; line++) {
        cv_sectors got = read_line(n, line, cv_within(n, line, b), cause);
        moved.valid |= got.valid;
        moved.dirty |= got.dirty;
    }
    return moved;
}

void cv_send_store(cv_node *n, cv_bytes b, cv_cause cause)
{
    uint64_t requests = n->below ? (b.last >> n->below->line_shift) - (b.first >> n->below->line_shift) + 1 : 1;
    cv_count(n, cause.owner, CV_COUNT_WRITES_THROUGH, requests);
    cv_count(n, cause.owner, CV_COUNT_BYTES_WRITTEN, b.last - b.first + 1);
    if (n->below)
        cv_store(n->below, b, cause);
}

/* Sends a store on to the level below. */
static void pass_on(cv_node *n, cv_bytes b, cv_cause cause)
{
    if (n->combiner)
        cv_combine(n, b, cause.owner);
    else
        cv_send_store(n, b, cause);
}

/* A store into a line that is there. */
static void write_into(cv_node *n, uint64_t line, uint64_t need, cv_bytes b, cv_cause cause)
{
    uint64_t set = cv_set_of(n, line);
    uint32_t way = cv_find(n, set, line);
    if (n->is.write_through)
        pass_on(n, b, cause);
    else if (way != NO_WAY)
        n->dirty[set * n->is.ways + way] |= need;
}

static void store_line(cv_node *n, uint64_t line, cv_bytes b, cv_cause cause)
{
    uint64_t need = cv_touched(n, b), set = cv_set_of(n, line);
    uint32_t way = cv_find(n, set, line);
    bool have = begin_access(n, set, way, line, need, cause.owner), news = !have;
    if (way != NO_WAY)
        news |= first_use(n, set, way, cause.owner);
    if (have) {
        if (n->of->semantics != CV_PYCACHESIM)
            n->policy->hit(&n->memory, set, way);
    } else if (n->stores_allocate) {
        uint64_t missing = need & ~(way == NO_WAY ? 0 : n->valid[set * n->is.ways + way]);
        missing &= ~(cause.combined && !n->inclusive_below ? cv_covered(n, b) : 0);
        cv_cause fetch = {cause.owner, false, false};
        cv_sectors moved = cv_fetch(n, line, missing, fetch);
        cv_install(n, line, (cv_sectors){need | moved.valid, moved.dirty}, cause.owner);
    }
    if (have || n->stores_allocate)
        write_into(n, line, need, b, cause);
    else
        pass_on(n, b, cause);
    if (n->prefetch)
        cv_prefetch_learn(n, line, b.first, cause.owner, news);
}

void cv_store(cv_node *n, cv_bytes b, cv_cause cause)
{
    for (uint64_t line = b.first >> n->line_shift; line <= b.last >> n->line_shift; line++)
        store_line(n, line, cv_within(n, line, b), cause);
}
