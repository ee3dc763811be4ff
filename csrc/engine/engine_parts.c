/* Reads what threads recorded, part by part and in turns: windows of visits, hits of the class of sets, and the events of data objects in
 * their order. */
#define _GNU_SOURCE
#include <assert.h>
#include <time.h>

#include "../common/cv_front_line.h"
#include "engine_wire.h"

/* ---- references to the class of sets ---- */

static uint64_t last_class;
static struct cv_front_line front;

static int is_repeated(uint64_t line, int store)
{
    return cv_front_line_has(&front, line, store) && last_class >= CV_WIRE_REPEATED_CLASSES;
}

static void put_lines(uint64_t address, uint32_t size, uint32_t site, int store)
{
    const uint64_t last = (address + size - 1) >> 6, of_class = target->shared->set_class, mask = last_class | (target->shared->sets - 1);
    for (uint64_t line = address >> 6; line <= last; line++) {
        if ((line & mask) != of_class || is_repeated(line, store))
            continue;
        if (site >> CV_WIRE_SITE_BITS == 0) {
            put((line << CV_WIRE_SITE_BITS | site) & ~CV_WIRE_VISIT);
        } else {
            put_head(CV_WIRE_SETS_LOST, site);
            put(line << 6);
        }
    }
}

static int touches(uint64_t address, uint32_t size)
{
    return ((address + size - 1 - 64 * target->shared->set_class) & (64 * target->shared->sets - 1)) < 63 + size;
}

static void put_set_references(uint64_t segment, const struct reference *r, uint64_t address)
{
    if (address == CV_WIRE_NOT_EXECUTED || !touches(address, r->size))
        return;
    const uint32_t first = of_segment[segment].first_site;
    if (r->load >= 0)
        put_lines(address, r->size, first + (uint32_t)r->load, 0);
    if (r->store >= 0)
        put_lines(address, r->size, first + (uint32_t)r->store, 1);
}

/* Turns until a reference may touch the class that is wanted; 0: it does now. */
static uint64_t turns_to_class(uint64_t address, uint32_t size, int64_t step)
{
    const uint64_t bytes = 64 * ((last_class | (target->shared->sets - 1)) + 1),
                   at = (address + size - 1 - 64 * target->shared->set_class) % bytes;
    if (at < 63u + size)
        return 0;
    const uint64_t distance = step > 0 ? bytes - at : at - 62 - size, turns = distance / (uint64_t)(step < 0 ? -step : step);
    return turns ? turns : 1;
}

/* A repeated instruction: its turns, of which those between lines of the class are passed over. */
static void put_set_turns(uint64_t segment, const uint64_t *first, uint64_t turns, uint64_t after)
{
    const uint32_t n = of_segment[segment].count;
    const int64_t step = step_of(first[0], after, turns);
    for (uint64_t t = 0, next = 1; t < turns; t += next) {
        next = step ? UINT64_MAX : turns;
        for (uint32_t k = 0; k < n; k++) {
            const struct reference *r = &of_segment[segment].references[k];
            const uint64_t address = first[k] + (uint64_t)(step * (int64_t)t), ahead = step ? turns_to_class(address, r->size, step) : 0;
            if (!ahead)
                put_set_references(segment, r, address);
            next = ahead < next ? ahead : next;
        }
        next = next ? next : 1;
        next = next < turns - t ? next : turns - t;
        if (!step)
            break;
    }
}

static void put_sets_of_visit(uint64_t segment, const uint64_t *words)
{
    if (segments[segment].repeats) {
        const uint32_t n = segments[segment].words - CV_REPEAT_WORDS;
        put_set_turns(segment, words, words[n] - words[n + 1], words[n + 2]);
        return;
    }
    for (uint32_t k = 0; k < of_segment[segment].count; k++) {
        const struct reference *r = &of_segment[segment].references[k];
        put_set_references(segment, r, r->word < 0 ? (uint64_t)r->displacement : words[r->word]);
    }
}

