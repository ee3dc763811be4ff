/* A batch of memory references in execution order: what the trace decoder makes and the simulator eats. Arrays of structures'
 * members, because the simulator's hot path reads addresses only. The arrays belong to the caller. */
#ifndef CV_REFS_H
#define CV_REFS_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    const uint64_t *address; /* first byte */
    const uint32_t *owner;   /* site or block that misses are charged to; NULL: all to 0 */
    const uint16_t *size;    /* bytes, at least 1; NULL: all 1 */
    const uint8_t *write;    /* 0 read, 1 write; NULL: all reads */
    size_t count;
} cv_refs;

#endif
