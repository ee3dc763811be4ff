/* The hot loop: wire records to batches. A segment's definition was checked when it came, so a visit needs no checks but one. */
#include "paths.h"
#include "trace.h"

#include <string.h>

#define ARGUMENT(head) ((head) & ((UINT64_C(1) << 56) - 1))
#define LONGEST_RUN 256                            /* visits that are handled together: their words stay in the first cache */
#define LARGEST_DEFINITION (((size_t)1 << 22) / 8) /* words; no valid one is longer */

cv_status cv_trace_refuse(cv_trace *trace, const char *why, uint64_t position)
{
    if (!trace->error) {
        trace->error = why;
        trace->error_position = position;
    }
    return CV_ERROR_FORMAT;
}

/* Give a batch to the sinks, its stale beginning as a warm-up. */
static cv_status hand_out(cv_trace *trace, cv_refs refs, cv_batch about)
{
    cv_status status = CV_OK;
    while (refs.count && !status) {
        const uint64_t stale = about.kind == CV_BATCH_WINDOW ? trace->stale_left : 0;
        cv_refs part = refs;
        cv_batch as = about;
        if (stale) {
            part.count = stale < refs.count ? stale : refs.count;
            trace->stale_left -= part.count;
            as.warm = 1;
        }
        for (size_t i = 0; i < trace->sink_count && !status; i++)
            status = trace->sinks[i].eat(trace->sinks[i].context, &part, &as);
        refs = (cv_refs){refs.address + part.count, refs.owner + part.count, refs.size + part.count, refs.write + part.count,
                         refs.count - part.count};
    }
    return status;
}

cv_status cv_batch_flush(cv_trace *trace, int kind)
{
    cv_batch_arrays *batch = &trace->batch[kind];
    if (!batch->count)
        return CV_OK;
    cv_status status = cv_attribute(trace, kind);
    if (status)
        return status;
    if (kind == CV_BATCH_WINDOW) {
        trace->totals.window_references += batch->count;
        status = cv_features_add(trace, batch);
    } else {
        trace->totals.set_references += batch->count;
        for (size_t i = 0; i < batch->count; i++)
            trace->features[batch->owner[i]].sets++;
    }
    cv_refs refs = {batch->address, trace->objects.owners ? batch->pair : batch->owner, batch->size, batch->write, batch->count};
    cv_batch about = trace->now;
    about.kind = (uint32_t)kind;
    if (kind == CV_BATCH_SETS) {
        about.warm = trace->sets.warm;
        about.gaps = trace->sets.gaps;
        about.window = trace->sets.stretch ? trace->sets.stretch : about.window;
    }
    if (!status)
        status = hand_out(trace, refs, about);
    batch->count = batch->lined = batch->attributed = 0;
    return status;
}

static cv_status flush_both(cv_trace *trace)
{
    cv_status status = cv_batch_flush(trace, CV_BATCH_WINDOW);
    return status ? status : cv_batch_flush(trace, CV_BATCH_SETS);
}

/* How many visits of one segment follow one another: what is known of the segment is looked up once for all of them. */
static inline size_t count_run(const uint64_t *at, const uint64_t *end, size_t length)
{
    size_t count = 1;
    uint64_t head = *at;
    for (at += length; count < LONGEST_RUN && (size_t)(end - at) >= length && *at == head; at += length)
        count++;
    return count;
}

/* Where references go: everything is a local, since stores of bytes could alias any member. */
typedef struct {
    uint64_t *restrict address;
    uint32_t *restrict owner;
    uint16_t *restrict size;
    uint8_t *restrict write;
} cv_space;

static inline cv_space space_from(cv_batch_arrays *batch, size_t to)
{
    return (cv_space){batch->address + to, batch->owner + to, batch->size + to, batch->write + to};
}

/* The references of one visit. */
static inline void unpack(const cv_hot_site *sites, size_t count, uint32_t first_site, const uint64_t *words, cv_space to)
{
    for (size_t i = 0; i < count; i++) {
        to.address[i] = (words[sites[i].base] & sites[i].mask) + sites[i].displacement;
        to.owner[i] = first_site + (uint32_t)i;
        to.size[i] = sites[i].size;
        to.write[i] = sites[i].write;
    }
}

/* Repeat the first `bytes` of an array up to `total`. */
static inline void repeat(void *array, size_t bytes, size_t total)
{
    for (size_t more; bytes < total; bytes += more) {
        more = bytes < total - bytes ? bytes : total - bytes;
        memcpy((uint8_t *)array + bytes, array, more);
    }
}

#define SHORT_RUN 12 /* visits that are sooner unpacked one by one */

