/* SPDX-License-Identifier: GPL-2.0-or-later
 * The records of the stream. Inline code writes them at cv_next and moves it on; whoever writes checks cv_high_mark afterwards. */
#include "tracer.h"
#include "private.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_vkiscnums.h"

static Bool definitions_pending;

/* With --streams: all definitions written so far, and where this process's counters are. */
static ULong *definitions;
static UInt n_definitions, definitions_room;
static HChar counters_path[4096];

static void write_buffer(void)
{
    cv_output_flush();
    definitions_pending = False;
}

/* The name says which process it is and, since exec keeps the number, which program of it. Opening waits for the reader. */
static Int make_fifo(void)
{
    HChar path[sizeof counters_path];
    for (UInt program = 0;; program++) {
        VG_(snprintf)(path, sizeof path - 16, "%s/%d.%u", cv_options.streams, VG_(getpid)(), program);
        SysRes made = VG_(do_syscall)(__NR_mknod, (UWord)path, VKI_S_IFIFO | 0600, 0, 0, 0, 0, 0, 0);
        if (!sr_isError(made))
            break;
        if (sr_Err(made) != VKI_EEXIST)
            cv_fatal("cannot make the stream %s", path);
    }
    VG_(snprintf)(counters_path, sizeof counters_path, "%s.counters", path);
    SysRes opened = VG_(open)(path, VKI_O_WRONLY, 0);
    if (sr_isError(opened))
        cv_fatal("cannot open the stream %s", path);
    return sr_Res(opened);
}

const HChar *cv_stream_counters(void) { return cv_options.streams ? counters_path : NULL; }

static void begin_stream(void)
{
    *cv_next++ = CV_WIRE_MAGIC;
    *cv_next++ = CV_WIRE_VERSION;
    write_buffer();
}

/* A forked child runs code that its parent has defined. */
static void keep_definition(const ULong *record, SizeT words)
{
    definitions = cv_with_room(definitions, &definitions_room, n_definitions + words, sizeof *definitions);
    VG_(memcpy)(definitions + n_definitions, record, words * sizeof *record);
    n_definitions += words;
}

void cv_stream_open(void)
{
    struct vg_stat status;
    cv_output_prepare();
    if (cv_options.streams)
        cv_output_open(make_fifo());
    else if (cv_options.wire_fd < 0)
        return;
    else if (VG_(fstat)(cv_options.wire_fd, &status) != 0)
        cv_fatal("--wire-fd=%d is not an open descriptor", cv_options.wire_fd);
    else
        cv_output_open(cv_options.wire_fd);
    begin_stream();
}

/* Outside the traced region the buffer holds nothing that anybody wants: definitions do not wait in it. */
void cv_flush(void)
{
    if (cv_recording)
        write_buffer();
    else
        cv_output_drop();
}

void cv_stream_publish(void)
{
    if (definitions_pending)
        cv_flush();
}

void cv_stream_control(enum cv_wire_kind kind, ULong argument)
{
    if (!cv_recording)
        return;
    *cv_next++ = CV_WIRE_CONTROL | (ULong)kind << 56 | (argument & ((1ULL << 56) - 1));
    if (cv_next >= cv_high_mark)
        cv_flush();
}

void cv_stream_record(enum cv_wire_kind kind, UInt argument, const void *payload, SizeT bytes)
{
    SizeT words = (bytes + 7) / 8;
    tl_assert(words < 2 * CV_RECORD_WORDS - 1);
    if (!cv_recording)
        cv_output_drop();
    if (cv_next + 1 + words > cv_high_mark + CV_RECORD_WORDS)
        cv_flush();
    *cv_next++ = CV_WIRE_CONTROL | (ULong)kind << 56 | (ULong)(argument & 0xffffff) << 32 | words;
    if (words)
        cv_next[words - 1] = 0; /* padding */
    VG_(memcpy)(cv_next, payload, bytes);
    if (cv_options.streams && kind != CV_WIRE_END && kind != CV_WIRE_SYSTEM)
        keep_definition(cv_next - 1, words + 1);
    cv_next += words;
    definitions_pending = True;
    if (!cv_recording || cv_next >= cv_high_mark)
        write_buffer();
}

void cv_stream_fork(void)
{
    cv_output_drop();
    cv_output_close();
    if (!cv_options.streams)
        return;
    cv_output_open(make_fifo());
    begin_stream();
    cv_output_copy(definitions, n_definitions * sizeof *definitions);
}
