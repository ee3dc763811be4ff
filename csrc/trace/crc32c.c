/* CRC-32C (Castagnoli, reflected polynomial 0x82f63b78), eight bytes a step ("slicing by 8", Kounavis and Berry 2005). */
#include "cv_trace.h"

#include <pthread.h>
#include <string.h>

static uint32_t table[8][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
        table[0][byte] = crc;
    }
    for (int slice = 1; slice < 8; slice++)
        for (int byte = 0; byte < 256; byte++)
            table[slice][byte] = table[slice - 1][byte] >> 8 ^ table[0][table[slice - 1][byte] & 255];
}

uint32_t cv_crc32c(uint32_t crc, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    pthread_once(&once, fill_table);
    crc = ~crc;
    for (; size >= 8; size -= 8, at += 8) {
        uint64_t eight;
        memcpy(&eight, at, 8);
        eight ^= crc;
        crc = 0;
        for (int slice = 0; slice < 8; slice++)
            crc ^= table[7 - slice][eight >> 8 * slice & 255];
    }
    for (; size; size--)
        crc = crc >> 8 ^ table[0][(crc ^ *at++) & 255];
    return ~crc;
}