/* The references of several visits: site by site, and what is the same in each visit copied. */
static cv_status unpack_run(cv_trace *trace, const cv_hot_segment *segment, const uint64_t *words, size_t length, size_t visits)
{
    cv_batch_arrays *batch = &trace->batch[CV_BATCH_WINDOW];
    const cv_hot_site *sites = trace->hot_sites + segment->first_site;
    const size_t count = segment->sites, total = visits * count;
    const cv_space to = space_from(batch, batch->count);
    unpack(sites, count, segment->first_site, words, to);
    repeat(to.owner, count * sizeof *to.owner, total * sizeof *to.owner);
    repeat(to.size, count * sizeof *to.size, total * sizeof *to.size);
    repeat(to.write, count, total);
    for (size_t i = 0; i < count; i++) {
        const uint64_t mask = sites[i].mask, displacement = sites[i].displacement, *word = words + sites[i].base;
        for (size_t at = i; at < total; at += count, word += length)
            to.address[at] = (*word & mask) + displacement;
    }
    batch->count += total;
    return cv_features_lines(trace, batch, total, count);
}

static inline void unpack_visits(cv_trace *trace, const cv_hot_segment *segment, const uint64_t *words, size_t length, size_t visits)
{
    cv_batch_arrays *batch = &trace->batch[CV_BATCH_WINDOW];
    const cv_hot_site *sites = trace->hot_sites + segment->first_site;
    const size_t count = segment->sites;
    const uint32_t first_site = segment->first_site;
    size_t to = batch->count;
    for (; visits; visits--, words += length, to += count)
        unpack(sites, count, first_site, words, space_from(batch, to));
    batch->count = to;
}

/* A visit of which some references are masked; returns how many there were. */
static size_t unpack_guarded(cv_trace *trace, const cv_hot_segment *segment, const uint64_t *words, size_t to)
{
    const size_t begin = to;
    for (uint32_t i = 0; i < segment->sites; i++) {
        const cv_hot_site *site = &trace->hot_sites[segment->first_site + i];
        if (site->guarded && words[site->base] == CV_WIRE_NOT_EXECUTED)
            trace->features[segment->first_site + i].skipped++;
        else
            unpack(site, 1, segment->first_site + i, words, space_from(&trace->batch[CV_BATCH_WINDOW], to++));
    }
    return to - begin;
}

/* Visits that fit in the batch; returns how many. */
static size_t visits_that_fit(const cv_hot_segment *segment, size_t room, size_t records)
{
    if (segment->guarded)
        return room >= segment->sites;
    return records * segment->sites <= room ? records : room / segment->sites;
}

static cv_status visit(cv_trace *trace, cv_hot_segment *segment, const uint64_t *at, size_t records)
{
    static const uint64_t no_word[1];
    cv_batch_arrays *batch = &trace->batch[CV_BATCH_WINDOW];
    const size_t sites = segment->sites, length = 1 + (size_t)segment->words;
    cv_status status = CV_OK;
    segment->visits += records;
    while (sites && records && !status) {
        size_t fit = visits_that_fit(segment, CV_TRACE_BATCH - batch->count, records);
        if (!fit) {
            status = cv_batch_flush(trace, CV_BATCH_WINDOW);
            continue;
        }
        const uint64_t *words = length > 1 ? at + 1 : no_word;
        if (segment->guarded)
            batch->count += unpack_guarded(trace, segment, words, batch->count);
        else if (fit < SHORT_RUN)
            unpack_visits(trace, segment, words, length > 1 ? length : 0, fit);
        else
            status = unpack_run(trace, segment, words, length > 1 ? length : 0, fit);
        at += fit * length;
        records -= fit;
    }
    return status;
}

static cv_status sampled(cv_trace *trace, uint32_t site, uint64_t address)
{
    if (trace->recording == CV_RECORD_UNITS)
        return CV_OK;
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
    trace->now.warm = trace->warmup != 0;
    trace->stale_left = trace->now.window > 1 ? trace->stale : 0;
    trace->window_batches = 0;
    trace->stretch++;
    return status;
}

static cv_status begin_unit(cv_trace *trace, uint64_t argument)
{
    cv_status status = flush_both(trace);
    trace->sets.warm = (argument & CV_WIRE_UNIT_WARM) != 0;
    trace->sets.gaps = (uint32_t)(argument >> CV_WIRE_UNIT_GAPS_SHIFT);
    trace->sets.stretch += (argument & CV_WIRE_UNIT_STRETCH) != 0;
    return status;
}

static cv_status end_warmup(cv_trace *trace)
{
    cv_status status = cv_batch_flush(trace, CV_BATCH_WINDOW);
    trace->now.warm = 0;
    return status;
}

