/* Gathers windows of path while they are decoded, and walks them through cores (see cv_path_sample.h). */
#include "cv_path_sample.h"

#include "../common/interrupt.h"
#include "../trace/grow.h"
#include "../trace/streams.h"
#include "core.h"

#include <stdlib.h>
#include <string.h>

#define LINE_SHIFT 6

/* The references of one owner before a window. */
typedef struct {
    uint32_t owner;
    cv_core_course course;
} owner_course;

typedef struct {
    uint64_t stretch;
    uint32_t thread, following, visits, warm_visits, references, courses;
    uint64_t *addresses;  /* the allocation; the others lie after it */
    owner_course *course; /* of the owners whose references bring lines out of order here */
    uint32_t *sites, *segments, *first_reference;
    uint8_t *out_of_order, *flags;
} window;

typedef struct {
    window *at;
    size_t count, capacity;
} window_list;

struct cv_path_sample {
    const cv_trace *trace;
    const cv_branches *branches;
    cv_sample_plan plan;
    uint64_t stretches, every, pick; /* that passed by; of how many one is chosen; the number of the next one */
    uint64_t random;
    window_list chosen, rare;
    uint32_t *shown, *instructions; /* visits of each segment in the windows; its length */
    size_t segments, shown_capacity, instruction_capacity;
    cv_streams streams;
    uint8_t *out_of_order; /* of the piece's references */
    size_t out_of_order_capacity;
    uint32_t *owner; /* of each site */
    size_t sites, owners;
    uint32_t *course_of, *met; /* of each owner: 1 + its course; the window in which it was met last */
    cv_core_course *course;
    size_t courses, course_capacity, followed; /* followed: references of the piece that courses hold */
    owner_course *taken;                       /* those of a window */
    size_t taken_count, taken_capacity;
    uint32_t epoch;
};

static int copy_owners(cv_path_sample *s, const cv_site_owners *owners)
{
    s->sites = owners->sites;
    s->owners = owners->owners;
    s->owner = malloc((s->sites + 1) * sizeof *s->owner);
    s->course_of = calloc(s->owners + 1, sizeof *s->course_of);
    s->met = calloc(s->owners + 1, sizeof *s->met);
    /* the first course is that of sites without an owner, which nothing is taken from */
    s->course = calloc(1, sizeof *s->course);
    s->courses = s->course_capacity = 1;
    for (size_t i = 0; s->owner && i < s->sites; i++)
        s->owner[i] = owners->owner[i] < s->owners ? owners->owner[i] : (uint32_t)s->owners;
    return s->owner && s->course_of && s->met && s->course;
}

cv_path_sample *cv_path_sample_new(const cv_trace *trace, const cv_branches *branches, const cv_sample_plan *plan,
                                   const cv_site_owners *owners)
{
    cv_path_sample *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    if (!copy_owners(s, owners)) {
        cv_path_sample_free(s);
        return NULL;
    }
    s->trace = trace;
    s->branches = branches;
    s->plan = *plan;
    s->plan.counted += !plan->counted;
    s->plan.most = (plan->most + 1) / 2 * 2 + 2 * !plan->most;
    s->every = 1;
    s->random = UINT64_C(0x9e3779b97f4a7c15);
    return s;
}

static void free_windows(window_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->at[i].addresses);
    free(list->at);
}

void cv_path_sample_free(cv_path_sample *s)
{
    if (!s)
        return;
    free_windows(&s->chosen);
    free_windows(&s->rare);
    free(s->shown);
    free(s->instructions);
    free(s->out_of_order);
    free(s->owner);
    free(s->course_of);
    free(s->met);
    free(s->course);
    free(s->taken);
    free(s);
}

/* xorshift (Marsaglia 2003): always the same numbers, so that a trace gives the same answer each time. */
static uint64_t draw(cv_path_sample *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random >> 16;
}

static cv_status learn(cv_path_sample *s)
{
    const struct cv_wire_segment *segments;
    const size_t count = cv_trace_segments(s->trace, &segments);
    CV_RESERVE(s->shown, s->shown_capacity, count);
    CV_RESERVE(s->instructions, s->instruction_capacity, count);
    for (; s->segments < count; s->segments++) {
        s->shown[s->segments] = 0;
        s->instructions[s->segments] = segments[s->segments].instructions;
    }
    return CV_OK;
}

/* Which references of a piece bring a line that no prefetcher sees coming? */
static cv_status mark_out_of_order(cv_path_sample *s, const cv_path *path)
{
    CV_RESERVE(s->out_of_order, s->out_of_order_capacity, path->references);
    for (size_t i = 0; i < path->references; i++)
        s->out_of_order[i] = (uint8_t)cv_streams_surprised(&s->streams, path->addresses[i] >> LINE_SHIFT);
    return CV_OK;
}

