/* SPDX-License-Identifier: GPL-2.0-or-later
 * Which functions hand out memory, by name. The program's own ones run, none is replaced: so nothing is counted differently, and
 * static programs are no exception. A stripped static program has no names. */
#include "tracer.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_stacktrace.h"
#include "pub_tool_threadstate.h"

#define MOST_CALLERS 16

struct known {
    const HChar *name;
    enum cv_allocator kind;
};

static const struct known functions[] = {
    {"malloc", CV_ALLOC_SIZE},
    {"calloc", CV_ALLOC_CALLOC},
    {"realloc", CV_ALLOC_REALLOC},
    {"reallocarray", CV_ALLOC_REALLOCARRAY},
    {"memalign", CV_ALLOC_ALIGNED},
    {"aligned_alloc", CV_ALLOC_ALIGNED},
    {"posix_memalign", CV_ALLOC_POSIX},
    {"valloc", CV_ALLOC_SIZE},
    {"pvalloc", CV_ALLOC_SIZE},
    {"free", CV_ALLOC_FREE},
    {"cfree", CV_ALLOC_FREE},
    {"mmap", CV_ALLOC_MMAP},
    {"mmap64", CV_ALLOC_MMAP},
    {"mremap", CV_ALLOC_MMAP},
    /* These call one of the above for their caller, which is the place that is wanted. */
    {"strdup", CV_ALLOC_WRAPPER},
    {"strndup", CV_ALLOC_WRAPPER},
    {"asprintf", CV_ALLOC_WRAPPER},
    {"vasprintf", CV_ALLOC_WRAPPER},
    {"xmalloc", CV_ALLOC_WRAPPER},
    {"xcalloc", CV_ALLOC_WRAPPER},
    {"xrealloc", CV_ALLOC_WRAPPER},
    {"xstrdup", CV_ALLOC_WRAPPER},
    {"g_malloc", CV_ALLOC_WRAPPER},
    {"g_malloc0", CV_ALLOC_WRAPPER},
    {"g_realloc", CV_ALLOC_WRAPPER},
    {"g_strdup", CV_ALLOC_WRAPPER},
};

/* Names that the C library's symbol table has for one function; Valgrind tells one of them. */
static const HChar *without_prefix(const HChar *name)
{
    static const HChar *prefixes[] = {"__libc_", "__GI___libc_", "__GI___", "__GI_", "__"};
    for (UInt i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        SizeT length = VG_(strlen)(prefixes[i]);
        if (!VG_(strncmp)(name, prefixes[i], length))
            return name + length;
    }
    return name;
}

static Bool begins(const HChar *name, const HChar *with)
{
    SizeT length = VG_(strlen)(with);
    return !VG_(strncmp)(name, with, length) && (name[length] == '(' || name[length] == '[' || !name[length]);
}

/* Is the name one of a list with commas between? */
static Bool listed(const HChar *name, const HChar *list)
{
    SizeT length = VG_(strlen)(name);
    for (const HChar *at = list; at && *at;) {
        const HChar *end = at;
        while (*end && *end != ',')
            end++;
        if ((SizeT)(end - at) == length && !VG_(strncmp)(at, name, length))
            return True;
        at = *end ? end + 1 : end;
    }
    return False;
}

enum cv_allocator cv_allocator_of(const HChar *name, const HChar **shown)
{
    *shown = name;
    if (begins(name, "operator new"))
        return *shown = name[12] == '[' ? "new[]" : "new", CV_ALLOC_SIZE;
    if (begins(name, "operator delete"))
        return CV_ALLOC_FREE;
    if (listed(name, cv_options.allocators))
        return CV_ALLOC_WRAPPER;
    const HChar *plain = without_prefix(name);
    for (UInt i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!VG_(strcmp)(functions[i].name, plain))
            return *shown = functions[i].name, functions[i].kind;
    return CV_ALLOC_NONE;
}

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
