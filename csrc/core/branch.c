/* Walks paths: what each visit's branch did, whether it was predicted, and who followed whom. */
#include "cv_branch.h"

#include "../trace/grow.h"
#include "predictors.h"

#include <stdlib.h>
#include <string.h>

#define NO_EDGE UINT32_MAX
#define NO_SEGMENT UINT32_MAX

struct cv_branches {
    const cv_trace *trace;
    cv_segment_end *ends;
    cv_branch_counts *counts;
    uint32_t *latest; /* edge that each segment took last */
    size_t segments, end_capacity, count_capacity, latest_capacity;
    size_t instructions, code; /* of the segments that are known */

    cv_edge *edges;
    size_t edge_count, edge_capacity;
    uint32_t *places; /* hash table of edge numbers + 1 */
    size_t place_count;

    cv_history history;
    cv_tage tage;
    cv_targets targets;
    uint32_t thread;
    uint64_t repeating; /* address of the string instruction that the last visit ended in, 0: none */
    uint32_t began;     /* segment that began this repetition, NO_SEGMENT: a path began within it */
    uint32_t turn;      /* segment of its turns, NO_SEGMENT: none yet */
    uint64_t turns;
    int beginning; /* no visit of the path came yet */
    int flags_alone;
    uint8_t *flags;
    size_t flag_capacity;
};

cv_branches *cv_branches_new(const cv_trace *trace)
{
    cv_branches *branches = calloc(1, sizeof *branches);
    if (!branches)
        return NULL;
    branches->trace = trace;
    cv_tage_start(&branches->tage);
    return branches;
}

void cv_branches_free(cv_branches *branches)
{
    if (!branches)
        return;
    free(branches->ends);
    free(branches->counts);
    free(branches->latest);
    free(branches->edges);
    free(branches->places);
    free(branches->flags);
    free(branches);
}

/* Read the ends of the segments that were defined since. */
static cv_status learn(cv_branches *b)
{
    const struct cv_wire_segment *segments;
    const struct cv_wire_instruction *instructions;
    const uint8_t *code;
    size_t count = cv_trace_segments(b->trace, &segments);
    if (count == b->segments)
        return CV_OK;
    cv_trace_instructions(b->trace, &instructions);
    cv_trace_code(b->trace, &code);
    CV_RESERVE(b->ends, b->end_capacity, count);
    CV_RESERVE(b->counts, b->count_capacity, count);
    CV_RESERVE(b->latest, b->latest_capacity, count);
    for (; b->segments < count; b->segments++) {
        const struct cv_wire_segment *segment = &segments[b->segments];
        b->ends[b->segments] = cv_read_end(segment, instructions + b->instructions, code + b->code);
        b->counts[b->segments] = (cv_branch_counts){0};
        b->latest[b->segments] = NO_EDGE;
        b->instructions += segment->instructions;
        b->code += segment->code_bytes;
    }
    return CV_OK;
}

static size_t place_of(const cv_branches *b, uint32_t from, uint32_t to)
{
    uint64_t h = ((uint64_t)from << 32 | to) * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (h >> 32) & (b->place_count - 1);
    while (b->places[at] && (b->edges[b->places[at] - 1].from != from || b->edges[b->places[at] - 1].to != to))
        at = (at + 1) & (b->place_count - 1);
    return at;
}

static cv_status grow_edges(cv_branches *b)
{
    CV_RESERVE(b->edges, b->edge_capacity, b->edge_count + 1);
    if (2 * b->edge_count < b->place_count)
        return CV_OK;
    size_t larger = b->place_count ? 2 * b->place_count : 1024;
    uint32_t *places = calloc(larger, sizeof *places);
    if (!places)
        return CV_ERROR_MEMORY;
    free(b->places);
    b->places = places;
    b->place_count = larger;
    for (size_t i = 0; i < b->edge_count; i++)
        b->places[place_of(b, b->edges[i].from, b->edges[i].to)] = (uint32_t)i + 1;
    return CV_OK;
}

static cv_status count_edge(cv_branches *b, uint32_t from, uint32_t to)
{
    uint32_t latest = b->latest[from];
    if (latest == NO_EDGE || b->edges[latest].to != to) {
        cv_status status = grow_edges(b);
        if (status)
            return status;
        size_t place = place_of(b, from, to);
        if (!b->places[place]) {
            b->edges[b->edge_count] = (cv_edge){from, to, 0};
            b->places[place] = (uint32_t)++b->edge_count;
        }
        b->latest[from] = latest = b->places[place] - 1;
    }
    b->edges[latest].count++;
    return CV_OK;
}