/* Returns where it stopped: at events that may not be reported yet. */
static const uint64_t *put_hits(const uint64_t *from, const uint64_t *to, uint64_t allowed)
{
    static uint64_t first[4], before, after;
    for (; from + 2 <= to; from += 2) {
        const uint64_t segment = from[0] >> 8, which = from[0] & 255;
        if (from[0] == CV_PART_EVENTS) {
            if (from[1] > allowed)
                return from;
            cv_objects_tell(from[1]);
            continue;
        }
        if (segment >= known)
            continue;
        if (which == CV_HIT_BEFORE)
            before = from[1];
        else if (which == CV_HIT_BEHIND)
            after = from[1];
        else if (which == CV_HIT_POINTER)
            put_set_turns(segment, first, before - after, from[1]);
        else if (which >= of_segment[segment].count)
            continue;
        else if (segments[segment].repeats)
            first[which & 3] = from[1];
        else
            put_set_references(segment, &of_segment[segment].references[which], from[1]);
    }
    return to;
}

/* ---- windows ---- */

uint64_t windows;
static uint64_t interval, thread_now;
static struct {
    uint64_t thread; /* whose window it is; 0: none is open */
    uint64_t references;
    int warm;
} window;

/* One run of a repeated instruction as its turns; returns their references. */
static uint64_t put_turns(const struct cv_blob_segment *s, uint32_t id, const uint64_t *words, uint64_t most)
{
    const uint32_t references = s->words - CV_REPEAT_WORDS;
    const uint64_t turns = words[references] - words[references + 1];
    const int64_t step = step_of(words[0], words[references + 2], turns);
    const uint64_t shown = turns < most ? turns : most;
    for (uint64_t t = 0; t < shown; t++) {
        if (options->paths)
            put(CV_WIRE_VISIT | id);
        put(CV_WIRE_VISIT | (id + 1));
        for (uint32_t k = 0; k < references; k++)
            put(words[k] + (uint64_t)(step * (int64_t)t));
    }
    if (options->paths)
        put(CV_WIRE_VISIT | id);
    return shown * references;
}

static void close_window(void)
{
    if (window.thread)
        put_head(CV_WIRE_WINDOW_CLOSE, 0);
    window.thread = 0;
}

static const uint64_t *put_visits(uint64_t thread, const struct cv_blob_part *part, const uint64_t *from, const uint64_t *to,
                                  uint64_t allowed)
{
    if (!window.thread && !options->full) {
        put_head(CV_WIRE_WINDOW_OPEN, 0);
        window.thread = thread;
        window.references = 0;
        window.warm = !options->warmup;
        windows++;
    }
    while (from < to) {
        const uint64_t number = *from & UINT32_MAX;
        if (number == CV_PART_EVENTS) {
            if (from[1] > allowed)
                return from;
            cv_objects_tell(from[1]);
            from += 2;
            continue;
        }
        if (number >= known || from + 1 + segments[number].words > to)
            break;
        const struct cv_blob_segment *s = &segments[number];
        if (window.thread && !window.warm && window.references >= options->warmup) {
            put_head(CV_WIRE_WINDOW_WARM, 0);
            window.warm = 1;
        }
        if (part->sets)
            put_sets_of_visit(number, from + 1);
        const uint64_t left = options->block_limit ? options->block_limit - of_segment[number].visits : UINT64_MAX;
        if (left && s->repeats) {
            const uint64_t shown = put_turns(s, of_segment[number].id, from + 1, left <= options->sample ? left - 1 : options->sample);
            window.references += shown;
            of_segment[number].visits += options->block_limit ? shown / (s->words - CV_REPEAT_WORDS) + 1 : 0;
        } else if (left && (options->paths || loads_stores[number] || of_segment[number].lanes)) {
            of_segment[number].visits += options->block_limit > 0;
            put(CV_WIRE_VISIT | of_segment[number].id);
            for (uint32_t k = 0; k < s->words; k++)
                put(from[1 + k]);
            window.references += loads_stores[number] + of_segment[number].lanes;
        }
        from += 1 + s->words;
    }
    if (part->last)
        close_window();
    return to;
}

