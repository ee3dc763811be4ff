/* The directory of lines that threads hand over. A line has a list of copies, one of each thread that touched it; a thread has a stack: its
 * lines by the time of their last touch, with a tree of sums that says how many were touched later than one. */
#include "cv_directory.h"

#include "../trace/grow.h"
#include "table.h"

#include <assert.h>
#include <string.h>

#define NOBODY UINT32_MAX
#define NOTHING UINT32_MAX
#define LEAST_ROOM 1024

struct line {
    uint64_t number;
    uint32_t first;   /* copy */
    uint32_t version; /* grows where a thread stores that has it not alone */
    uint32_t alone;   /* the thread that has it alone; NOBODY: several do */
    uint32_t writer;  /* ... that stored to it last */
    uint32_t last;    /* ... that touched it last, and before that another one */
    uint32_t before;
};

struct copy {
    uint32_t thread, next;
    uint32_t version; /* of the line, at the last touch */
    uint32_t place;   /* in the thread's stack */
};

/* Places are given out in the order of touches; those of older touches of a line are empty. */
struct stack {
    uint32_t *copies; /* by place; NOTHING: empty */
    uint32_t *sums;   /* Fenwick's tree of the places that are not empty, from 1 on */
    uint32_t room, used, lines;
};

struct cv_directory {
    uint32_t line_shift;
    struct line *lines;
    struct copy *copies;
    struct stack *stacks;
    size_t n_lines, lines_room, n_copies, copies_room, n_stacks, stacks_room;
    struct cv_table line_of; /* 1 + place in `lines` */
    struct cv_table counts;
};

/* ---- stacks ---- */

static void add(struct stack *s, uint32_t place, uint32_t what)
{
    for (uint32_t i = place + 1; i <= s->room; i += i & -i)
        s->sums[i - 1] += what;
}

/* Lines that the thread touched later than the one at a place. */
static uint32_t later_than(const struct stack *s, uint32_t place)
{
    uint32_t sum = 0;
    for (uint32_t i = place + 1; i; i -= i & -i)
        sum += s->sums[i - 1];
    assert(sum <= s->lines);
    return s->lines - sum;
}

/* Gives out places anew, twice as many as there are lines or more. */
static cv_status renumber(cv_directory *d, struct stack *s)
{
    uint32_t room = LEAST_ROOM, used = 0;
    while (room < 2 * (s->lines + 1))
        room *= 2;
    uint32_t *copies = malloc(room * sizeof *copies), *sums = calloc(room, sizeof *sums);
    if (!copies || !sums) {
        free(copies);
        free(sums);
        return CV_ERROR_MEMORY;
    }
    for (uint32_t i = 0; i < s->used; i++)
        if (s->copies[i] != NOTHING) {
            d->copies[s->copies[i]].place = used;
            copies[used++] = s->copies[i];
        }
    assert(used == s->lines);
    free(s->copies);
    free(s->sums);
    *s = (struct stack){copies, sums, room, used, used};
    for (uint32_t i = 0; i < used; i++)
        add(s, i, 1);
    return CV_OK;
}

/* The copy is the one that its thread touched last; `known`: it has a place already. */
static cv_status move_up(cv_directory *d, uint32_t copy, bool known)
{
    struct stack *s = &d->stacks[d->copies[copy].thread];
    if (known) {
        s->copies[d->copies[copy].place] = NOTHING;
        add(s, d->copies[copy].place, -1U);
        s->lines--;
    }
    if (s->used == s->room && renumber(d, s) != CV_OK)
        return CV_ERROR_MEMORY;
    d->copies[copy].place = s->used;
    s->copies[s->used] = copy;
    add(s, s->used++, 1);
    s->lines++;
    return CV_OK;
}

/* ---- lines ---- */

static uint32_t copy_of(const cv_directory *d, const struct line *line, uint32_t thread)
{
    uint32_t i = line->first;
    while (i != NOTHING && d->copies[i].thread != thread)
        i = d->copies[i].next;
    return i;
}

static uint32_t step_of(uint64_t distance)
{
    if (distance < 4)
        return (uint32_t)distance;
    const uint32_t top = 63 - (uint32_t)__builtin_clzll(distance);
    return 4 * (top - 1) + (uint32_t)(distance >> (top - 2) & 3);
}

uint64_t cv_directory_least(uint32_t step) { return step < 4 ? step : (UINT64_C(4) + step % 4) << (step / 4 - 1); }

static uint32_t distance_step(const cv_directory *d, uint32_t copy)
{
    return copy == NOTHING ? CV_DIRECTORY_NEVER : step_of(later_than(&d->stacks[d->copies[copy].thread], d->copies[copy].place));
}

static cv_status count(cv_directory *d, const struct line *line, uint32_t own, uint32_t other, uint32_t owner, enum cv_handed kind)
{
    const uint32_t steps = distance_step(d, own) << 8 | distance_step(d, copy_of(d, line, other));
    struct cv_slot *slot = cv_table_find(&d->counts, (uint64_t)owner << 17 | (uint64_t)kind << 16 | steps);
    if (!slot)
        return CV_ERROR_MEMORY;
    slot->value++;
    return CV_OK;
}

