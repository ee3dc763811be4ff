/* The hot loop: wire records to batches. A segment's definition was checked when it came, so a visit needs no checks but one. */
#include "trace.h"

#include <string.h>

#define ARGUMENT(head) ((head) & ((UINT64_C(1) << 56) - 1))
#define LARGEST_DEFINITION (((size_t)1 << 22) / 8) /* words; no valid one is longer */

cv_status cv_trace_refuse(cv_trace *trace, const char *why, uint64_t position)
{
    if (!trace->error) {
        trace->error = why;
        trace->error_position = position;
    }
    return CV_ERROR_FORMAT;
}

cv_status cv_batch_flush(cv_trace *trace, int kind)
{
    cv_batch_arrays *batch = &trace->batch[kind];
    if (!batch->count)
        return CV_OK;
    cv_status status = CV_OK;
    if (kind == CV_BATCH_WINDOW) {
        trace->totals.window_references += batch->count;
        status = cv_features_add(trace, batch);
    } else {
        trace->totals.set_references += batch->count;
        for (size_t i = 0; i < batch->count; i++)
            trace->features[batch->owner[i]].sets++;
    }
    cv_refs refs = {batch->address, batch->owner, batch->size, batch->write, batch->count};
    cv_batch about = trace->now;
    about.kind = (uint32_t)kind;
    for (int i = 0; i < trace->sink_count && !status; i++)
        status = trace->sinks[i].eat(trace->sinks[i].context, &refs, &about);
    batch->count = 0;
    return status;
}

static cv_status flush_both(cv_trace *trace)
{
    cv_status status = cv_batch_flush(trace, CV_BATCH_WINDOW);
    return status ? status : cv_batch_flush(trace, CV_BATCH_SETS);
}

static inline cv_status visit(cv_trace *trace, cv_hot_segment *segment, const uint64_t *words)
{
    cv_batch_arrays *batch = &trace->batch[CV_BATCH_WINDOW];
    size_t sites = segment->sites, at = batch->count;
    segment->visits++;
    if (at + sites > CV_TRACE_BATCH) {
        cv_status status = cv_batch_flush(trace, CV_BATCH_WINDOW);
        if (status)
            return status;
        at = 0;
    }
    static const uint64_t no_word[1];
    if (!segment->words)
        words = no_word;
    const cv_hot_site *site = trace->hot_sites + segment->first_site;
    for (size_t i = 0; i < sites; i++, site++) {
        uint64_t word = words[site->base];
        if (segment->guarded && site->guarded && word == CV_WIRE_NOT_EXECUTED) {
            trace->features[segment->first_site + i].skipped++;
            continue;
        }
        batch->address[at] = (word & site->mask) + site->displacement;
        batch->owner[at] = segment->first_site + (uint32_t)i;
        batch->size[at] = site->size;
        batch->write[at] = site->write;
        at++;
    }
    batch->count = at;
    return CV_OK;
}

static cv_status sampled(cv_trace *trace, uint32_t site, uint64_t address)
{
    cv_batch_arrays *batch = &trace->batch[CV_BATCH_SETS];
    if (batch->count == CV_TRACE_BATCH) {
        cv_status status = cv_batch_flush(trace, CV_BATCH_SETS);
        if (status)
            return status;
    }
    size_t at = batch->count++;
    batch->address[at] = address & ~UINT64_C(63);
    batch->owner[at] = site;
    batch->size[at] = 1;
    batch->write[at] = trace->hot_sites[site].write;
    return CV_OK;
}

static cv_status switch_thread(cv_trace *trace, uint32_t thread)
{
    if (thread == trace->now.thread)
        return CV_OK;
    cv_status status = flush_both(trace);
    trace->now.thread = thread;
    trace->stretch++;
    if (trace->totals.threads < thread)
        trace->totals.threads = thread;
    return status;
}

