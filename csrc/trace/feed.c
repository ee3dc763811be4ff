/* Bytes in: from memory, from a pipe, from a recorded chunk. Keeps the beginning of a record that is not whole yet. */
#include "../common/interrupt.h"
#include "grow.h"
#include "paths.h"
#include "trace.h"
#include "varint.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PIECE ((size_t)1 << 20)     /* bytes that are decoded without a look at the clock */
#define REPLAY_WORK ((size_t)16384) /* words and references between two looks at the clock; the words fit in CV_SHORTEST_BUFFER */

static cv_status check_beginning(cv_trace *trace, const uint64_t *words, size_t count, size_t *used)
{
    *used = 0;
    while (trace->header < 2 && *used < count) {
        uint64_t word = words[(*used)++];
        if (trace->header == 0 && word != CV_WIRE_MAGIC)
            return cv_trace_refuse(trace, "this is no stream of Convolver's tracer", 0);
        if (trace->header == 1 && word != CV_WIRE_VERSION)
            return cv_trace_refuse(trace, "the tracer speaks another version of the stream", 1);
        trace->header++;
        trace->totals.words++;
    }
    return CV_OK;
}

static size_t pass_over(cv_trace *trace, size_t count)
{
    size_t passed = trace->skip < count ? (size_t)trace->skip : count;
    trace->skip -= passed;
    trace->totals.words += passed;
    return passed;
}

/* Decode the whole records of some words; *used says how many words they had. */
static cv_status digest_words(cv_trace *trace, const uint64_t *words, size_t count, size_t *used)
{
    size_t at = 0;
    cv_status status = check_beginning(trace, words, count, &at);
    while (!status && at < count) {
        at += pass_over(trace, count - at);
        size_t consumed = 0;
        if (at < count)
            status = cv_decode(trace, words + at, count - at, &consumed);
        at += consumed;
        if (!consumed)
            break;
    }
    *used = at;
    return status;
}

/* Decode what is pending and move the rest to the front. */
static cv_status digest(cv_trace *trace)
{
    size_t at;
    cv_status status = digest_words(trace, trace->pending, trace->pending_bytes / 8, &at);
    trace->pending_bytes -= at * 8;
    if (at)
        memmove(trace->pending, trace->pending + at, trace->pending_bytes);
    return status;
}

/* Make room after the pending bytes: at least for the rest of the record that began. */
static cv_status make_room(cv_trace *trace)
{
    size_t needed = cv_record_words(trace, trace->pending, trace->pending_bytes / 8) + 1;
    CV_RESERVE(trace->pending, trace->pending_capacity, needed < CV_SHORTEST_BUFFER ? CV_SHORTEST_BUFFER : needed);
    return CV_OK;
}

static cv_status feed(cv_trace *trace, const uint8_t *from, size_t size)
{
    cv_status status = CV_OK;
    if (!trace->pending_bytes && (uintptr_t)from % sizeof(uint64_t) == 0) { /* no need to copy whole records */
        size_t used;
        status = digest_words(trace, (const uint64_t *)(const void *)from, size / 8, &used);
        from += used * 8;
        size -= used * 8;
    }
    while (size && !status && !(status = make_room(trace))) {
        size_t room = trace->pending_capacity * 8 - trace->pending_bytes;
        size_t part = size < room ? size : room;
        memcpy((uint8_t *)trace->pending + trace->pending_bytes, from, part);
        trace->pending_bytes += part;
        from += part;
        size -= part;
        status = digest(trace);
    }
    return status;
}

cv_status cv_trace_feed(cv_trace *trace, const void *bytes, size_t size)
{
    const uint8_t *from = bytes, *end = from + size;
    cv_status status = trace->error ? CV_ERROR_FORMAT : CV_OK;
    while (from < end && !status) {
        size_t part = (size_t)(end - from) < PIECE ? (size_t)(end - from) : PIECE;
        status = feed(trace, from, part);
        from += part;
        if (!status)
            status = cv_interrupt_due();
    }
    return status;
}

cv_status cv_trace_define(cv_trace *trace, const void *bytes, size_t size)
{
    trace->header = 2; /* a chunk has no beginning of its own */
    cv_status status = cv_trace_feed(trace, bytes, size);
    if (!status && (trace->pending_bytes || trace->skip))
        status = cv_trace_refuse(trace, "the definitions stop inside a record", trace->totals.words);
    return status;
}

