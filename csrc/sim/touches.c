/* Who touches which words: counts in tables of rows, the references of a piece kept until it is known which of its lines have many. */
#include "cv_touches.h"

#include "../trace/grow.h"
#include "table.h"

#include <assert.h>
#include <string.h>

#define RECENT (CV_TOUCHES_TURNS * CV_TOUCHES_MOST_LOADS) /* a power of two */
#define LEAST_ROWS 1024
#define SEVERAL UINT64_MAX /* threads */

/* Open addressing, at most half full; a row without a count is empty. */
struct rows {
    cv_touch_count *rows;
    size_t room, used; /* room: 0 or a power of two */
};

/* References of a piece that one thread made in one window: up to `end`. */
struct span {
    uint64_t window;
    uint32_t thread;
    size_t end;
};

struct load {
    uint64_t word;
    uint32_t site;
};

struct cv_touches {
    struct rows counts[CV_TOUCHES_KINDS];
    struct cv_table writers; /* by word: 1 + the thread that stored to it, or SEVERAL */

    uint64_t *words; /* the piece */
    uint32_t *sites;
    struct span *spans;
    size_t n, words_room, sites_room, n_spans, spans_room;
    struct cv_table lines; /* references of the piece to each */

    struct load recent[RECENT];               /* the last references of one thread in one window */
    uint64_t at, counted;                     /* of them; up to which one loops that wait were counted */
    uint64_t same[1 + CV_TOUCHES_MOST_LOADS]; /* how many in a row are loads like the one so many before */
    uint64_t window;
    uint32_t thread;
};

/* ---- rows ---- */

static bool alike(const cv_touch_count *a, const cv_touch_count *b)
{
    return a->word == b->word && a->window == b->window && a->thread == b->thread && a->site == b->site;
}

static cv_touch_count *row_of(const struct rows *r, const cv_touch_count *key)
{
    const uint64_t who = (uint64_t)key->thread << 32 | key->site;
    size_t at =
        (size_t)cv_mixed(key->word + key->window * UINT64_C(0x9e3779b97f4a7c15) + who * UINT64_C(0xff51afd7ed558ccd)) & (r->room - 1);
    while (r->rows[at].count && !alike(&r->rows[at], key))
        at = (at + 1) & (r->room - 1);
    return &r->rows[at];
}

static cv_status grow_rows(struct rows *r)
{
    const struct rows old = *r;
    const size_t room = old.room ? 2 * old.room : LEAST_ROWS;
    cv_touch_count *rows = calloc(room, sizeof *rows);
    if (!rows)
        return CV_ERROR_MEMORY;
    *r = (struct rows){rows, room, old.used};
    for (size_t i = 0; i < old.room; i++)
        if (old.rows[i].count)
            *row_of(r, &old.rows[i]) = old.rows[i];
    free(old.rows);
    return CV_OK;
}

static cv_status count(cv_touches *t, enum cv_touches_kind kind, cv_touch_count key)
{
    struct rows *r = &t->counts[kind];
    if (2 * (r->used + 1) > r->room && grow_rows(r) != CV_OK)
        return CV_ERROR_MEMORY;
    cv_touch_count *row = row_of(r, &key);
    if (!row->count) {
        *row = key;
        r->used++;
    }
    row->count++;
    return CV_OK;
}

/* ---- loops that wait ---- */

static cv_status count_wait(cv_touches *t, uint64_t begin)
{
    cv_status status = CV_OK;
    for (t->counted = begin > t->counted ? begin : t->counted; t->counted <= t->at && status == CV_OK; t->counted++) {
        const struct load *one = &t->recent[t->counted % RECENT];
        status = count(t, CV_TOUCHES_WAITS, (cv_touch_count){.word = one->word, .thread = t->thread, .site = one->site});
    }
    return status;
}

static cv_status look_for_waits(cv_touches *t, struct load load, bool write)
{
    cv_status status = CV_OK;
    t->recent[t->at % RECENT] = load;
    for (uint64_t loads = 1; loads <= CV_TOUCHES_MOST_LOADS && status == CV_OK; loads++) {
        const struct load *before = &t->recent[(t->at - loads) % RECENT];
        if (write || t->at < loads || before->word != load.word || before->site != load.site)
            t->same[loads] = 0;
        else if (++t->same[loads] >= (CV_TOUCHES_TURNS - 1) * loads)
            status = count_wait(t, t->at + 1 - loads - t->same[loads]);
    }
    t->at++;
    return status;
}

