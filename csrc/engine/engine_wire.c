/* Writes the wire format (cv_wire.h): its beginning and end, its buffer, and what the reader wants meanwhile. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine_wire.h"

const struct cv_options *options;
struct cv_target *target;
struct cv_blob_segment *segments;
struct cv_counters_header *header;
uint64_t *counters;
uint64_t buffer[BUFFER_WORDS];
size_t used;
static int gone; /* the reader is */

void cv_wire_flush(void)
{
    const char *at = (const char *)buffer;
    size_t left = used * sizeof *buffer;
    used = 0;
    while (left && !gone && options->wire >= 0) {
        const ssize_t n = write(options->wire, at, left);
        if (n < 0 && errno != EINTR)
            gone = 1;
        if (n > 0) {
            at += n;
            left -= (size_t)n;
        }
    }
}

void put_bytes(const void *from, size_t bytes)
{
    const uint8_t *at = from;
    for (size_t left = bytes; left;) {
        if (used == BUFFER_WORDS)
            cv_wire_flush();
        const size_t room = 8 * (BUFFER_WORDS - used), n = left < room ? left : room, words = words_for(n);
        buffer[used + words - 1] = 0; /* what follows the last byte */
        memcpy(&buffer[used], at, n);
        used += words;
        at += n;
        left -= n;
    }
}

void cv_wire_record(int kind, uint64_t argument, const void *payload, size_t bytes)
{
    put_head(kind, argument << 32 | words_for(bytes));
    put_bytes(payload, bytes);
}

int cv_wire_begin(const struct cv_options *chosen, struct cv_target *traced)
{
    options = chosen;
    target = traced;
    segments = (struct cv_blob_segment *)(target->memory + CV_OFF_SEGMENTS);
    if (begin_definitions())
        return -1;
    if (options->counters) {
        const int file = open(options->counters, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        const size_t size = CV_COUNTERS_OFFSET + CV_MOST_COUNTERS * sizeof(uint64_t);
        if (file < 0 || ftruncate(file, (off_t)size))
            return -1;
        header = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        if (header == MAP_FAILED)
            return -1;
        counters = (uint64_t *)((char *)header + CV_COUNTERS_OFFSET);
        *header = (struct cv_counters_header){.magic = CV_COUNTERS_MAGIC, .capacity = CV_MOST_COUNTERS, .pid = target->pid};
    }
    put(CV_WIRE_MAGIC);
    put(CV_WIRE_VERSION);
    if (options->objects)
        cv_objects_begin();
    cv_wire_flush();
    return 0;
}

/* ---- what the reader wants ---- */

void cv_wire_classes(uint64_t classes, uint64_t *mask, uint64_t *leaves_repeated)
{
    *mask = classes ? 64 * (classes - 1) : 0;
    *leaves_repeated = classes > CV_WIRE_REPEATED_CLASSES;
}

void cv_wire_pace(void)
{
    struct cv_blob_pace *pace = &target->shared->pace;
    if (!header)
        return;
    for (int what = CV_EVERY_BURST; what <= CV_EVERY_STRETCH; what++) {
        if (header->every[what])
            pace->every[what] = header->every[what];
        header->own[what] = pace->own[what];
    }
    if (target->shared->sets && header->every[CV_EVERY_SET] > target->shared->sets)
        cv_wire_classes(header->every[CV_EVERY_SET], &target->shared->set_mask, &target->shared->leaves_repeated);
}

/* ---- the end ---- */

void cv_wire_system(uint64_t page_faults)
{
    struct stat status;
    static struct cv_wire_call calls[CV_MOST_CALLS * CV_CALL_TARGETS];
    struct cv_wire_system system = {.page_bytes = 4096, .forks = target->shared->forks, .threads = target->shared->threads};
    uint64_t own = target->faults + target->shared->lookup_faults +
                   88; /* the blob's own memory, and the first looks into a table of indirect branches */
    if (!fstat(target->file, &status))
        own += (uint64_t)status.st_blocks / 8;
    for (uint64_t i = 0; i < target->shared->regions; i++)
        own += (target->shared->region[i].at - target->shared->region[i].base + target->shared->region[i].end -
                target->shared->region[i].pool) /
               4096;
    if (page_faults && !cv_has_marks(target->shared)) {
        system.flags = CV_WIRE_PAGES_KNOWN;
        system.pages.anonymous = page_faults > own ? page_faults - own : 0;
    }
    for (uint32_t number = 0; number < CV_MOST_CALLS; number++)
        for (uint32_t t = 0; t < CV_CALL_TARGETS; t++) {
            const struct cv_blob_call *c = &target->shared->calls[number][t];
            if (c->calls && system.calls < 1000)
                calls[system.calls++] = (struct cv_wire_call){number, t, c->calls, c->bytes};
        }
    put_head(CV_WIRE_SYSTEM, words_for(sizeof system) + 3 * system.calls);
    put_bytes(&system, sizeof system);
    put_bytes(calls, sizeof *calls * system.calls);
}

/* Does the part go on because the program never came to its end? */
static int unstopped(const struct cv_shared *shared)
{
    uint64_t marks = shared->setup.markers;
    for (uint64_t i = 0; i < shared->setup.places; i++)
        marks |= shared->setup.place[i].marks;
    return marks & CV_MARK_STOP && shared->inside && !shared->stopped;
}

void cv_wire_end(int reason, int code)
{
    const struct cv_wire_end end = {.reason = (uint32_t)reason, .code = code, .windows = windows};
    cv_wire_record(CV_WIRE_END, (uint64_t)unstopped(target->shared), &end, sizeof end);
    cv_wire_flush();
}
