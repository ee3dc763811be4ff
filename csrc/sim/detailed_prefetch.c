/* Prefetchers: next line, stride by owner, streams. They learn from the accesses of their level and wish for lines; wishes are granted
 * after the reference that caused them is done, in order. There is no time, so a prefetched line is there at once: never late. */
#include "../trace/grow.h"
#include "detailed.h"

enum { SURE = 2, SUREST = 3, STREAM_WINDOW = 4 };

/* What is known of one owner (stride) or of one stream. */
typedef struct {
    uint64_t last; /* address or line */
    uint64_t step; /* modulo 2^64 */
    uint64_t used; /* stream: when, 0: never; stride: owner + 1 */
    uint32_t sureness;
} cv_track;

struct cv_prefetch {
    uint64_t clock;
    cv_track tracks[];
};

cv_status cv_prefetch_new(cv_node *n)
{
    const cv_detailed_level *is = &n->is;
    if (is->prefetcher == CV_PREFETCH_NONE)
        return CV_OK;
    if (is->prefetcher > CV_PREFETCH_STREAM || n->takes_victims || is->degree < 1 || is->degree > 64 || is->entries < 1 ||
        is->entries > 65536)
        return CV_ERROR_ARGUMENT;
    n->prefetch = calloc(1, sizeof *n->prefetch + is->entries * sizeof(cv_track));
    return n->prefetch ? CV_OK : CV_ERROR_MEMORY;
}

void cv_prefetch_free(cv_prefetch *p) { free(p); }

/* Wish for the line so many steps away, if there is one. */
static void wish(cv_node *n, uint64_t line)
{
    cv_detailed *d = n->of;
    if (line > UINT64_MAX >> n->line_shift)
        return;
    if (!CV_ROOM(d->wishes, d->wishes_capacity, d->n_wishes)) {
        d->out_of_memory = true;
        return;
    }
    d->wishes[d->n_wishes++] = (cv_wish){n, line};
}

/* An owner whose addresses had the same distance three times in a row is expected to go on. */
static void learn_stride(cv_node *n, uint64_t line, uint64_t address, uint32_t owner)
{
    cv_track *t = &n->prefetch->tracks[owner % n->is.entries];
    uint64_t step = address - t->last;
    if (t->used != (uint64_t)owner + 1) {
        *t = (cv_track){address, 0, (uint64_t)owner + 1, 0};
        return;
    }
    if (step == 0)
        return;
    t->sureness = step != t->step ? 0 : t->sureness < SUREST ? t->sureness + 1 : SUREST;
    t->step = step;
    t->last = address;
    if (t->sureness < SURE)
        return;
    bool down = step >> 63, small = (down ? -step : step) < n->is.line_bytes;
    for (uint64_t k = 1; k <= n->is.degree; k++)
        if (small)
            wish(n, down ? line - k : line + k);
        else
            wish(n, (address + k * step) >> n->line_shift);
}

/* The stream that a line continues, or the one to give up for it. */
static cv_track *stream_of(cv_node *n, uint64_t line, bool *found)
{
    cv_track *oldest = n->prefetch->tracks;
    for (uint32_t i = 0; i < n->is.entries; i++) {
        cv_track *t = &n->prefetch->tracks[i];
        uint64_t ahead = line - t->last, behind = t->last - line;
        bool up = ahead >= 1 && ahead <= STREAM_WINDOW, down = behind >= 1 && behind <= STREAM_WINDOW;
        if (t->used && ((up && t->step != UINT64_MAX) || (down && t->step != 1))) {
            *found = true;
            return t;
        }
        oldest = t->used < oldest->used ? t : oldest;
    }
    *found = false;
    return oldest;
}

/* Lines that come near each other, in one direction; the third one starts the prefetching. */
static void learn_stream(cv_node *n, uint64_t line)
{
    bool found;
    cv_track *t = stream_of(n, line, &found);
    uint64_t now = ++n->prefetch->clock;
    if (!found) {
        *t = (cv_track){line, 0, now, 0};
        return;
    }
    t->step = line > t->last ? 1 : UINT64_MAX;
    t->sureness += t->sureness < SURE;
    t->last = line;
    t->used = now;
    for (uint64_t k = 1; t->sureness >= SURE && k <= n->is.degree; k++)
        wish(n, line + k * t->step);
}

void cv_prefetch_learn(cv_node *n, uint64_t line, uint64_t address, uint32_t owner, bool news)
{
    if (n->is.prefetcher == CV_PREFETCH_STRIDE)
        learn_stride(n, line, address, owner);
    else if (n->is.prefetcher == CV_PREFETCH_STREAM && news)
        learn_stream(n, line);
    else if (news)
        for (uint64_t k = 1; k <= n->is.degree; k++)
            wish(n, line + k);
}

void cv_prefetch_run(cv_detailed *d, uint32_t owner)
{
    cv_cause cause = {owner, true, false};
    for (size_t i = 0; i < d->n_wishes; i++) {
        cv_node *n = d->wishes[i].node;
        uint64_t line = d->wishes[i].line, set = cv_set_of(n, line);
        if (cv_find(n, set, line) != NO_WAY)
            continue;
        cv_count(n, owner, CV_COUNT_PREFETCHES, 1);
        cv_sectors moved = cv_fetch(n, line, n->all, cause);
        cv_put(n, line, (cv_sectors){n->all | moved.valid, moved.dirty}, owner, true);
    }
    d->n_wishes = 0;
}
