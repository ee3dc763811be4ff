/* Recorded chunks back into wire words with the place of each record in the whole stream: what merging phases needs. */
#include "../common/interrupt.h"
#include "grow.h"
#include "trace.h"

static cv_status reserve(cv_trace *trace, size_t words, size_t records)
{
    CV_RESERVE(trace->unpacked[0], trace->unpacked_capacity[0], words);
    CV_RESERVE(trace->unpacked[1], trace->unpacked_capacity[1], records);
    CV_RESERVE(trace->unpacked[2], trace->unpacked_capacity[2], records);
    return CV_OK;
}

static int is_control(uint64_t head) { return head >> 62 == 3 && (head >> 56 & 63) != CV_WIRE_SETS_LOST; }

cv_status cv_trace_unpack(cv_trace *trace, const void *bytes, size_t size, uint64_t *before, cv_unpacked *unpacked)
{
    const uint8_t *at = bytes, *end = at + size;
    size_t words = 0, records = 0;
    uint32_t steps = 0;
    cv_status status = cv_address_know(&trace->reader, &trace->definitions);
    cv_address_begin(&trace->reader);
    while (!status && at < end) {
        const char *why = NULL;
        size_t more = 0;
        if ((status = cv_interrupt_look(&steps)) || (status = reserve(trace, words + 1 + UINT16_MAX, records + 1)))
            break;
        uint64_t *to = trace->unpacked[0] + words;
        const uint8_t *next = cv_address_get(&trace->reader, &trace->definitions, at, end, to, &more, &why);
        if (!next)
            return cv_trace_refuse(trace, why, (uint64_t)(at - (const uint8_t *)bytes));
        at = next;
        if (is_control(*to) && (*to >> 56 & 63) == CV_WIRE_PASSED) {
            *before += *to & ((UINT64_C(1) << 56) - 1);
            continue;
        }
        trace->unpacked[1][records] = words;
        trace->unpacked[2][records++] = *before;
        *before += !is_control(*to);
        words += more;
    }
    *unpacked = (cv_unpacked){trace->unpacked[0], trace->unpacked[1], trace->unpacked[2], words, records};
    return status;
}