static cv_status load(cv_directory *d, struct line *line, uint32_t thread, uint32_t own, uint32_t owner)
{
    const bool has = own != NOTHING && d->copies[own].version == line->version;
    if (line->alone != thread)
        line->alone = NOBODY;
    return has || line->writer == NOBODY || line->writer == thread ? CV_OK : count(d, line, own, line->writer, owner, CV_HANDED_LOAD);
}

static cv_status store(cv_directory *d, struct line *line, uint32_t thread, uint32_t own, uint32_t owner)
{
    cv_status status = CV_OK;
    if (line->alone != thread) {
        status = count(d, line, own, line->last == thread ? line->before : line->last, owner, CV_HANDED_STORE);
        line->version++;
    }
    line->alone = line->writer = thread;
    return status;
}

static cv_status make_copy(cv_directory *d, struct line *line, uint32_t thread, uint32_t *made)
{
    CV_RESERVE(d->copies, d->copies_room, d->n_copies + 1);
    d->copies[d->n_copies] = (struct copy){.thread = thread, .next = line->first};
    line->first = *made = (uint32_t)d->n_copies++;
    return CV_OK;
}

static cv_status touch(cv_directory *d, struct line *line, uint32_t thread, uint32_t owner, bool write)
{
    uint32_t own = copy_of(d, line, thread);
    const bool known = own != NOTHING;
    cv_status status = write ? store(d, line, thread, own, owner) : load(d, line, thread, own, owner);
    if (status == CV_OK && !known)
        status = make_copy(d, line, thread, &own);
    if (status != CV_OK)
        return status;
    if (line->last != thread) {
        line->before = line->last;
        line->last = thread;
    }
    d->copies[own].version = line->version;
    return move_up(d, own, known);
}

static cv_status touch_number(cv_directory *d, uint64_t number, uint32_t thread, uint32_t owner, bool write)
{
    struct cv_slot *slot = cv_table_find(&d->line_of, number);
    if (!slot)
        return CV_ERROR_MEMORY;
    if (!slot->value) {
        CV_RESERVE(d->lines, d->lines_room, d->n_lines + 1);
        d->lines[d->n_lines] =
            (struct line){.number = number, .first = NOTHING, .alone = thread, .writer = NOBODY, .last = NOBODY, .before = NOBODY};
        slot->value = ++d->n_lines;
    }
    return touch(d, &d->lines[slot->value - 1], thread, owner, write);
}

/* ---- all ---- */

cv_directory *cv_directory_new(uint32_t line_bytes)
{
    assert(line_bytes && !(line_bytes & (line_bytes - 1)));
    cv_directory *d = calloc(1, sizeof *d);
    if (d)
        d->line_shift = (uint32_t)__builtin_ctz(line_bytes);
    return d;
}

void cv_directory_free(cv_directory *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->n_stacks; i++) {
        free(d->stacks[i].copies);
        free(d->stacks[i].sums);
    }
    free(d->lines);
    free(d->copies);
    free(d->stacks);
    free(d->line_of.slots);
    free(d->counts.slots);
    free(d);
}

static cv_status make_stacks(cv_directory *d, size_t needed)
{
    CV_RESERVE(d->stacks, d->stacks_room, needed);
    for (; d->n_stacks < needed; d->n_stacks++)
        d->stacks[d->n_stacks] = (struct stack){0};
    return CV_OK;
}

cv_status cv_directory_feed(cv_directory *d, uint32_t thread, const cv_refs *refs)
{
    cv_status status = make_stacks(d, (size_t)thread + 1);
    for (size_t i = 0; i < refs->count && status == CV_OK; i++) {
        const uint64_t size = refs->size ? refs->size[i] : 1, first = refs->address[i] >> d->line_shift;
        if (!size)
            return CV_ERROR_ARGUMENT;
        const uint64_t last = (refs->address[i] + size - 1) >> d->line_shift;
        for (uint64_t number = first; number <= last && status == CV_OK; number++)
            status = touch_number(d, number, thread, refs->owner ? refs->owner[i] : 0, refs->write && refs->write[i]);
    }
    return status;
}

size_t cv_directory_counts(const cv_directory *d, cv_handed_count *out, size_t room)
{
    size_t n = 0;
    for (size_t i = 0; i < d->counts.room; i++) {
        const struct cv_slot *slot = &d->counts.slots[i];
        if (!slot->value)
            continue;
        if (n < room)
            out[n] = (cv_handed_count){.owner = (uint32_t)(slot->key >> 17),
                                       .kind = slot->key >> 16 & 1,
                                       .own = slot->key >> 8 & 255,
                                       .other = slot->key & 255,
                                       .count = slot->value};
        n++;
    }
    return n;
}
