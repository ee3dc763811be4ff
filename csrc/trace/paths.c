/* Builds pieces of executed path from decoded visits.
 *
 * A full piece is handed out when the next visit comes, so that it can tell what followed. */
#include "paths.h"

#include "grow.h"
#include "trace.h"

#include <stdlib.h>

#define REFERENCES_A_VISIT 8 /* on average, at most, in one piece */
#define MOST_THREADS 65536   /* of which it is remembered where their path ended */

struct cv_paths {
    size_t max_visits, max_references;
    int warmup;
    size_t whole, every; /* which pieces of a long window are built */
    size_t built;        /* pieces of this window that were full */
    size_t skip;         /* visits to be left out */

    uint32_t *segments, *first, *sites;
    uint64_t *addresses;
    size_t address_capacity, site_capacity;
    cv_path now; /* without the arrays */
    int warming;

    /* Per thread the stretch of its last piece: a window, or what lies between two gaps. Pieces of other stretches do not continue. */
    uint64_t *ended;
    size_t ended_capacity, ended_count;
    uint64_t stretch;

    struct {
        cv_path_sink eat;
        void *context;
    } *sinks;
    size_t sink_capacity, sink_count;
};

cv_paths *cv_paths_new(size_t max_visits, int warmup)
{
    cv_paths *paths = calloc(1, sizeof *paths);
    if (!paths)
        return NULL;
    paths->max_visits = max_visits < 1 ? 1 : max_visits > UINT32_MAX / 16 ? UINT32_MAX / 16 : max_visits;
    paths->max_references = REFERENCES_A_VISIT * paths->max_visits;
    paths->warmup = warmup;
    paths->every = 1;
    paths->stretch = 1; /* 0 stands for never */
    paths->segments = malloc(paths->max_visits * sizeof *paths->segments);
    paths->first = malloc((paths->max_visits + 1) * sizeof *paths->first);
    if (!paths->segments || !paths->first) {
        cv_paths_free(paths);
        return NULL;
    }
    paths->first[0] = 0;
    return paths;
}

void cv_paths_free(cv_paths *paths)
{
    if (!paths)
        return;
    free(paths->segments);
    free(paths->first);
    free(paths->sites);
    free(paths->addresses);
    free(paths->ended);
    free(paths->sinks);
    free(paths);
}

cv_status cv_paths_add_sink(cv_paths *paths, cv_path_sink sink, void *context)
{
    CV_RESERVE(paths->sinks, paths->sink_capacity, paths->sink_count + 1);
    paths->sinks[paths->sink_count].eat = sink;
    paths->sinks[paths->sink_count++].context = context;
    return CV_OK;
}

void cv_paths_thin(cv_paths *paths, size_t whole, size_t every)
{
    paths->whole = whole;
    paths->every = every < 1 ? 1 : every;
}

static cv_status remember_end(cv_paths *paths)
{
    size_t thread = paths->now.thread;
    if (thread >= MOST_THREADS)
        return CV_OK;
    CV_RESERVE(paths->ended, paths->ended_capacity, thread + 1);
    for (; paths->ended_count <= thread; paths->ended_count++)
        paths->ended[paths->ended_count] = 0;
    paths->ended[thread] = paths->stretch;
    return CV_OK;
}

static int goes_on(const cv_paths *paths)
{
    return paths->now.thread < paths->ended_count && paths->ended[paths->now.thread] == paths->stretch;
}

static cv_status hand_out(cv_paths *paths, uint32_t following)
{
    if (!paths->now.visits)
        return CV_OK;
    cv_path path = paths->now;
    path.continues = (uint32_t)goes_on(paths);
    path.following = following;
    path.warm_visits = paths->warming ? path.visits : path.warm_visits;
    path.segments = paths->segments;
    path.first_reference = paths->first;
    path.addresses = paths->addresses;
    path.sites = paths->sites;
    paths->now.visits = paths->now.references = paths->now.warm_visits = 0;
    cv_status status = remember_end(paths);
    for (size_t i = 0; i < paths->sink_count && !status; i++)
        status = paths->sinks[i].eat(paths->sinks[i].context, &path);
    return status;
}