/* Predicts the branch of one visit. */
static unsigned step(cv_branches *b, const cv_segment_end *end, uint64_t next)
{
    int is_branch = end->kind >= CV_END_CONDITIONAL && end->kind <= CV_END_RETURN;
    unsigned taken = is_branch && next != end->after ? CV_VISIT_TAKEN : 0;
    int wrong = 0;
    unsigned foreseen = 0;
    switch (end->kind) {
    case CV_END_CONDITIONAL:
        if (taken && next != end->target)
            return 0; /* a signal handler ran in between */
        foreseen = cv_tage_step(&b->tage, &b->history, end->branch, taken != 0);
        break;
    case CV_END_CALL: cv_targets_call(&b->targets, end->after); break;
    case CV_END_INDIRECT_CALL: cv_targets_call(&b->targets, end->after); /* fall through */
    case CV_END_INDIRECT_JUMP: wrong = cv_targets_step(&b->targets, &b->history, end->branch, next); break;
    case CV_END_RETURN: wrong = cv_targets_return(&b->targets, next); break;
    default: break;
    }
    return CV_VISIT_KNOWN | taken | foreseen | (wrong ? CV_VISIT_MISPREDICTED : 0u);
}

static void count(cv_branch_counts *counts, const cv_segment_end *end, unsigned flags)
{
    unsigned wrong = (flags & CV_VISIT_MISPREDICTED) != 0;
    counts->known += flags & CV_VISIT_KNOWN;
    counts->taken += (flags & CV_VISIT_TAKEN) != 0;
    counts->mispredicted += wrong & (end->kind == CV_END_CONDITIONAL);
    counts->indirect_mispredicted += wrong & (end->kind != CV_END_CONDITIONAL);
}

/* The visit before was the last of a repetition: it counts where its beginning was seen, too. Those that a window's edge cut count
 * neither as executions nor with the turns that were left of them. */
static void end_repetition(cv_branches *b, int counted)
{
    if (counted && b->repeating && b->began != NO_SEGMENT) {
        b->counts[b->began].repeats++;
        if (b->turns)
            b->counts[b->turn].turns += b->turns;
    }
    b->repeating = 0;
}

/* A string instruction comes once for each turn, so one repetition is many visits that end in it. */
static void follow_repetition(cv_branches *b, uint32_t here, const cv_segment_end *end, uint64_t address, int counted)
{
    const int alone = address == end->branch; /* the segment is nothing but the instruction: a turn, or a jump went to it */
    const int repeated = end->kind == CV_END_REPEAT;
    if (b->repeating && !(repeated && alone && end->branch == b->repeating))
        end_repetition(b, counted);
    if (repeated && !b->repeating) {
        b->repeating = end->branch;
        b->began = end->turn || (alone && b->beginning) ? NO_SEGMENT : here;
        b->turn = NO_SEGMENT;
        b->turns = 0;
    }
    if (end->turn) {
        b->turn = b->turn == NO_SEGMENT ? here : b->turn;
        b->turns++;
    }
    b->beginning = 0;
}

static void begin(cv_branches *b, const cv_path *path)
{
    if (path->continues && path->thread == b->thread)
        return;
    cv_targets_forget(&b->targets);
    b->thread = path->thread;
    b->repeating = 0;
    b->beginning = 1;
}

cv_status cv_branches_walk(cv_branches *b, const cv_path *path, uint8_t *flags)
{
    const struct cv_wire_segment *segments;
    cv_status status = learn(b);
    if (status)
        return status;
    size_t known = cv_trace_segments(b->trace, &segments);
    begin(b, path);
    for (size_t i = 0; i < path->visits; i++) {
        uint32_t here = path->segments[i], there = i + 1 < path->visits ? path->segments[i + 1] : path->following;
        if (here >= known || (there >= known && there != CV_PATH_UNKNOWN))
            return CV_ERROR_ARGUMENT;
        const cv_segment_end *end = &b->ends[here];
        unsigned found = there == CV_PATH_UNKNOWN ? 0 : step(b, end, segments[there].address);
        if (flags)
            flags[i] = (uint8_t)found;
        if (b->flags_alone)
            continue;
        follow_repetition(b, here, end, segments[here].address, i >= path->warm_visits);
        if (i >= path->warm_visits) {
            cv_branch_counts *counts = &b->counts[here];
            counts->visits++;
            count(counts, end, found);
            if (found & CV_VISIT_KNOWN && (status = count_edge(b, here, there)))
                return status;
        }
    }
    return CV_OK;
}

void cv_branches_flags_alone(cv_branches *branches) { branches->flags_alone = 1; }

cv_status cv_branches_sink(void *context, const cv_path *path)
{
    cv_branches *b = context;
    CV_RESERVE(b->flags, b->flag_capacity, path->visits);
    return cv_branches_walk(b, path, b->flags);
}

const uint8_t *cv_branches_flags(const cv_branches *branches) { return branches->flags; }

size_t cv_branches_counts(const cv_branches *branches, const cv_branch_counts **counts)
{
    *counts = branches->counts;
    return branches->segments;
}

size_t cv_branches_ends(const cv_branches *branches, const cv_segment_end **ends)
{
    *ends = branches->ends;
    return branches->segments;
}

size_t cv_branches_edges(const cv_branches *branches, const cv_edge **edges)
{
    *edges = branches->edges;
    return branches->edge_count;
}
