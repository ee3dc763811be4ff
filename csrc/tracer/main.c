/* SPDX-License-Identifier: GPL-2.0-or-later
 * Convolver's tracer: a Valgrind tool that counts what a program executes, exactly and by segment of code, and streams the
 * addresses that it references, all of them or samples. See tracer.h for the parts and ../include/cv_wire.h for the stream. */
#include "tracer.h"
#include "pub_tool_machine.h"
#include "pub_tool_options.h"

static void after_options(void)
{
    cv_options_check();
    /* True blocks: one entry, nothing inlined, nothing unrolled. (Both would gain a little speed and count code twice.) */
    VG_(clo_vex_control).guest_chase = False;
    VG_(clo_vex_control).iropt_unroll_thresh = 0;
    /* The tool takes no stack traces at memory accesses, so of the guest's registers only the stack pointer need be up to date there:
     * up to twice as fast. Programs whose signal handlers look at registers after a fault can ask for them with Valgrind's own
     * --vex-iropt-register-updates=allregs-at-mem-access. */
    if (VG_(clo_vex_control).iropt_register_updates_default == VexRegUpdUnwindregsAtMemAccess)
        VG_(clo_vex_control).iropt_register_updates_default = VexRegUpdSpAtMemAccess;
    else if (VG_(clo_vex_control).iropt_register_updates_default >= VexRegUpdAllregsAtMemAccess)
        cv_options.fuse = cv_options.pack = False;
    cv_heap_make_room();
    cv_stream_open();
    cv_counters_open();
    cv_sampling_start();
    cv_selection_open();
    cv_region_open();
    cv_calls_start();
    cv_options_forget_inherited();
}

static void before_options(void)
{
    VG_(details_name)("convolver");
    VG_(details_version)(NULL);
    VG_(details_description)("a tracer of memory references");
    VG_(details_copyright_author)("Copyright (C) the Convolver authors; GPL-2.0-or-later.");
    VG_(details_bug_reports_to)("Convolver's issue tracker");
    VG_(details_avg_translation_sizeB)(400);
    VG_(basic_tool_funcs)(after_options, cv_instrument, cv_process_end);
    VG_(needs_command_line_options)(cv_option, cv_option_usage, cv_option_debug_usage);
    cv_process_register();
    cv_region_register();
    cv_objects_register();
    cv_synchronization_register();
}

VG_DETERMINE_INTERFACE_VERSION(before_options)