static cv_status hand_out_full(cv_paths *paths, uint32_t following)
{
    cv_status status = hand_out(paths, following);
    if (++paths->built >= paths->whole && paths->every > 1) {
        paths->skip = (paths->every - 1) * paths->max_visits;
        paths->stretch++;
    }
    return status;
}

static cv_status reserve(cv_paths *paths, size_t references)
{
    CV_RESERVE(paths->addresses, paths->address_capacity, references);
    CV_RESERVE(paths->sites, paths->site_capacity, references);
    return CV_OK;
}

/* The references of one visit, after those that are there; returns their number. */
static size_t unpack(const cv_hot_site *hot, size_t sites, uint32_t first_site, const uint64_t *words, uint64_t *restrict addresses,
                     uint32_t *restrict owners)
{
    size_t count = 0;
    for (size_t i = 0; i < sites; i++) {
        uint64_t word = words[hot[i].base] & hot[i].mask;
        addresses[count] = word + hot[i].displacement;
        owners[count] = first_site + (uint32_t)i;
        count += !(hot[i].guarded && word == CV_WIRE_NOT_EXECUTED);
    }
    return count;
}

cv_status cv_paths_visits(cv_paths *paths, cv_trace *trace, uint32_t segment, const uint64_t *at, size_t records)
{
    static const uint64_t no_word[1];
    const cv_hot_segment *hot = &trace->hot_segments[segment];
    const cv_hot_site *sites = trace->hot_sites + hot->first_site;
    const size_t length = 1 + (size_t)hot->words;
    cv_status status = CV_OK;
    for (; records && !status; records--, at += length) {
        if (paths->now.visits == paths->max_visits || paths->now.references >= paths->max_references)
            if ((status = hand_out_full(paths, segment)))
                break;
        if (paths->skip) {
            size_t left_out = paths->skip < records ? paths->skip : records;
            paths->skip -= left_out;
            records -= left_out - 1;
            at += (left_out - 1) * length;
            continue;
        }
        size_t to = paths->now.references;
        if (hot->sites && to + hot->sites > paths->site_capacity && (status = reserve(paths, to + hot->sites)))
            break;
        if (hot->sites)
            to += unpack(sites, hot->sites, hot->first_site, hot->words ? at + 1 : no_word, paths->addresses + to, paths->sites + to);
        paths->segments[paths->now.visits++] = segment;
        paths->first[paths->now.visits] = (uint32_t)to;
        paths->now.references = to;
    }
    return status;
}

cv_status cv_paths_gap(cv_paths *paths)
{
    cv_status status = hand_out(paths, CV_PATH_UNKNOWN);
    paths->stretch++;
    return status;
}

cv_status cv_paths_control(cv_paths *paths, const cv_batch *now, unsigned kind)
{
    cv_status status = CV_OK;
    if (kind == CV_WIRE_PASSED)
        return cv_paths_gap(paths);
    if (kind == CV_WIRE_WINDOW_WARM) {
        if (paths->warming)
            paths->now.warm_visits = paths->now.visits;
        paths->warming = 0;
    } else if (kind == CV_WIRE_WINDOW_OPEN || kind == CV_WIRE_WINDOW_CLOSE) {
        status = cv_paths_gap(paths);
        paths->built = paths->skip = 0;
        paths->warming = paths->warmup && kind == CV_WIRE_WINDOW_OPEN;
    } else if (now->thread != paths->now.thread) {
        status = hand_out(paths, CV_PATH_UNKNOWN);
    }
    paths->now.thread = now->thread;
    paths->now.window = now->window;
    return status;
}

cv_status cv_paths_flush(cv_paths *paths) { return hand_out(paths, CV_PATH_UNKNOWN); }

void cv_trace_build_paths(cv_trace *trace, cv_paths *paths)
{
    trace->paths = paths;
    paths->now.thread = trace->now.thread;
    paths->now.window = trace->now.window;
}

void cv_trace_paths_alone(cv_trace *trace) { trace->paths_alone = 1; }
