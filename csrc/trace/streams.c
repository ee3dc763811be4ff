#include "streams.h"

/* Lines: half a page, or copies that go through several pages at once look like one stream of long steps. */
#define NEAR CV_STREAM_LONGEST

/* What a line is to the stream that it fits best: three bits above the five of the stream's number, which counts from the last one since
 * of equals the first is taken. Passes without branches over all streams, which the compiler can make vector code of. */
static uint8_t best_fit(const cv_streams *s, uint32_t line)
{
    uint8_t what[CV_STREAMS], best = 0;
    _Static_assert(CV_STREAMS == 32, "a stream has five bits");
    for (int i = 0; i < CV_STREAMS; i++) {
        const uint32_t distance = line - s->last[i]; /* modulo 2^32: negative ones wrap, in the comparisons too */
        const int beside = distance + 1 <= 2;
        const int again = (distance == (uint32_t)s->step[i]) & (distance + CV_STREAM_LONGEST <= 2 * CV_STREAM_LONGEST);
        const int near = distance + NEAR <= 2 * NEAR;
        what[i] = (uint8_t)(beside << 7 | again << 6 | near << 5 | (CV_STREAMS - 1 - i));
    }
    for (int i = 0; i < CV_STREAMS; i++)
        best = what[i] > best ? what[i] : best;
    return best;
}

enum cv_line_class cv_streams_classify(cv_streams *s, uint64_t line, cv_line_course *course)
{
    const uint8_t known = best_fit(s, (uint32_t)line), found = known >> 5;
    int best = CV_STREAMS - 1 - (known & (CV_STREAMS - 1));
    if (!found) { /* a new stream */
        best = (int)s->oldest;
        s->oldest = (s->oldest + 1) % CV_STREAMS;
    }
    const int32_t before = s->step[best];
    s->step[best] = found ? (int32_t)((uint32_t)line - s->last[best]) : 0;
    const uint32_t change = (uint32_t)(s->step[best] - before); /* steps of whole lines differ by one where bytes' are alike */
    s->steps[best] = found && change + 1 <= 2 ? s->steps[best] + 1 : found > 1;
    course->early = s->steps[best] <= CV_STREAM_STEPS;
    s->last[best] = (uint32_t)line;
    const uint32_t step = (uint32_t)s->step[best], left = (s->step[best] < 0 ? -step : step) - 1;
    course->between = (found & 6) != 2 ? 0 : left < CV_STREAM_BETWEEN ? left : CV_STREAM_BETWEEN;
    course->alone = found && s->latest == (uint32_t)best;
    s->latest = (uint32_t)best;
    return found & 4 ? CV_LINE_SEQUENTIAL : found & 2 ? CV_LINE_STRIDED : CV_LINE_RANDOM;
}
