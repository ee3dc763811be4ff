/* SPDX-License-Identifier: GPL-2.0-or-later
 * Which functions hand out memory, by name (cv_allocators.h). The program's own ones run, none is replaced: so nothing is counted
 * differently, and static programs are no exception. A stripped static program has no names. */
#include "tracer.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_stacktrace.h"
#include "pub_tool_threadstate.h"

#define MOST_CALLERS 16

enum cv_allocator cv_allocator_of(const HChar *name, const HChar **shown) { return cv_allocator_named(name, cv_options.allocators, shown); }

/* Memory that a program maps itself is not its allocator's, nor is that of an allocator outside of the C library, which calls the
 * library's mmap from another object. */
Bool cv_allocator_calls(void)
{
    const DiEpoch now = VG_(current_DiEpoch)();
    const HChar *name, *shown;
    Addr callers[MOST_CALLERS];
    const UInt depth = VG_(get_StackTrace)(VG_(get_running_tid)(), callers, MOST_CALLERS, NULL, NULL, 0);
    const DebugInfo *const library = depth ? VG_(find_DebugInfo)(now, callers[0]) : NULL;
    for (UInt i = 1; library && i < depth; i++) {
        if (!VG_(get_fnname)(now, callers[i], &name) || VG_(find_DebugInfo)(now, callers[i]) != library)
            continue;
        const enum cv_allocator kind = cv_allocator_of(name, &shown);
        if (kind >= CV_ALLOC_SIZE && kind <= CV_ALLOC_POSIX)
            return True;
    }
    return False;
}
