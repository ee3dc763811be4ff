/* Set samples of fewer sets, made from recorded ones; without repeated lines, see CV_WIRE_REPEATED_CLASSES. */
#include "../common/interrupt.h"
#include "grow.h"
#include "trace.h"

cv_status cv_trace_coarsen(cv_trace *trace, const void *bytes, size_t size, uint64_t classes, uint64_t class_, const uint8_t **coarse,
                           size_t *coarse_size)
{
    const uint8_t *at = bytes, *end = at + size;
    cv_status status = cv_address_know(&trace->reader, &trace->definitions);
    if (!status)
        status = cv_address_know(&trace->coarse_writer, &trace->definitions);
    if (!status) /* distances between fewer lines and sites are longer numbers: at most a whole record for each byte */
        status = cv_bytes_reserve(&trace->coarse, (size + 1) * CV_ADDRESS_BYTES);
    if (status)
        return status;
    cv_address_begin(&trace->reader);
    cv_address_begin(&trace->coarse_writer);
    uint8_t *to = trace->coarse.bytes;
    uint64_t last_line = UINT64_MAX;
    uint32_t steps = 0;
    int last_written = 0;
    while (at < end) {
        uint64_t words[2];
        size_t count;
        const char *why = NULL;
        if ((status = cv_interrupt_look(&steps)))
            return status;
        if (!(*at & 3)) /* visits have any number of words */
            return cv_trace_refuse(trace, "a visit among set samples", (uint64_t)(at - (const uint8_t *)bytes));
        const uint8_t *next = cv_address_get(&trace->reader, &trace->definitions, at, end, words, &count, &why);
        if (!next)
            return cv_trace_refuse(trace, why, (uint64_t)(at - (const uint8_t *)bytes));
        at = next;
        const unsigned kind = words[0] >> 56 & 63;
        const uint64_t argument = words[0] & ((UINT64_C(1) << 56) - 1), lost = words[0] >> 63 && kind == CV_WIRE_SETS_LOST;
        const uint64_t line = lost ? words[1] >> 6 : words[0] >> CV_WIRE_SITE_BITS;
        if ((lost || !(words[0] >> 63)) && (line & (classes - 1)) != class_)
            continue;
        if (lost || !(words[0] >> 63)) {
            const uint64_t site = lost ? argument : words[0] & ((1u << CV_WIRE_SITE_BITS) - 1);
            const int writes = site < trace->definitions.site_count && trace->definitions.sites[site].flags & CV_WIRE_STORE;
            const int known = line == last_line && (last_written || !writes);
            last_written = writes || (line == last_line && last_written);
            last_line = line;
            if (known && classes > CV_WIRE_REPEATED_CLASSES)
                continue;
        }
        if (!(words[0] >> 63)) {
            to = cv_address_put_sampled(&trace->coarse_writer, to, words[0] & ((1u << CV_WIRE_SITE_BITS) - 1), line);
        } else {
            to = cv_address_put_control(to, kind, argument);
            if (lost)
                to = cv_address_put_word(to, words[1]);
        }
    }
    *coarse = trace->coarse.bytes;
    *coarse_size = (size_t)(to - trace->coarse.bytes);
    return CV_OK;
}
