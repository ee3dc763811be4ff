/* Batches kept one after another until a reader takes them. */
#include "cv_trace.h"
#include "grow.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    cv_batch about;
    size_t first, count;
} cv_kept;

struct cv_collector {
    uint64_t *address;
    uint32_t *owner;
    uint16_t *size;
    uint8_t *write;
    cv_kept *kept;
    size_t count, kept_count;
    size_t address_capacity, owner_capacity, size_capacity, write_capacity, kept_capacity;
};

cv_collector *cv_collector_new(void) { return calloc(1, sizeof(cv_collector)); }

void cv_collector_free(cv_collector *collector)
{
    if (!collector)
        return;
    free(collector->address);
    free(collector->owner);
    free(collector->size);
    free(collector->write);
    free(collector->kept);
    free(collector);
}

cv_status cv_collector_sink(void *context, const cv_refs *refs, const cv_batch *batch)
{
    cv_collector *to = context;
    size_t end = to->count + refs->count;
    CV_RESERVE(to->address, to->address_capacity, end);
    CV_RESERVE(to->owner, to->owner_capacity, end);
    CV_RESERVE(to->size, to->size_capacity, end);
    CV_RESERVE(to->write, to->write_capacity, end);
    CV_RESERVE(to->kept, to->kept_capacity, to->kept_count + 1);
    memcpy(to->address + to->count, refs->address, refs->count * sizeof *to->address);
    memcpy(to->owner + to->count, refs->owner, refs->count * sizeof *to->owner);
    memcpy(to->size + to->count, refs->size, refs->count * sizeof *to->size);
    memcpy(to->write + to->count, refs->write, refs->count * sizeof *to->write);
    to->kept[to->kept_count++] = (cv_kept){*batch, to->count, refs->count};
    to->count = end;
    return CV_OK;
}

size_t cv_collector_batches(const cv_collector *collector) { return collector->kept_count; }

void cv_collector_batch(const cv_collector *collector, size_t index, cv_refs *refs, cv_batch *batch)
{
    const cv_kept *kept = &collector->kept[index];
    *batch = kept->about;
    *refs = (cv_refs){collector->address + kept->first, collector->owner + kept->first, collector->size + kept->first,
                      collector->write + kept->first, kept->count};
}

void cv_collector_clear(cv_collector *collector) { collector->count = collector->kept_count = 0; }