static cv_status open_window(cv_trace *trace)
{
    cv_status status = flush_both(trace);
    trace->now.window = ++trace->totals.windows;
    trace->window_batches = 0;
    trace->stretch++;
    return status;
}

static cv_status control(cv_trace *trace, unsigned kind, const uint64_t *words)
{
    switch (kind) {
    case CV_WIRE_THREAD:
        return switch_thread(trace, (uint32_t)ARGUMENT(words[0]));
    case CV_WIRE_WINDOW_OPEN:
        return open_window(trace);
    case CV_WIRE_WINDOW_CLOSE:
        return cv_batch_flush(trace, CV_BATCH_WINDOW);
    case CV_WIRE_SETS_LOST:
        if (ARGUMENT(words[0]) >= trace->definitions.site_count)
            return cv_trace_refuse(trace, "a sampled reference of a site that is not defined", trace->totals.words);
        trace->totals.set_site_lost++;
        return sampled(trace, (uint32_t)ARGUMENT(words[0]), words[1]);
    default:
        return CV_OK; /* a kind that this reader does not know */
    }
}

/* Fill in what the hot loop needs of the segment that was defined last. */
static cv_status warm(cv_trace *trace)
{
    cv_status status = cv_hot_reserve(trace);
    if (status)
        return status;
    const cv_definitions *all = &trace->definitions;
    const struct cv_wire_segment *segment = &all->segments[all->segment_count - 1];
    cv_hot_segment hot = {.first_site = segment->first_site, .sites = segment->sites, .words = segment->words};
    for (size_t i = segment->first_site; i < all->site_count; i++) {
        const struct cv_wire_site *site = &all->sites[i];
        int has_word = site->base >= 0;
        cv_hot_site *to = &trace->hot_sites[i];
        to->displacement = (uint64_t)site->displacement;
        to->mask = has_word ? ~UINT64_C(0) : 0;
        to->base = has_word ? (uint16_t)site->base : 0;
        to->size = site->size_bytes;
        to->write = site->flags & CV_WIRE_STORE ? 1 : 0;
        to->guarded = (site->flags & CV_WIRE_GUARDED) && has_word;
        hot.guarded |= to->guarded;
        trace->site_segment[i] = segment->id;
        trace->site_line[i] = UINT32_MAX;
        trace->features[i] = (cv_site_features){0};
    }
    trace->hot_segments[segment->id] = hot;
    trace->registers[segment->id] = NULL;
    return CV_OK;
}

static cv_status keep(cv_trace *trace, int kind, const uint64_t *words, size_t count)
{
    if (!trace->recording)
        return CV_OK;
    cv_bytes *to = &trace->recorded[kind];
    cv_status status = cv_bytes_reserve(to, to->count + count * 8);
    if (status)
        return status;
    memcpy(to->bytes + to->count, words, count * 8);
    to->count += count * 8;
    return CV_OK;
}

static cv_status defined(cv_trace *trace, unsigned kind, const uint64_t *words, size_t payload)
{
    const char *why = NULL;
    cv_status status;
    if (kind == CV_WIRE_MODULE)
        status = cv_define_module(&trace->definitions, (uint32_t)(ARGUMENT(words[0]) >> 32), words + 1, payload, &why);
    else
        status = cv_define_segment(&trace->definitions, words + 1, payload, &why);
    if (status == CV_ERROR_FORMAT)
        return cv_trace_refuse(trace, why, trace->totals.words);
    if (!status && kind == CV_WIRE_SEGMENT)
        status = warm(trace);
    if (!status)
        status = keep(trace, kind == CV_WIRE_MODULE ? CV_RECORDED_MODULES : CV_RECORDED_SEGMENTS, words, payload + 1);
    return status;
}

static cv_status long_record(cv_trace *trace, unsigned kind, const uint64_t *words, size_t payload)
{
    if (kind == CV_WIRE_MODULE || kind == CV_WIRE_SEGMENT)
        return defined(trace, kind, words, payload);
    struct cv_wire_end end;
    if (payload * 8 < sizeof end)
        return cv_trace_refuse(trace, "the end record is too short", trace->totals.words);
    memcpy(&end, words + 1, sizeof end);
    trace->totals.ended = 1;
    trace->totals.end_reason = end.reason;
    trace->totals.end_code = end.code;
    return CV_OK;
}