cv_status cv_trace_flush(cv_trace *trace)
{
    cv_status status = cv_batch_flush(trace, CV_BATCH_WINDOW);
    if (!status)
        status = cv_batch_flush(trace, CV_BATCH_SETS);
    if (!status)
        status = cv_events_rest(trace);
    if (!status && trace->paths)
        status = cv_paths_flush(trace->paths);
    if (!status && (trace->pending_bytes || trace->skip))
        status = cv_trace_refuse(trace, "the stream stops inside a record", trace->totals.words);
    return status;
}

static int64_t milliseconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* What a record of a chunk takes to decode: its words, and where it is a visit its references. */
static size_t work_of(const cv_trace *trace, const uint64_t *record, size_t words)
{
    return words + (record[0] >> 62 == 2 ? trace->definitions.segments[(uint32_t)record[0]].sites : 0);
}

/* Set-sampled references are no part of a path: pass over those that come next; NULL when one is cut off. */
static const uint8_t *pass_sampled(const uint8_t *at, const uint8_t *end)
{
    while (at && at < end && cv_address_is_sampled(*at))
        if ((at = cv_varint_skip(at, end)))
            at = cv_varint_skip(at, end);
    return at;
}

/* Unpack records into the pending buffer and decode them, some thousand words at a time. */
cv_status cv_trace_replay(cv_trace *trace, const void *bytes, size_t size, int milliseconds, size_t *used)
{
    const uint8_t *at = (const uint8_t *)bytes + *used, *end = (const uint8_t *)bytes + size;
    int64_t until = milliseconds_now() + milliseconds;
    size_t words = 0, work = 0;
    trace->header = 2;
    cv_status status = trace->error ? CV_ERROR_FORMAT : cv_address_know(&trace->reader, &trace->definitions);
    if (!status && trace->pending_bytes)
        status = cv_trace_refuse(trace, "addresses follow an unfinished record", trace->totals.words);
    if (!status)
        status = make_room(trace);
    if (!*used)
        cv_address_begin(&trace->reader);
    while (!status && at < end && (words || *used == 0 || milliseconds_now() < until)) {
        const char *why = NULL;
        size_t more = 0;
        const uint8_t *next = trace->paths_alone ? pass_sampled(at, end) : at;
        if (!next)
            return cv_trace_refuse(trace, "a sampled reference is cut off", (uint64_t)(at - (const uint8_t *)bytes));
        at = next;
        if (at < end && !(next = cv_address_get(&trace->reader, &trace->definitions, at, end, trace->pending + words, &more, &why)))
            return cv_trace_refuse(trace, why, (uint64_t)(at - (const uint8_t *)bytes));
        at = next;
        work += more ? work_of(trace, trace->pending + words, more) : 0;
        words += more;
        if (at == end || work >= REPLAY_WORK) {
            size_t consumed = 0;
            status = cv_decode(trace, trace->pending, words, &consumed);
            if (!status && consumed != words)
                status = cv_trace_refuse(trace, "a record is cut off", trace->totals.words);
            words = work = 0;
            *used = (size_t)(at - (const uint8_t *)bytes);
        }
    }
    return status;
}

/* Wait for input; 1: there is some, 0: time is up, -1: errno tells. */
static int wait_for(int fd, int64_t until)
{
    int64_t left = until - milliseconds_now();
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    return poll(&poll_fd, 1, left > 0 ? (int)left : 0);
}

cv_status cv_trace_pump(cv_trace *trace, int fd, int milliseconds, int *state)
{
    int64_t until = milliseconds_now() + milliseconds;
    for (;;) {
        cv_status status = trace->error ? CV_ERROR_FORMAT : make_room(trace);
        if (status)
            return status;
        int ready = wait_for(fd, until);
        ssize_t got = -1;
        if (ready > 0)
            got = read(fd, (uint8_t *)trace->pending + trace->pending_bytes, trace->pending_capacity * 8 - trace->pending_bytes);
        if (ready == 0)
            return *state = CV_PUMP_TIME, CV_OK;
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            return *state = CV_PUMP_INTERRUPTED, CV_OK;
        if (got < 0)
            return CV_ERROR_IO;
        if (got == 0)
            return *state = CV_PUMP_END, CV_OK;
        trace->pending_bytes += (size_t)got;
        if ((status = digest(trace)))
            return status;
        if (cv_trace_chunk_full(trace))
            return *state = CV_PUMP_FULL, CV_OK;
        if (milliseconds_now() >= until)
            return *state = CV_PUMP_TIME, CV_OK;
    }
}