static cv_status control(cv_trace *trace, unsigned kind, const uint64_t *words)
{
    switch (kind) {
    case CV_WIRE_THREAD: return switch_thread(trace, (uint32_t)ARGUMENT(words[0]));
    case CV_WIRE_WINDOW_OPEN: return open_window(trace);
    case CV_WIRE_WINDOW_CLOSE: return cv_batch_flush(trace, CV_BATCH_WINDOW);
    case CV_WIRE_WINDOW_WARM: return end_warmup(trace);
    case CV_WIRE_UNIT: return begin_unit(trace, ARGUMENT(words[0]));
    case CV_WIRE_INTERVAL: trace->totals.intervals = ARGUMENT(words[0]) + 1; return CV_OK;
    case CV_WIRE_EVENTS: return cv_events_take(trace, ARGUMENT(words[0]));
    case CV_WIRE_SETS_LOST:
        if (ARGUMENT(words[0]) >= trace->definitions.site_count)
            return cv_trace_refuse(trace, "a sampled reference of a site that is not defined", trace->totals.words);
        trace->totals.set_site_lost++;
        return sampled(trace, (uint32_t)ARGUMENT(words[0]), words[1]);
    default: return CV_OK; /* a kind that this reader does not know */
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
    hot.passed = !cv_chosen(trace, segment);
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
    else if (kind == CV_WIRE_SEGMENT)
        status = cv_define_segment(&trace->definitions, words + 1, payload, &why);
    else if (kind == CV_WIRE_FLOW)
        status = cv_define_flow(&trace->definitions, words + 1, payload, &why);
    else if (kind == CV_WIRE_OBJECT)
        status = cv_objects_define(&trace->objects, trace->definitions.module_count, words + 1, payload, &why);
    else
        status = cv_objects_define_symbols(&trace->objects, trace->definitions.module_count, words + 1, payload, &why);
    if (status == CV_ERROR_FORMAT)
        return cv_trace_refuse(trace, why, trace->totals.words);
    if (!status && kind == CV_WIRE_SEGMENT)
        status = warm(trace);
    if (!status)
        status = keep(trace, kind == CV_WIRE_MODULE ? CV_RECORDED_MODULES : CV_RECORDED_SEGMENTS, words, payload + 1);
    return status;
}

static cv_status system_record(cv_trace *trace, const uint64_t *words, size_t payload)
{
    struct cv_wire_system head;
    if (payload * 8 < sizeof head)
        return cv_trace_refuse(trace, "a record of system calls is too short", trace->totals.words);
    memcpy(&head, words + 1, sizeof head);
    if (head.calls != (payload * 8 - sizeof head) / sizeof(struct cv_wire_call) ||
        (payload * 8 - sizeof head) % sizeof(struct cv_wire_call))
        return cv_trace_refuse(trace, "a record of system calls has another length than stated", trace->totals.words);
    cv_status status = cv_bytes_reserve(&trace->system, payload * 8);
    if (status)
        return status;
    memcpy(trace->system.bytes, words + 1, payload * 8);
    trace->system.count = payload * 8;
    return CV_OK;
}

static cv_status long_record(cv_trace *trace, unsigned kind, const uint64_t *words, size_t payload)
{
    if (kind == CV_WIRE_EVENT)
        return cv_event_record(trace, words, payload);
    if (kind == CV_WIRE_SYSTEM)
        return system_record(trace, words, payload);
    if (kind != CV_WIRE_END)
        return defined(trace, kind, words, payload);
    struct cv_wire_end end;
    if (payload * 8 < sizeof end)
        return cv_trace_refuse(trace, "the end record is too short", trace->totals.words);
    memcpy(&end, words + 1, sizeof end);
    trace->totals.ended = 1;
    trace->totals.end_reason = end.reason;
    trace->totals.end_code = end.code;
    trace->totals.unstopped = (uint32_t)(words[0] >> 32) & 1;
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

static int is_known_long(unsigned kind) { return kind >= CV_WIRE_MODULE && kind <= CV_WIRE_SYSTEM; }

static cv_status pass_by(cv_trace *trace, uint64_t records)
{
    trace->passed += records;
    trace->totals.passed += records;
    return CV_OK;
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
    if (kind == CV_WIRE_SETS_LOST && ARGUMENT(*at) < trace->definitions.site_count &&
        trace->hot_segments[trace->site_segment[ARGUMENT(*at)]].passed)
        return pass_by(trace, 1);
    cv_status status = trace->recording ? cv_recorder_control(trace, at, *length) : CV_OK;
    if (!status)
        status = control(trace, kind, at);
    return status || !trace->paths ? status : cv_paths_control(trace->paths, &trace->now, kind);
}

static cv_status decode_sampled(cv_trace *trace, uint64_t head)
{
    uint32_t site = head & ((1u << CV_WIRE_SITE_BITS) - 1);
    if (site >= trace->definitions.site_count)
        return cv_trace_refuse(trace, "a sampled reference of a site that is not defined", trace->totals.words);
    if (trace->hot_segments[trace->site_segment[site]].passed)
        return pass_by(trace, 1);
    if (trace->paths_alone)
        return CV_OK;
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
            size_t records = count_run(at, end, length);
            if (segment->passed)
                status = pass_by(trace, records);
            else if (trace->recording)
                status = cv_recorder_visits(trace, id, at + 1, segment->words, records);
            if (!status && !segment->passed && !trace->paths_alone && trace->recording != CV_RECORD_UNITS)
                status = visit(trace, segment, at, records);
            if (!status && trace->paths)
                status = segment->passed ? cv_paths_gap(trace->paths) : cv_paths_visits(trace->paths, trace, id, at, records);
            length *= records;
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