void cv_wire_interval(uint64_t number)
{
    if (!options->stretch || window.thread || number <= interval)
        return;
    interval = number;
    put_head(CV_WIRE_INTERVAL, number);
}

/* ---- parts ---- */

/* With data objects: where reading the next part stopped, and the events before what comes there. */
static struct {
    const uint64_t *at;
    uint64_t events;
} stopped[CV_MOST_SLOTS];

/* Returns 1 where all of it has been read. */
static int put_part(uint64_t slot, uint64_t of, const struct cv_blob_part *part, const uint64_t *from, const uint64_t *to, uint64_t allowed)
{
    const uint64_t every = header ? header->every[CV_EVERY_SET] : 0;
    const int first = part->first && !stopped[of].at;
    last_class = every ? every - 1 : target->shared->sets - 1;
    cv_wire_definitions();
    if (window.thread && (window.thread != slot + 1 || first || part->kind == CV_PART_HITS))
        close_window();
    cv_wire_interval(part->interval);
    if (thread_now != slot + 1) {
        thread_now = slot + 1;
        put_head(CV_WIRE_THREAD, thread_now);
    }
    const uint64_t *at = stopped[of].at ? stopped[of].at : from;
    at = part->kind == CV_PART_HITS ? put_hits(at, to, allowed) : put_visits(slot + 1, part, at, to, allowed);
    stopped[of].at = at < to ? at : NULL;
    stopped[of].events = at < to ? at[1] : 0;
    return at == to;
}

static const struct cv_blob_part *part_of(const struct cv_slot *slot, uint64_t number, const uint64_t **begin)
{
    *begin = (const uint64_t *)((const uint8_t *)slot + CV_SLOT_BUFFER + number % CV_PARTS * CV_PART_BYTES);
    return (const struct cv_blob_part *)((const uint8_t *)slot + CV_SLOT_PARTS) + number % CV_PARTS;
}

/* What a thread was recording when the program ended becomes its last part. */
static void hand_rest(struct cv_slot *slot)
{
    const uint64_t *begin;
    struct cv_blob_part *part = (struct cv_blob_part *)(uintptr_t)part_of(slot, slot->handed, &begin);
    const uint64_t bytes = slot->buffer - slot->self - CV_SLOT_BUFFER - slot->handed % CV_PARTS * CV_PART_BYTES;
    if (!slot->in_part || bytes > CV_PART_BYTES)
        return;
    const uint64_t *end = begin + bytes / 8, *last = begin, *at = begin;
    cv_wire_definitions();
    if (part->kind == CV_PART_HITS)
        last = end;
    while (part->kind == CV_PART_VISITS && at < end && ((*at & UINT32_MAX) < known || *at == CV_PART_EVENTS)) {
        last = at; /* it may not be whole */
        at += *at == CV_PART_EVENTS ? 2 : 1 + segments[*at & UINT32_MAX].words;
    }
    part->bytes = (uint32_t)((last - begin) * 8);
    part->last = 1;
    slot->in_part = 0;
    slot->handed++;
}

/* ---- data objects and several threads ----
 *
 * Events are reported before what was recorded after them, and after what other threads recorded before them. A thread that has not handed
 * this over yet is asked to; one that does not run is passed over. */

#define PATIENCE 0.02 /* seconds */
#define LONGEST_PATIENCE 5.0

static double waiting_since;

/* Events before what the slot has recorded and nobody has read yet; where there is nothing, all. */
static uint64_t events_before(struct cv_slot *slot, uint64_t number, int *asked)
{
    const uint64_t *begin, none = sizeof(uint64_t[2]); /* where events alone are in it */
    const struct cv_blob_part *part = part_of(slot, slot->taken, &begin);
    const uint64_t from = slot->self + (uint64_t)((const uint8_t *)begin - (const uint8_t *)slot);
    const int in_part = __atomic_load_n(&slot->in_part, __ATOMIC_SEQ_CST) && slot->buffer > from + none;
    if (slot->taken != __atomic_load_n(&slot->handed, __ATOMIC_SEQ_CST)) /* it may just have been handed */
        return stopped[number].at ? stopped[number].events : part->events;
    if (!in_part)
        return UINT64_MAX;
    const double waited = waiting_since > 0 ? cv_seconds(CLOCK_MONOTONIC) - waiting_since : 0;
    if (waited > LONGEST_PATIENCE || (waited > PATIENCE && !cv_thread_runs(target->pid, (pid_t)slot->tid)))
        return UINT64_MAX;
    *asked = 1;
    return part->events;
}

