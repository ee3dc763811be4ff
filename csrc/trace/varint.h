/* Numbers of any size in few bytes: LEB128, and zigzag for differences modulo 2^64, which maps 0 -1 1 -2 ... to 0 1 2 3 ... */
#ifndef CV_VARINT_H
#define CV_VARINT_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t cv_zigzag(uint64_t difference) { return difference << 1 ^ (uint64_t)((int64_t)difference >> 63); }

static inline uint64_t cv_unzigzag(uint64_t code) { return code >> 1 ^ (0 - (code & 1)); }

static inline uint8_t *cv_varint_put(uint8_t *to, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        *to++ = (uint8_t)value | 128;
    *to++ = (uint8_t)value;
    return to;
}

/* Returns NULL when the bytes end inside the number or it does not fit in 64 bits. */
static inline const uint8_t *cv_varint_get(const uint8_t *from, const uint8_t *end, uint64_t *value)
{
    if (from < end && *from < 128) { /* most are short */
        *value = *from;
        return from + 1;
    }
    uint64_t result = 0;
    for (unsigned shift = 0; shift < 64 && from < end; shift += 7) {
        uint8_t byte = *from++;
        if (shift == 63 && byte > 1)
            return NULL;
        result |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *value = result;
            return from;
        }
    }
    return NULL;
}

/* Returns the end of a number, NULL when the bytes end inside it. */
static inline const uint8_t *cv_varint_skip(const uint8_t *from, const uint8_t *end)
{
    while (from < end && *from >= 128)
        from++;
    return from < end ? from + 1 : NULL;
}

#endif