/* Of references that follow each other in memory, loaded by one visit of one instruction, only the first is looked up. */
static int goes_on(const cv_path *path, const struct cv_wire_site *site, size_t i)
{
    const struct cv_wire_site *const own = &site[path->sites[i]], *const last = &site[path->sites[i - 1]];
    return own->instruction == last->instruction && !((own->flags | last->flags) & CV_WIRE_STORE) &&
           path->addresses[i] == path->addresses[i - 1] + last->size_bytes && path->sites[i] != path->sites[i - 1];
}

static cv_status follow_one(cv_path_sample *s, const cv_path *path, size_t i)
{
    const uint32_t owner = s->owner[path->sites[i]];
    if (owner >= s->owners)
        return CV_OK;
    if (!s->course_of[owner]) {
        CV_RESERVE(s->course, s->course_capacity, s->courses + 1);
        s->course[s->courses] = (cv_core_course){0};
        s->course_of[owner] = (uint32_t)s->courses++;
    }
    cv_core_course *const course = &s->course[s->course_of[owner]];
    course->since++;
    if (s->out_of_order[i]) {
        course->gap[course->lines++ % CV_CORE_COURSE] = course->since < UINT16_MAX ? (uint16_t)course->since : UINT16_MAX;
        course->since = 0;
    }
    return CV_OK;
}

/* Let the courses of owners go on up to this reference of the piece. */
static cv_status follow(cv_path_sample *s, const cv_path *path, size_t end)
{
    const struct cv_wire_site *site;
    const size_t sites = cv_trace_sites(s->trace, &site);
    cv_status status = CV_OK;
    for (; s->followed < end && !status; s->followed++) {
        const uint32_t own = path->sites[s->followed];
        if (own < s->sites && own < sites && !(s->followed && path->sites[s->followed - 1] < sites && goes_on(path, site, s->followed)))
            status = follow_one(s, path, s->followed);
    }
    return status;
}

/* The courses, as they are, of the owners whose references bring lines out of order among these. */
static cv_status take_courses(cv_path_sample *s, const cv_path *path, size_t at, size_t end)
{
    s->epoch++;
    s->taken_count = 0;
    for (; at < end; at++) {
        const uint32_t owner = path->sites[at] < s->sites ? s->owner[path->sites[at]] : (uint32_t)s->owners;
        if (!s->out_of_order[at] || owner >= s->owners || s->met[owner] == s->epoch)
            continue;
        s->met[owner] = s->epoch;
        CV_RESERVE(s->taken, s->taken_capacity, s->taken_count + 1);
        s->course[s->course_of[owner]].phase = (uint16_t)draw(s);
        s->taken[s->taken_count++] = (owner_course){owner, s->course[s->course_of[owner]]};
    }
    return CV_OK;
}

static void show(cv_path_sample *s, const window *w, uint32_t more)
{
    for (uint32_t i = w->warm_visits; i < w->visits; i++)
        s->shown[w->segments[i]] += more;
}

static int shows_rare(const cv_path_sample *s, const uint32_t *segments, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (s->shown[segments[i]] < s->plan.shown)
            return 1;
    return 0;
}

static cv_status window_new(window *w)
{
    const size_t bytes = w->references * (sizeof *w->addresses + sizeof *w->sites + 1) + w->visits * (sizeof *w->segments + 1) +
                         (w->visits + 1) * sizeof *w->first_reference + w->courses * sizeof *w->course;
    if (!(w->addresses = malloc(bytes)))
        return CV_ERROR_MEMORY;
    w->course = (owner_course *)(w->addresses + w->references);
    w->sites = (uint32_t *)(w->course + w->courses);
    w->segments = w->sites + w->references;
    w->first_reference = w->segments + w->visits;
    w->out_of_order = (uint8_t *)(w->first_reference + w->visits + 1);
    w->flags = w->out_of_order + w->references;
    return CV_OK;
}

/* Keep the visits [begin, end) of a piece and what came before them. How much came before is drawn: what arrives in batches (lines, for as
 * many loads as there are buffers) would otherwise begin with the same phase in every window. */
