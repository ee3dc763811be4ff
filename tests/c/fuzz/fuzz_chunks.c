/* Chunks of a trace file. Input: what is decoded (1 byte), 8-byte words of definitions (1 byte), these, the chunk. */
#include "cv_objects.h"
#include "cv_trace.h"
#include "target.h"

static void decode(cv_trace *trace, int what, const uint8_t *chunk, size_t size)
{
    uint64_t before = 0;
    size_t used = 0;
    const uint8_t *coarse;
    cv_unpacked unpacked;
    switch (what % 4) {
    case 0:
        while (used < size && cv_trace_replay(trace, chunk, size, 1000, &used) == CV_OK) {
        }
        break;
    case 1: cv_trace_events(trace, chunk, size); break;
    case 2: cv_trace_unpack(trace, chunk, size, &before, &unpacked); break;
    default: cv_trace_coarsen(trace, chunk, size, 4, 1, &coarse, &used);
    }
}

static void take(const uint8_t *data, size_t size)
{
    if (size < 2 || size - 2 < (size_t)8 * data[1])
        return;
    const uint8_t *chunk = data + 2 + (size_t)8 * data[1];
    cv_trace *trace = cv_trace_new();
    cv_trace_attribute(trace, data[0] >> 7);
    if (cv_trace_define(trace, data + 2, (size_t)8 * data[1]) == CV_OK)
        decode(trace, data[0], chunk, size - (size_t)(chunk - data));
    cv_trace_flush(trace);
    cv_trace_free(trace);
}