size_t cv_record_words(const cv_trace *trace, const uint64_t *words, size_t count)
{
    if (!count || !(words[0] >> 63))
        return 1;
    if (words[0] >> 62 == 2) {
        uint32_t segment = (uint32_t)words[0];
        return segment < trace->definitions.segment_count ? 1 + (size_t)trace->hot_segments[segment].words : 1;
    }
    unsigned kind = words[0] >> 56 & 63;
    if (kind < CV_WIRE_PAYLOAD)
        return kind == CV_WIRE_SETS_LOST ? 2 : 1;
    return 1 + (size_t)(uint32_t)words[0];
}

static int is_known_long(unsigned kind)
{
    return kind == CV_WIRE_MODULE || kind == CV_WIRE_SEGMENT || kind == CV_WIRE_END;
}

/* Everything but a visit or a sampled reference: rare. *length is that of the part that is there. */
static cv_status control_record(cv_trace *trace, const uint64_t *at, size_t left, size_t *length)
{
    unsigned kind = *at >> 56 & 63;
    *length = cv_record_words(trace, at, 1);
    if (kind >= CV_WIRE_PAYLOAD && !is_known_long(kind)) {
        size_t here = left < *length ? left : *length;
        trace->skip = *length - here;
        *length = here;
        return CV_OK;
    }
    if (kind >= CV_WIRE_PAYLOAD && *length > LARGEST_DEFINITION)
        return cv_trace_refuse(trace, "a record is longer than 4 MiB", trace->totals.words);
    if (left < *length)
        return CV_OK;
    if (kind >= CV_WIRE_PAYLOAD)
        return long_record(trace, kind, at, *length - 1);
    cv_status status = trace->recording ? cv_recorder_control(trace, at, *length) : CV_OK;
    return status ? status : control(trace, kind, at);
}

static cv_status decode_sampled(cv_trace *trace, uint64_t head)
{
    uint32_t site = head & ((1u << CV_WIRE_SITE_BITS) - 1);
    if (site >= trace->definitions.site_count)
        return cv_trace_refuse(trace, "a sampled reference of a site that is not defined", trace->totals.words);
    cv_status status = trace->recording ? cv_recorder_sampled(trace, site, head >> CV_WIRE_SITE_BITS) : CV_OK;
    return status ? status : sampled(trace, site, head >> CV_WIRE_SITE_BITS << 6);
}

cv_status cv_decode(cv_trace *trace, const uint64_t *words, size_t count, size_t *consumed)
{
    const uint64_t *at = words, *end = words + count;
    const uint64_t before = trace->totals.words;
    cv_status status = CV_OK;
    while (at < end) {
        uint64_t head = *at;
        size_t length = 1;
        if (head >> 62 == 2) {
            uint32_t id = (uint32_t)head;
            if (id >= trace->definitions.segment_count) {
                status = cv_trace_refuse(trace, "a visit of a segment that is not defined", before + (size_t)(at - words));
                break;
            }
            cv_hot_segment *segment = &trace->hot_segments[id];
            length += segment->words;
            if ((size_t)(end - at) < length)
                break;
            if (trace->recording)
                status = cv_recorder_visit(trace, id, at + 1, segment->words);
            if (!status)
                status = visit(trace, segment, at + 1);
        } else {
            trace->totals.words = before + (size_t)(at - words);
            status = head >> 63 ? control_record(trace, at, (size_t)(end - at), &length) : decode_sampled(trace, head);
            if ((size_t)(end - at) < length)
                break;
        }
        if (status)
            break;
        at += length;
    }
    *consumed = (size_t)(at - words);
    trace->totals.words = before + *consumed;
    return status;
}
