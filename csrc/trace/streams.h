/* Which lines come in streams: what a reference brings into a small cache, distinguished as a prefetcher would.
 *
 * A site alone does not tell: in an unrolled loop each of its loads jumps by the length of a turn, and together they walk line by line.
 * So lines that were not used lately are compared with the last ones of CV_STREAMS streams, whoever brought these. */
#ifndef CV_TRACE_STREAMS_H
#define CV_TRACE_STREAMS_H

#include <stdint.h>

#define CV_STREAM_RECENT 512 /* lines: 32 KiB, about a first-level cache */
#define CV_STREAMS 32
#define CV_STREAM_LONGEST 32 /* lines: prefetchers follow steps of up to half a page of 4 KiB */
#define CV_STREAM_BETWEEN 3  /* lines at most that are fetched in vain between two of a strided stream */
#define CV_STREAM_STEPS 5    /* after so many alike, a stream's lines are prefetched into the first level */
#define CV_STREAM_FLIGHT 12  /* references: a line brought so few of them ago is still on its way */

enum cv_line_class {
    CV_LINE_SEQUENTIAL = 0, /* beside a stream's last line */
    CV_LINE_STRIDED = 1,    /* a stream's step again, at most CV_STREAM_LONGEST lines */
    CV_LINE_RANDOM = 2
};

typedef struct {
    uint64_t recent[CV_STREAM_RECENT];  /* line + 1, by its low bits */
    uint32_t brought[CV_STREAM_RECENT]; /* low bits of the number of the reference that brought it */
    uint32_t references;
    uint32_t last[CV_STREAMS];  /* low bits of lines */
    int32_t step[CV_STREAMS];   /* between the last two */
    uint32_t steps[CV_STREAMS]; /* alike, up to the last */
    uint32_t oldest;            /* the stream to give up next */
    uint32_t latest;            /* the stream of the last line */
} cv_streams;

/* What is seen of a line beside its class. */
typedef struct {
    uint32_t between; /* lines of its stream that it left out */
    uint32_t alone;   /* 1: the new line before was one of its stream, too */
    uint32_t early;   /* 1: no more than CV_STREAM_STEPS steps after its stream began */
} cv_line_course;

/* Class of a line that is not among the recent ones; the streams learn of it. */
enum cv_line_class cv_streams_classify(cv_streams *streams, uint64_t line, cv_line_course *course);

enum cv_line_state { CV_LINE_NEW, CV_LINE_COMING, CV_LINE_HERE };

/* What a reference finds of its line, which is among the recent ones afterwards. */
static inline enum cv_line_state cv_streams_find(cv_streams *streams, uint64_t line)
{
    const uint64_t at = line % CV_STREAM_RECENT;
    const uint32_t now = ++streams->references;
    if (streams->recent[at] == line + 1)
        return now - streams->brought[at] <= CV_STREAM_FLIGHT ? CV_LINE_COMING : CV_LINE_HERE;
    streams->recent[at] = line + 1;
    streams->brought[at] = now;
    return CV_LINE_NEW;
}

/* Does a reference bring a line that no prefetcher has brought into the first level before? */
static inline int cv_streams_surprised(cv_streams *streams, uint64_t line)
{
    cv_line_course course;
    return cv_streams_find(streams, line) == CV_LINE_NEW && (cv_streams_classify(streams, line, &course) == CV_LINE_RANDOM || course.early);
}

#endif