static cv_status keep(cv_path_sample *s, window_list *list, const cv_path *path, size_t begin, size_t end)
{
    const uint8_t *flags = cv_branches_flags(s->branches);
    const uint64_t least = s->plan.warm / 2 + draw(s) % (s->plan.warm + 1);
    size_t first = begin;
    for (uint64_t warm = 0; first && warm < least; first--)
        warm += s->instructions[path->segments[first - 1]];
    const uint32_t at = path->first_reference[first];
    cv_status status = follow(s, path, at);
    if (!status)
        status = take_courses(s, path, at, path->first_reference[end]);
    if (status)
        return status;
    window w = {.stretch = s->stretches,
                .thread = path->thread,
                .following = end < path->visits ? path->segments[end] : path->following,
                .visits = (uint32_t)(end - first),
                .warm_visits = (uint32_t)(begin - first),
                .references = path->first_reference[end] - at,
                .courses = (uint32_t)s->taken_count};
    CV_RESERVE(list->at, list->capacity, list->count + 1);
    status = window_new(&w);
    if (status)
        return status;
    if (w.courses)
        memcpy(w.course, s->taken, w.courses * sizeof *w.course);
    if (w.references) {
        memcpy(w.addresses, path->addresses + at, w.references * sizeof *w.addresses);
        memcpy(w.sites, path->sites + at, w.references * sizeof *w.sites);
        memcpy(w.out_of_order, s->out_of_order + at, w.references);
    }
    memcpy(w.segments, path->segments + first, w.visits * sizeof *w.segments);
    memcpy(w.flags, flags + first, w.visits);
    for (uint32_t i = 0; i <= w.visits; i++)
        w.first_reference[i] = path->first_reference[first + i] - at;
    list->at[list->count++] = w;
    show(s, &w, 1);
    return CV_OK;
}

/* A window that was chosen goes, unless it is needed for what it alone shows. */
static cv_status give_up(cv_path_sample *s, window *w)
{
    show(s, w, (uint32_t)-1);
    if (s->rare.count < s->plan.most && shows_rare(s, w->segments + w->warm_visits, w->visits - w->warm_visits)) {
        CV_RESERVE(s->rare.at, s->rare.capacity, s->rare.count + 1);
        s->rare.at[s->rare.count++] = *w;
        show(s, w, 1);
    } else {
        free(w->addresses);
    }
    return CV_OK;
}

/* Of each two neighbors one goes, whichever. */
static cv_status thin(cv_path_sample *s)
{
    window *const at = s->chosen.at;
    cv_status status = CV_OK;
    for (size_t i = 0; i < s->chosen.count / 2; i++) {
        const size_t stays = 2 * i + (draw(s) & 1), goes = stays ^ 1;
        const window kept = at[stays];
        window lost = at[goes];
        at[i] = kept;
        if (!status)
            status = give_up(s, &lost);
        else
            free(lost.addresses);
    }
    s->chosen.count /= 2;
    s->every *= 2;
    return status;
}

static cv_status stretch(cv_path_sample *s, const cv_path *path, size_t begin, size_t end)
{
    cv_status status = CV_OK;
    if (s->stretches % s->every == 0) {
        if (s->chosen.count == s->plan.most)
            status = thin(s);
        s->pick = s->stretches + draw(s) % s->every;
    }
    if (!status && s->stretches == s->pick)
        status = keep(s, &s->chosen, path, begin, end);
    else if (!status && s->rare.count < s->plan.most && shows_rare(s, path->segments + begin, end - begin))
        status = keep(s, &s->rare, path, begin, end);
    s->stretches++;
    return status;
}

cv_status cv_path_sample_sink(void *context, const cv_path *path)
{
    cv_path_sample *s = context;
    cv_status status = learn(s);
    if (!status)
        status = mark_out_of_order(s, path);
    s->followed = 0;
    for (size_t begin = path->warm_visits, end; begin < path->visits && !status; begin = end) {
        uint32_t length = 0;
        for (end = begin; end < path->visits && length < s->plan.counted; end++)
            length += s->instructions[path->segments[end]];
        status = stretch(s, path, begin, end);
    }
    return status ? status : follow(s, path, path->references);
}

uint64_t cv_path_sample_stretches(const cv_path_sample *s) { return s->stretches; }

size_t cv_path_sample_count(const cv_path_sample *s) { return s->chosen.count + s->rare.count; }

static const window *window_of(const cv_path_sample *s, size_t number)
{
    return number < s->chosen.count ? &s->chosen.at[number] : &s->rare.at[number - s->chosen.count];
}

void cv_path_sample_window(const cv_path_sample *s, size_t number, cv_sample_window *about)
{
    const window *const w = window_of(s, number);
    *about = (cv_sample_window){w->stretch, number >= s->chosen.count};
}

size_t cv_path_sample_visits(const cv_path_sample *s, size_t number, const uint32_t **segments)
{
    const window *const w = window_of(s, number);
    *segments = w->segments + w->warm_visits;
    return w->visits - w->warm_visits;
}