static cv_status note_writer(cv_touches *t, uint64_t word, uint32_t thread)
{
    struct cv_slot *slot = cv_table_find(&t->writers, word);
    if (!slot)
        return CV_ERROR_MEMORY;
    slot->value = !slot->value || slot->value == 1 + (uint64_t)thread ? 1 + (uint64_t)thread : SEVERAL;
    return CV_OK;
}

static bool others_store(const cv_touches *t, const cv_touch_count *wait)
{
    const uint64_t writer = cv_table_get(&t->writers, wait->word);
    return writer && writer != 1 + (uint64_t)wait->thread;
}

/* ---- pieces ---- */

static cv_status end_piece(cv_touches *t)
{
    const unsigned words_of_line = CV_TOUCHES_LINE_SHIFT - CV_TOUCHES_WORD_SHIFT;
    if (t->lines.room)
        memset(t->lines.slots, 0, t->lines.room * sizeof *t->lines.slots);
    t->lines.used = 0;
    for (size_t i = 0; i < t->n; i++) {
        struct cv_slot *line = cv_table_find(&t->lines, t->words[i] >> words_of_line);
        if (!line)
            return CV_ERROR_MEMORY;
        line->value++;
    }
    cv_status status = CV_OK;
    const struct span *span = t->spans;
    for (size_t i = 0; i < t->n && status == CV_OK; i++) {
        while (span->end <= i)
            span++;
        assert(span < t->spans + t->n_spans);
        const cv_touch_count key = {.word = t->words[i], .window = span->window, .thread = span->thread, .site = t->sites[i]};
        if (cv_table_get(&t->lines, t->words[i] >> words_of_line) >= CV_TOUCHES_HOT)
            status = count(t, CV_TOUCHES_LINES, key);
    }
    t->n = t->n_spans = 0;
    return status;
}

/* ---- all ---- */

cv_touches *cv_touches_new(void) { return calloc(1, sizeof(cv_touches)); }

void cv_touches_free(cv_touches *t)
{
    if (!t)
        return;
    for (int kind = 0; kind < CV_TOUCHES_KINDS; kind++)
        free(t->counts[kind].rows);
    free(t->writers.slots);
    free(t->words);
    free(t->sites);
    free(t->spans);
    free(t->lines.slots);
    free(t);
}

static cv_status take(cv_touches *t, struct load load, bool write)
{
    t->words[t->n] = load.word;
    t->sites[t->n++] = load.site;
    cv_status status = count(t, CV_TOUCHES_ALL, (cv_touch_count){.thread = t->thread, .site = load.site});
    if (status == CV_OK && write)
        status = note_writer(t, load.word, t->thread);
    return status == CV_OK ? look_for_waits(t, load, write) : status;
}

cv_status cv_touches_feed(cv_touches *t, uint32_t thread, uint64_t window, const cv_refs *refs)
{
    CV_RESERVE(t->words, t->words_room, t->n + refs->count);
    CV_RESERVE(t->sites, t->sites_room, t->n + refs->count);
    CV_RESERVE(t->spans, t->spans_room, t->n_spans + 1);
    t->spans[t->n_spans++] = (struct span){window, thread, t->n + refs->count};
    if (thread != t->thread || window != t->window) {
        t->at = t->counted = 0;
        memset(t->same, 0, sizeof t->same);
    }
    t->thread = thread;
    t->window = window;
    cv_status status = CV_OK;
    for (size_t i = 0; i < refs->count && status == CV_OK; i++)
        status = take(t, (struct load){refs->address[i] >> CV_TOUCHES_WORD_SHIFT, refs->owner ? refs->owner[i] : 0},
                      refs->write && refs->write[i]);
    return status == CV_OK && t->n >= CV_TOUCHES_PIECE ? end_piece(t) : status;
}

cv_status cv_touches_end(cv_touches *t) { return end_piece(t); }

size_t cv_touches_counts(const cv_touches *t, enum cv_touches_kind kind, cv_touch_count *out, size_t room)
{
    size_t n = 0;
    for (size_t i = 0; i < t->counts[kind].room; i++) {
        const cv_touch_count *row = &t->counts[kind].rows[i];
        if (!row->count || (kind == CV_TOUCHES_WAITS && !others_store(t, row)))
            continue;
        if (n < room)
            out[n] = *row;
        n++;
    }
    return n;
}
