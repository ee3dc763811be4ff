/* The line that is in front of the first level: that of the reference before. Both engines ask here. Freestanding; SPDX: MIT. */
#ifndef CV_FRONT_LINE_H
#define CV_FRONT_LINE_H

#include <stdint.h>

struct cv_front_line {
    uint64_t line;
    int written;
};

/* Is the line in front already, and dirty where this is a write? It is from now on. See CV_WIRE_REPEATED_CLASSES. */
static inline int cv_front_line_has(struct cv_front_line *front, uint64_t line, int store)
{
    const int same = line == front->line, known = same && (front->written || !store);
    front->written = store || (same && front->written);
    front->line = line;
    return known;
}

#endif
