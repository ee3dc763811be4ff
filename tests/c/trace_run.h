/* A wire stream through the decoder and all that reads it: in pieces, recorded and replayed, attributed, with paths, branches and walks. */
#ifndef TRACE_RUN_H
#define TRACE_RUN_H

#include "cv_branch.h"
#include "cv_chains.h"
#include "cv_objects.h"
#include "cv_path_sample.h"
#include "cv_paths.h"
#include "cv_trace.h"
#include "some_core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 88172645463325252u;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void replay(cv_trace *recorder, cv_trace *reader)
{
    for (int kind = 0; kind < CV_RECORDED_KINDS; kind++) {
        size_t size;
        const uint8_t *bytes = cv_trace_recorded(recorder, kind, &size);
        uint8_t *copy = malloc(size + 1); /* of exactly this size, so that a read beyond its end is seen */
        if (size)
            memcpy(copy, bytes, size);
        if ((kind == CV_RECORDED_ADDRESSES || kind == CV_RECORDED_EVENTS) && size && next() % 4 == 0)
            copy[next() % size] ^= 1 << next() % 8;
        size_t used = 0;
        if (kind == CV_RECORDED_EVENTS)
            cv_trace_events(reader, copy, size);
        else if (kind != CV_RECORDED_ADDRESSES)
            cv_trace_define(reader, copy, size);
        else /* by slices as short as they can be, or at once */
            for (int milliseconds = next() % 2 ? 0 : 1000; used < size;)
                if (cv_trace_replay(reader, copy, size, milliseconds, &used) != CV_OK)
                    break;
        free(copy);
    }
    cv_trace_taken(recorder);
}

#define SITES 64
#define OWNERS 5

static cv_path_sample *sample_of(const cv_trace *trace, const cv_branches *branches)
{
    uint32_t owner[SITES];
    for (uint32_t i = 0; i < SITES; i++)
        owner[i] = i % (OWNERS + 1);
    const cv_sample_plan plan = {.counted = 20, .warm = 10, .most = 4, .shown = 2};
    const cv_site_owners owners = {SITES, OWNERS, owner};
    return cv_path_sample_new(trace, branches, &plan, &owners);
}

/* Walk all windows of a sample through a core whose instructions are all alike; frees the sample. */
static void walk(const cv_trace *trace, cv_path_sample *sample)
{
    const cv_core_class class = {0xf, 1, 1, 1, 0, 0, 0, 0};
    const struct cv_wire_segment *segment;
    const struct cv_wire_site *site;
    const struct cv_wire_instruction *instruction;
    const size_t segments = cv_trace_segments(trace, &segment), ops = cv_trace_instructions(trace, &instruction),
                 sites = cv_trace_sites(trace, &site);
    uint32_t *first = calloc(segments + 1, sizeof *first), *block = calloc(ops + 1, sizeof *block);
    uint64_t *address = calloc(segments + 1, sizeof *address);
    cv_core_op *op = calloc(ops + 1, sizeof *op);
    uint16_t *word = calloc(sites + 1, sizeof *word), latency[OWNERS], walks[OWNERS] = {0};
    uint8_t *flag = calloc(sites + ops + 1, 1);
    uint32_t *owner = calloc(sites + 1, sizeof *owner);
    float rates[OWNERS];
    for (size_t i = 0; i < segments; i++)
        first[i + 1] = first[i] + segment[i].instructions;
    for (size_t i = 0; i < ops; i++)
        op[i] = (cv_core_op){.flags = CV_CORE_LOAD, .slots = 1}, block[i] = i % OWNERS;
    for (size_t i = 0; i < sites; i++)
        word[i] = site[i].instruction, owner[i] = i % OWNERS;
    for (int i = 0; i < OWNERS; i++)
        rates[i] = (float)i / OWNERS, latency[i] = 100;
    const cv_core_code code = {segments, ops, sites, first, address, address, op, word, word, flag};
    const cv_core_far_shares shares = {1, OWNERS, owner, rates, latency, walks};
    const cv_block_map map = {ops, OWNERS, block, flag};
    cv_core *core = NULL;
    cv_sample_walk *one = NULL;
    if (first[segments] == ops && cv_core_new(&SOME_CORE, &class, 1, &code, &core) == CV_OK && cv_core_levels(core, &shares) == CV_OK)
        one = cv_sample_walk_new(sample, core, &map);
    for (uint32_t i = 0; one && i <= cv_path_sample_count(sample); i++)
        cv_sample_walk_windows(one, &i, 1);
    cv_sample_walk_free(one);
    cv_core_free(core);
    cv_path_sample_free(sample);
    void *const made[] = {first, block, address, op, word, flag, owner};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        free(made[i]);
}

