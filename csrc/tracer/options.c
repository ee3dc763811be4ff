/* SPDX-License-Identifier: GPL-2.0-or-later
 * Command-line options of the tool. Convolver's runner is their only intended user, so the help is short. */
#include "tracer.h"
#include "pub_tool_clientstate.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_options.h"
#include "pub_tool_xarray.h"

#ifndef CV_FUSE
#define CV_FUSE 1 /* build_tracer.py says 0 where the peephole fails its test */
#endif

struct cv_options cv_options = {
    .mode = CV_COUNTS,
    .wire_fd = -1,
    .interval = 1000000,
    .sample = 10000,
    /* An arbitrary class that is none of the multiples of small powers of two, where page- and array-aligned data gather. */
    .set_class = 21,
    .buffer_bytes = 256 * 1024,
    .max_counters = 1LL << 30,
    .fuse = CV_FUSE,
    .pack = CV_FUSE,
    .all_visits = -1,
    .thread_events = True,
};

Bool cv_option(const HChar *argument)
{
    struct cv_options *o = &cv_options;
    if VG_XACT_CLO (argument, "--mode=counts", o->mode, CV_COUNTS) {
    } else if VG_XACT_CLO (argument, "--mode=sample", o->mode, CV_SAMPLE) {
    } else if VG_XACT_CLO (argument, "--mode=full", o->mode, CV_FULL) {
    } else if VG_BINT_CLO (argument, "--wire-fd", o->wire_fd, 0, 1 << 20) {
    } else if VG_STR_CLO (argument, "--counters", o->counters) {
    } else if VG_STR_CLO (argument, "--streams", o->streams) {
    } else if VG_BINT_CLO (argument, "--interval", o->interval, 0, 1LL << 50) {
    } else if VG_BINT_CLO (argument, "--sample", o->sample, 0, 1LL << 50) {
    } else if VG_BINT_CLO (argument, "--sets", o->sets, 0, 1LL << 20) {
    } else if VG_BINT_CLO (argument, "--set-class", o->set_class, 0, (1LL << 20) - 1) {
    } else if VG_BINT_CLO (argument, "--block-limit", o->block_limit, 0, 1LL << 50) {
    } else if VG_BINT_CLO (argument, "--buffer-bytes", o->buffer_bytes, 1 << 16, 1LL << 30) {
    } else if VG_BINT_CLO (argument, "--max-counters", o->max_counters, 1, 1LL << 30) {
    } else if VG_BINT_CLO (argument, "--stretch", o->stretch, 0, 1LL << 20) {
    } else if VG_BINT_CLO (argument, "--warmup", o->warmup, 0, 1LL << 50) {
    } else if VG_STR_CLO (argument, "--only", o->only) {
    } else if VG_STR_CLO (argument, "--start-at", o->start_at) {
    } else if VG_STR_CLO (argument, "--stop-at", o->stop_at) {
    } else if VG_BOOL_CLO (argument, "--data-objects", o->data_objects) {
    } else if VG_STR_CLO (argument, "--allocators", o->allocators) {
    } else if VG_BOOL_CLO (argument, "--fuse", o->fuse) {
    } else if VG_BOOL_CLO (argument, "--pack", o->pack) {
    } else if VG_BOOL_CLO (argument, "--thread-events", o->thread_events) {
    } else if VG_BOOL_CLO (argument, "--total", o->total) {
    } else if VG_XACT_CLO (argument, "--all-visits=yes", o->all_visits, 1) {
    } else if VG_XACT_CLO (argument, "--all-visits=no", o->all_visits, 0) {
    } else {
        return False;
    }
    return True;
}

void cv_option_usage(void)
{
    VG_(printf)("    --mode=counts|sample|full  exact counts | and sampled addresses | and every address [counts]\n"
                "    --wire-fd=N                write the stream to the inherited descriptor N [no stream]\n"
                "    --counters=PATH            keep the counters in this file (%%p: process id) [private memory]\n"
                "    --streams=FOLDER           each process makes a FIFO and a counter file of its own there [none]\n"
                "    --interval=N --sample=N    of every N references record the first `sample`; interval 0: none [1000000, 10000]\n"
                "    --sets=K --set-class=C     record the references to 1/K of the cache sets, K a power of two; 0: off [0, 21]\n"
                "    --block-limit=N            record at most N visits of a segment; 0: no limit [0]\n"
                "    --warmup=N                 mark the first N references of each sample as warm-up [0]\n"
                "    --stretch=N                let the reader of the counter file thin samples out: sets in stretches of N intervals [0]\n"
                "    --only=FILE                record only segments that begin in its ranges, lines FIRST END PATH [all]\n"
                "    --start-at=X --stop-at=X   trace between X and X: marker, a function, 0xADDRESS, @OFFSET:PATH [all]\n"
                "    --all-visits=yes|no        record segments without memory references, too: the path [yes where bursts are]\n"
                "    --thread-events=yes|no     tell what threads wait for and what they execute in between [yes with a counter file]\n"
                "    --total=yes|no             count all instructions together, too, for clocks of instructions [no]\n"
                "    --data-objects=yes|no      tell what lies where in memory: blocks, symbols, stacks, mappings [no]\n"
                "    --allocators=NAME,NAME     functions that allocate for their callers, beside those of the C library [none]\n"
                "    --pack=yes|no              one call for a packed fused multiply-add, where the host has it [yes]\n"
                "    --fuse=yes|no              remove partial-register stalls from XMM code [yes]\n");
}

void cv_option_debug_usage(void)
{
    VG_(printf)("    --buffer-bytes=N           size of the stream's buffer [262144]\n"
                "    --max-counters=N           stop with a sentence beyond [2^30]\n");
}

void cv_options_check(void)
{
    struct cv_options *o = &cv_options;
    if (o->sets & (o->sets - 1))
        cv_fatal("--sets=%lld is not a power of two", o->sets);
    if (!cv_host_has_fma())
        o->pack = False;
    if (o->sets)
        o->set_class &= o->sets - 1;
    if (o->mode == CV_FULL)
        o->sets = 0; /* every address is recorded anyway */
    if (o->mode != CV_SAMPLE)
        o->interval = 0;
    if (o->sample > o->interval)
        o->sample = o->interval;
    if (o->sample == 0)
        o->interval = 0;
    if (!o->interval)
        o->stretch = 0;
    if (o->start_at || o->stop_at)
        o->thread_events = False; /* counts are taken back there: nothing can be attributed */
    if (o->all_visits < 0)
        o->all_visits = o->interval > 0;
}

static Bool names_this_process(const HChar *argument)
{
    return VG_(strncmp)(argument, "--wire-fd=", 10) == 0 ||
           (VG_(strncmp)(argument, "--counters=", 11) == 0 && !VG_(strstr)(argument, "%p"));
}

void cv_options_forget_inherited(void)
{
    /* The first entries are not handed on anyway, and their number is kept elsewhere: leave them alone. */
    Word i = VG_(sizeXA)(VG_(args_for_valgrind));
    while (--i >= VG_(args_for_valgrind_noexecpass))
        if (names_this_process(*(HChar **)VG_(indexXA)(VG_(args_for_valgrind), i)))
            VG_(removeIndexXA)(VG_(args_for_valgrind), i);
}

void cv_fatal(const HChar *format, ...)
{
    HChar sentence[512];
    va_list arguments;
    va_start(arguments, format);
    VG_(vsnprintf)(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    VG_(fmsg)("%s\n", sentence);
    VG_(exit)(125);
}