void cv_path_sample_showing(const cv_path_sample *s, const uint8_t *wanted, uint8_t *shows)
{
    for (size_t number = 0; number < cv_path_sample_count(s); number++) {
        const window *const w = window_of(s, number);
        shows[number] = 0;
        for (uint32_t i = w->warm_visits; i < w->visits && !shows[number]; i++)
            shows[number] = wanted[w->segments[i]];
    }
}

/* ---- walks ---- */

struct cv_sample_walk {
    const cv_path_sample *sample;
    cv_core *core;
    cv_block_map map;
    uint32_t *seen, *last, epoch; /* of each segment: the window in which it was met last; of each block: 1 + its row */
    cv_block_cycles *found;
    size_t count, capacity, begun; /* rows; those of this window begin there */
};

cv_sample_walk *cv_sample_walk_new(const cv_path_sample *sample, cv_core *core, const cv_block_map *map)
{
    cv_sample_walk *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    *w = (cv_sample_walk){.sample = sample, .core = core, .map = *map};
    w->seen = calloc(core->segments + 1, sizeof *w->seen);
    w->last = calloc(map->blocks + 1, sizeof *w->last);
    if (w->seen && w->last && map->ops == core->ops)
        return w;
    cv_sample_walk_free(w);
    return NULL;
}

void cv_sample_walk_free(cv_sample_walk *w)
{
    if (!w)
        return;
    free(w->seen);
    free(w->last);
    free(w->found);
    free(w);
}

/* The surplus of an owner since it was taken last. */
static double taken_surplus(cv_core *c, uint32_t owner)
{
    if (owner >= c->far_owners)
        return 0;
    const double surplus = c->far[owner].surplus;
    c->far[owner].surplus = 0;
    return surplus;
}

/* Move what the core counted of one operation to its block's row. */
static cv_status harvest(cv_sample_walk *w, uint32_t number, size_t op)
{
    cv_core *const c = w->core;
    const uint64_t cycles = c->cycles[op], executions = w->map.counted[op] ? c->executions[op] : 0;
    const uint32_t block = w->map.block[op];
    c->cycles[op] = c->executions[op] = 0;
    if ((!cycles && !executions) || block >= w->map.blocks)
        return CV_OK;
    if (w->last[block] <= w->begun) {
        CV_RESERVE(w->found, w->capacity, w->count + 1);
        w->found[w->count++] = (cv_block_cycles){.window = number, .block = block, .surplus = taken_surplus(c, block)};
        w->last[block] = (uint32_t)w->count;
    }
    w->found[w->last[block] - 1].cycles += cycles;
    w->found[w->last[block] - 1].executions += executions;
    return CV_OK;
}

static cv_status harvest_all(cv_sample_walk *w, uint32_t number, const window *from)
{
    w->begun = w->count;
    w->epoch++;
    for (uint32_t i = 0; i < from->visits; i++) {
        const uint32_t segment = from->segments[i];
        if (w->seen[segment] == w->epoch)
            continue;
        w->seen[segment] = w->epoch;
        for (uint32_t op = w->core->first_op[segment]; op < w->core->first_op[segment + 1]; op++) {
            const cv_status status = harvest(w, number, op);
            if (status)
                return status;
        }
    }
    return CV_OK;
}

cv_status cv_sample_walk_windows(cv_sample_walk *w, const uint32_t *windows, size_t count)
{
    cv_status status = CV_OK;
    for (size_t i = 0; i < count && !status; i++) {
        if (windows[i] >= cv_path_sample_count(w->sample))
            return CV_ERROR_ARGUMENT;
        const window *const from = window_of(w->sample, windows[i]);
        const cv_path path = {.thread = from->thread,
                              .following = from->following,
                              .visits = from->visits,
                              .references = from->references,
                              .warm_visits = from->warm_visits,
                              .segments = from->segments,
                              .first_reference = from->first_reference,
                              .addresses = from->addresses,
                              .sites = from->sites};
        for (uint32_t k = 0; k < from->courses; k++)
            cv_core_owe(w->core, from->course[k].owner, &from->course[k].course);
        w->core->out_of_order = from->out_of_order;
        status = cv_core_walk(w->core, &path, from->flags, NULL);
        w->core->out_of_order = NULL;
        if (!status)
            status = harvest_all(w, windows[i], from);
        if (!status)
            status = cv_interrupt_due();
    }
    return status;
}

size_t cv_sample_walk_found(const cv_sample_walk *w, const cv_block_cycles **found)
{
    *found = w->found;
    return w->count;
}