/* Events that may be reported before what this slot recorded. */
static uint64_t events_allowed(uint64_t one)
{
    const uint64_t slots = __atomic_load_n(&target->shared->slots, __ATOMIC_ACQUIRE);
    uint64_t least = __atomic_load_n(&target->shared->events, __ATOMIC_ACQUIRE);
    if (!options->objects)
        return UINT64_MAX;
    for (uint64_t i = 0; i < slots; i++) {
        struct cv_slot *slot = cv_slot_of(target, i);
        int unread = 0;
        const uint64_t before = i == one || slot->guest ? UINT64_MAX : events_before(slot, i, &unread);
        if (before >= least)
            continue;
        least = before;
        if (unread)
            cv_want(slot, CV_WANT_PART);
    }
    return least;
}

static void tell_events(int any)
{
    const uint64_t had = target->shared->reported, events = target->shared->events;
    cv_objects_look();
    if (!any)
        cv_objects_tell(events_allowed(CV_MOST_SLOTS));
    if (any || target->shared->reported != had || had == events)
        waiting_since = 0;
    else if (waiting_since == 0)
        waiting_since = cv_seconds(CLOCK_MONOTONIC);
}

/* Nanoseconds of the controller's processor time. */
static uint64_t time_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int cv_wire_parts(void)
{
    const uint64_t slots = __atomic_load_n(&target->shared->slots, __ATOMIC_ACQUIRE);
    int any = 0;
    for (uint64_t i = 0; i < slots; i++) {
        struct cv_slot *slot = cv_slot_of(target, i);
        const uint64_t taken = slot->taken, *begin;
        if (taken == __atomic_load_n(&slot->handed, __ATOMIC_ACQUIRE))
            continue;
        const struct cv_blob_part *part = part_of(slot, taken, &begin);
        assert(slot->handed - taken <= CV_PARTS && part->bytes <= CV_PART_BYTES && part->bytes % 8 == 0);
        const uint64_t since = time_now(), *at = stopped[i].at;
        const int whole = put_part(target->shared->bursts_only ? 0 : i, i, part, begin, begin + part->bytes / 8, events_allowed(i));
        __atomic_fetch_add(&target->shared->pace.read[part->kind == CV_PART_HITS], time_now() - since, __ATOMIC_RELAXED);
        if (whole)
            __atomic_store_n(&slot->taken, taken + 1, __ATOMIC_RELEASE);
        any |= whole || stopped[i].at != at;
    }
    if (options->objects)
        tell_events(any);
    return any;
}

void cv_wire_last_parts(void)
{
    while (cv_wire_parts())
        ;
    for (uint64_t i = 0; i < target->shared->slots; i++)
        hand_rest(cv_slot_of(target, i));
    while (cv_wire_parts())
        ;
    close_window();
}

/* The interval that all threads have come to, where nothing is left of those before; else the last one that is known. */
uint64_t cv_wire_interval_so_far(void)
{
    const uint64_t slots = __atomic_load_n(&target->shared->slots, __ATOMIC_ACQUIRE);
    uint64_t least = __atomic_load_n(&target->shared->interval, __ATOMIC_ACQUIRE);
    const uint64_t *begin;
    for (uint64_t i = 0; i < slots; i++) {
        const struct cv_slot *slot = cv_slot_of(target, i);
        if (slot->taken != __atomic_load_n(&slot->handed, __ATOMIC_ACQUIRE))
            return interval;
        const struct cv_blob_part *part = part_of(slot, slot->handed, &begin);
        if (slot->in_part && part->interval < least)
            least = part->interval;
    }
    return least;
}