/* Sinks that read all that they are handed. */
static cv_status read_batch(void *sum, const cv_refs *refs, const cv_batch *batch)
{
    for (size_t i = 0; i < refs->count; i++)
        *(uint64_t *)sum += refs->address[i] + refs->owner[i] + refs->size[i] + refs->write[i] + batch->kind;
    return CV_OK;
}

static cv_status read_path(void *sum, const cv_path *path)
{
    for (size_t i = 0; i < path->visits; i++)
        *(uint64_t *)sum += path->segments[i] + path->first_reference[i + 1];
    for (size_t i = 0; i < path->references; i++)
        *(uint64_t *)sum += path->addresses[i] + path->sites[i];
    return CV_OK;
}

static inline uint64_t run(const uint8_t *wire, size_t size)
{
    cv_trace *recorder = cv_trace_new(), *reader = cv_trace_new();
    uint64_t sum = 0;
    cv_trace_add_sink(recorder, read_batch, &sum);
    cv_paths *paths[2] = {cv_paths_new(7, 1), cv_paths_new(1000, 0)};
    cv_paths_add_sink(paths[0], read_path, &sum);
    cv_paths_add_sink(paths[1], read_path, &sum);
    cv_branches *branches[2] = {cv_branches_new(recorder), cv_branches_new(reader)};
    cv_paths_add_sink(paths[0], cv_branches_sink, branches[0]);
    cv_paths_add_sink(paths[1], cv_branches_sink, branches[1]);
    cv_path_sample *samples[2] = {sample_of(recorder, branches[0]), sample_of(reader, branches[1])};
    cv_paths_add_sink(paths[0], cv_path_sample_sink, samples[0]);
    cv_paths_add_sink(paths[1], cv_path_sample_sink, samples[1]);
    cv_chains *chains[2] = {cv_chains_new(recorder), cv_chains_new(reader)};
    cv_paths_add_sink(paths[0], cv_chains_sink, chains[0]);
    cv_paths_add_sink(paths[1], cv_chains_sink, chains[1]);
    cv_trace_build_paths(recorder, paths[0]);
    cv_trace_build_paths(reader, paths[1]);
    cv_trace_record(recorder, 1);
    cv_trace_attribute(recorder, 1);
    cv_trace_attribute(reader, 0);
    cv_status status = CV_OK;
    for (size_t at = 0; at < size && !status;) {
        size_t piece = 1 + next() % 4096;
        if (piece > size - at)
            piece = size - at;
        uint8_t *copy = malloc(piece);
        memcpy(copy, wire + at, piece);
        status = cv_trace_feed(recorder, copy, piece);
        free(copy);
        at += piece;
        if (cv_trace_chunk_full(recorder) || next() % 8 == 0)
            replay(recorder, reader);
    }
    cv_trace_flush(recorder);
    cv_trace_flush(reader);
    const cv_trace_totals *totals = cv_trace_totals_of(recorder);
    uint64_t references = totals->window_references + totals->set_references;
    walk(recorder, samples[0]);
    walk(reader, samples[1]);
    cv_chains_finish(chains[0]);
    cv_chains_free(chains[0]);
    cv_chains_free(chains[1]);
    cv_branches_free(branches[0]);
    cv_branches_free(branches[1]);
    cv_paths_free(paths[0]);
    cv_paths_free(paths[1]);
    cv_trace_free(recorder);
    cv_trace_free(reader);
    return references;
}

#endif
