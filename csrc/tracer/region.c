/* SPDX-License-Identifier: GPL-2.0-or-later
 * The part of the run that is traced: from --start-at to --stop-at, each an entry of a function (by name, by address, or by the
 * offset in its object file, @OFFSET:PATH in hexadecimal) or a mark in the program (convolver_markers.h). It may begin and end many times.
 *
 * Outside the region inline code runs on as it is: its counts are taken back when the region begins again or the program ends, and
 * what it writes into the stream's buffer is thrown away. So beginning and ending costs microseconds, no translation. After a
 * SIGKILL outside the region the counters hold what ran since it ended, too. */
#include "tracer.h"
#include "../include/convolver_markers.h"
#include "pub_tool_debuginfo.h"

Bool cv_recording = True;

static ULong *kept;
static UInt n_kept, kept_room;
static Long kept_countdown;
static Bool stopped; /* the region has ended once */

static void keep_counters(void)
{
    n_kept = cv_counters_used();
    kept = cv_with_room(kept, &kept_room, n_kept, sizeof *kept);
    for (UInt i = 0; i < n_kept; i++)
        kept[i] = *(ULong *)cv_counter_address(i);
}

static void take_back_counters(void)
{
    for (UInt i = 0; i < cv_counters_used(); i++)
        *(ULong *)cv_counter_address(i) = i < n_kept ? kept[i] : 0;
}

static void leave(void)
{
    kept_countdown = cv_countdown;
    cv_countdown = 1LL << 62;
    keep_counters();
    cv_recording = False;
}

void cv_region_open(void)
{
    if (cv_options.start_at)
        leave();
}

void cv_region_start(void)
{
    if (cv_recording)
        return;
    take_back_counters();
    cv_countdown = kept_countdown;
    cv_output_drop();
    cv_pages_begin();
    cv_recording = True;
    cv_stream_control(CV_WIRE_THREAD, cv_current_thread());
}

/* A forked child's counters begin at 0. */
void cv_region_fork(void)
{
    if (n_kept)
        VG_(memset)(kept, 0, n_kept * sizeof *kept);
}

void cv_region_stop(void)
{
    if (!cv_recording)
        return;
    stopped = True;
    cv_sampling_stop();
    cv_pages_end();
    cv_flush();
    leave();
}

void cv_region_end(void)
{
    if (!cv_recording)
        take_back_counters();
}

Bool cv_region_unstopped(void) { return cv_recording && cv_options.stop_at && !stopped; }

static Bool is_marker(const HChar *where) { return where && !VG_(strcmp)(where, "marker"); }

/* Is the address the one at @OFFSET:PATH? */
static Bool is_place(const HChar *where, Addr address)
{
    HChar *path;
    ULong wanted = VG_(strtoull16)(where + 1, &path);
    uint64_t offset;
    UInt module = cv_module_of(address, &offset);
    return offset == wanted && *path == ':' && !VG_(strcmp)(path + 1, cv_module_path(module));
}

/* Is the block at this address the entry that `where` names? */
static Bool is_entry(const HChar *where, Addr address)
{
    const HChar *name;
    if (!where || is_marker(where))
        return False;
    if (where[0] == '@')
        return is_place(where, address);
    if (where[0] == '0' && where[1] == 'x')
        return address == VG_(strtoull16)(where, NULL);
    return VG_(get_fnname_if_entry)(VG_(current_DiEpoch)(), address, &name) && !VG_(strcmp)(name, where);
}

void cv_region_instrument(IRSB *out, Addr start)
{
    if (is_entry(cv_options.start_at, start))
        cv_ir_call(out, "cv_region_start", cv_region_start, mkIRExprVec_0(), NULL);
    if (is_entry(cv_options.stop_at, start))
        cv_ir_call(out, "cv_region_stop", cv_region_stop, mkIRExprVec_0(), NULL);
}

static Bool request(ThreadId thread, UWord *arguments, UWord *answer)
{
    *answer = 0;
    if (arguments[0] == CONVOLVER_REQUEST_START) {
        if (is_marker(cv_options.start_at))
            cv_region_start();
        return True;
    }
    if (arguments[0] == CONVOLVER_REQUEST_STOP) {
        if (is_marker(cv_options.stop_at))
            cv_region_stop();
        return True;
    }
    return cv_bursts_asked(arguments, answer);
}

void cv_region_register(void) { VG_(needs_client_requests)(request); }
