/* SPDX-License-Identifier: GPL-2.0-or-later
 * Code that calls back where functions that synchronize are entered, and where they return. */
#include "tracer.h"
#include "private.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_debuginfo.h"

Bool cv_translations_stale;

void cv_synchronization_instrument_entry(IRSB *out, Addr start)
{
    const HChar *name;
    if (!cv_options.thread_events)
        return;
    if (cv_body_is_known(start))
        cv_ir_call(out, "cv_synchronization_body", cv_synchronization_body,
                   mkIRExprVec_4(cv_ir_u64(start), CV_GUEST(out, RSP), CV_GUEST(out, RDI), CV_GUEST(out, RSI)), NULL);
    if (!VG_(get_fnname_if_entry)(VG_(current_DiEpoch)(), start, &name))
        return;
    enum cv_function function = cv_function_named(name);
    if (function != NOTHING)
        cv_ir_call(out, "cv_synchronization_entered", cv_synchronization_entered,
                   mkIRExprVec_6(cv_ir_u64(function), CV_GUEST(out, RSP), CV_GUEST(out, RDI), CV_GUEST(out, RSI), CV_GUEST(out, RDX),
                                 CV_GUEST(out, RCX)),
                   NULL);
}

void cv_synchronization_instrument_end(IRSB *out)
{
    if (cv_threads_active() && out->jumpkind == Ijk_Ret)
        cv_ir_call_returned(out, "cv_synchronization_left", cv_synchronization_left, &cv_return_awaited);
}

void cv_synchronization_discard(void)
{
    if (!cv_translations_stale)
        return;
    cv_translations_stale = False;
    VG_(ok_to_discard_translations) = True;
    VG_(discard_translations)(0x1000, 0x7fffffffe000, "convolver");
    VG_(ok_to_discard_translations) = False;
}
