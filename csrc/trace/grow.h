/* Growing arrays: capacity doubles, so that appending costs constant time on average. */
#ifndef CV_GROW_H
#define CV_GROW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Return items with room for needed elements of width bytes, or NULL (the old array stays valid). */
static inline void *cv_grow(void *items, size_t *capacity, size_t needed, size_t width)
{
    if (needed <= *capacity)
        return items;
    size_t wanted = *capacity ? *capacity : 64;
    while (wanted < needed) {
        if (wanted > SIZE_MAX / 2 / width)
            return NULL;
        wanted *= 2;
    }
    void *grown = realloc(items, wanted * width);
    if (grown)
        *capacity = wanted;
    return grown;
}

static inline bool cv_grow_array(void **array, size_t *capacity, size_t needed, size_t width)
{
    void *grown = cv_grow(*array, capacity, needed, width);
    if (grown)
        *array = grown;
    return grown;
}

/* Whether array (its capacity in cap) has room for one more than count elements, as it is or grown. */
#define CV_ROOM(array, cap, count) ((count) < (cap) || cv_grow_array((void **)&(array), &(cap), (size_t)(count) + 1, sizeof *(array)))

/* In a function that returns cv_status: make room in array (its capacity in cap) for needed elements. */
#define CV_RESERVE(array, cap, needed)                                                  \
    do {                                                                                \
        if ((size_t)(needed) > (cap)) {                                                 \
            void *grown_ = cv_grow((array), &(cap), (size_t)(needed), sizeof *(array)); \
            if (!grown_)                                                                \
                return CV_ERROR_MEMORY;                                                 \
            (array) = grown_;                                                           \
        }                                                                               \
    } while (0)

#endif
