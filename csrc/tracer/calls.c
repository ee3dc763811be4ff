/* SPDX-License-Identifier: GPL-2.0-or-later
 * What the traced program asks of the kernel: how often each system call, how many bytes it moves to and from what, and which of its
 * pages are there (pages.c). Written as one record at the end, and before each exec.
 *
 * What Valgrind makes the program do is left out: loading a library of its core's, looking for debug information. What a native run asks
 * the vdso (the time) is a system call here, since Valgrind hides the vdso; the reader of the record leaves those out. */
#include "tracer.h"
#include "private.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_vkiscnums.h"

#define MOST_CALLS 512
#define MOST_ENTRIES 1000 /* of the record, which must fit in the stream's buffer */
#define PAGE 4096UL
/* Not among the constants that Valgrind passes on: */
#define PR_SET_THP_DISABLE 41
#define MAP_POPULATE 0x8000
#define MADV_DONTNEED 4
#define MADV_HUGEPAGE 14

struct count {
    ULong calls, bytes;
};

static struct count counts[MOST_CALLS][CV_WIRE_TARGETS];
static ULong forks, threads;
static Int preloaded = -1; /* descriptor, while the dynamic linker loads Valgrind's library */

Bool cv_is_preloaded(const HChar *path) { return VG_(strstr)(path, "/vgpreload_core") != NULL; }

static void huge_pages(Bool allowed) { VG_(do_syscall)(__NR_prctl, PR_SET_THP_DISABLE, !allowed, 0, 0, 0, 0, 0, 0); }

/* ---- bytes ---- */

/* Does the call return how many bytes it moved to or from the descriptor that is its first argument? */
static Bool moves_bytes(UInt number)
{
    switch (number) {
    case __NR_read:
    case __NR_write:
    case __NR_pread64:
    case __NR_pwrite64:
    case __NR_readv:
    case __NR_writev:
    case __NR_preadv:
    case __NR_pwritev:
    case __NR_sendto:
    case __NR_recvfrom:
    case __NR_sendmsg:
    case __NR_recvmsg:
    case __NR_sendfile:
    case __NR_getdents:
    case __NR_getdents64: return True;
    default: return False;
    }
}

static enum cv_wire_target target_of(Int descriptor)
{
    struct vg_stat status;
    if (VG_(fstat)(descriptor, &status) != 0)
        return CV_WIRE_NO_TARGET;
    if (VKI_S_ISREG(status.mode))
        return CV_WIRE_TO_FILE;
    if (VKI_S_ISFIFO(status.mode))
        return CV_WIRE_TO_PIPE;
    if (VKI_S_ISSOCK(status.mode))
        return CV_WIRE_TO_SOCKET;
    return VKI_S_ISCHR(status.mode) && status.rdev == (1 << 8 | 3) ? CV_WIRE_TO_NULL : CV_WIRE_TO_OTHER;
}

/* ---- what is Valgrind's doing ---- */

/* The file that the call opens or asks for; empty for other calls. */
static const HChar *path_of(UInt number, const UWord *arguments)
{
    const HChar *path = "";
    if (number == __NR_open || number == __NR_stat)
        path = (const HChar *)arguments[0];
    else if (number == __NR_openat || number == __NR_newfstatat)
        path = (const HChar *)arguments[1];
    return VG_(am_is_valid_for_client)((Addr)path, 1, VKI_PROT_READ) ? path : "";
}

/* Debian's start script of Valgrind has the dynamic linker look for every library among the debug information first. */
static Bool is_valgrinds_call(UInt number, const UWord *arguments)
{
    const HChar *path = path_of(number, arguments);
    if (cv_is_preloaded(path) || VG_(strncmp)(path, "/usr/lib/debug", 14) == 0)
        return True;
    if (preloaded >= 0 && (Int)arguments[number == __NR_mmap ? 4 : 0] == preloaded)
        return True;
    if (number != __NR_mprotect)
        return False;
    const NSegment *mapping = VG_(am_find_nsegment)(arguments[0]);
    path = mapping && mapping->kind == SkFileC ? VG_(am_get_filename)(mapping) : NULL;
    return path && cv_is_preloaded(path);
}

static void follow_preloaded(UInt number, const UWord *arguments, SysRes result)
{
    if ((number == __NR_openat || number == __NR_open) && !sr_isError(result) && cv_is_preloaded(path_of(number, arguments)))
        preloaded = sr_Res(result);
    else if (number == __NR_close && (Int)arguments[0] == preloaded)
        preloaded = -1;
}

/* ---- memory ---- */

static Addr heap_start, heap_end; /* as the program saw them first and last */

static Addr page_end(Addr address) { return (address + PAGE - 1) & ~(PAGE - 1); }

static void memory_goes(UInt number, const UWord *arguments)
{
    if (number == __NR_munmap || (number == __NR_mmap && arguments[3] & VKI_MAP_FIXED) ||
        (number == __NR_madvise && arguments[2] == MADV_DONTNEED))
        cv_pages_going(arguments[0], arguments[1]);
    else if (number == __NR_mremap && arguments[2] < arguments[1])
        cv_pages_going(arguments[0] + arguments[2], arguments[1] - arguments[2]);
    else if (number == __NR_brk && arguments[0] && arguments[0] < heap_end)
        cv_pages_going(page_end(arguments[0]), heap_end - arguments[0]);
}

static void memory_changed(UInt number, const UWord *arguments, SysRes result)
{
    if (sr_isError(result))
        return;
    if (number == __NR_mmap) {
        cv_pages_mapped(sr_Res(result), arguments[1]);
        if (arguments[3] & VKI_MAP_SHARED && arguments[2] & VKI_PROT_WRITE)
            cv_pages_are(CV_PAGES_SHARED, sr_Res(result), arguments[1]);
        if (arguments[3] & MAP_POPULATE)
            cv_pages_populated(sr_Res(result), arguments[1]);
        if (arguments[3] & VKI_MAP_ANONYMOUS && cv_allocator_calls())
            cv_pages_are(CV_PAGES_ALLOCATED, sr_Res(result), arguments[1]);
    } else if (number == __NR_mremap && arguments[2] > arguments[1] && cv_allocator_calls()) {
        cv_pages_are(CV_PAGES_ALLOCATED, sr_Res(result), arguments[2]);
    } else if (number == __NR_madvise && arguments[2] == MADV_HUGEPAGE) {
        cv_pages_are(CV_PAGES_ADVISED, arguments[0], arguments[1]);
    } else if (number == __NR_brk) {
        /* Valgrind fills a heap that shrinks with zeros and keeps its pages: give them back, as the kernel would have. */
        Addr first = page_end(sr_Res(result));
        if (first < heap_end)
            VG_(do_syscall)(__NR_madvise, first, page_end(heap_end) - first, MADV_DONTNEED, 0, 0, 0, 0, 0);
        heap_end = sr_Res(result);
        heap_start = heap_start ? heap_start : heap_end;
        cv_pages_heap(heap_start, heap_end);
    }
}

/* ---- before and after each call ---- */

static void count_process(UInt number, const UWord *arguments)
{
    Bool thread = number == __NR_clone && arguments[0] & VKI_CLONE_VM && !(arguments[0] & VKI_CLONE_VFORK);
    if (thread)
        threads++;
    else if (number == __NR_clone || number == __NR_fork || number == __NR_vfork)
        forks++;
}

void cv_call_begins(UInt number, const UWord *arguments)
{
    memory_goes(number, arguments);
    if (number == __NR_execve || number == __NR_execveat)
        huge_pages(True);
    if (!cv_recording || number >= MOST_CALLS || is_valgrinds_call(number, arguments))
        return;
    count_process(number, arguments);
    if (!moves_bytes(number))
        counts[number][CV_WIRE_NO_TARGET].calls++;
}

void cv_call_ended(UInt number, const UWord *arguments, SysRes result)
{
    memory_changed(number, arguments, result);
    if (number == __NR_execve || number == __NR_execveat)
        huge_pages(False); /* it failed */
    Bool own = is_valgrinds_call(number, arguments);
    follow_preloaded(number, arguments, result);
    if (own || !cv_recording || number >= MOST_CALLS || !moves_bytes(number))
        return;
    struct count *count = &counts[number][target_of(arguments[0])];
    count->calls++;
    if (!sr_isError(result))
        count->bytes += sr_Res(result);
}

/* ---- the record ---- */

void cv_calls_write(void)
{
    static UChar payload[sizeof(struct cv_wire_system) + MOST_ENTRIES * sizeof(struct cv_wire_call)];
    struct cv_wire_system *head = (struct cv_wire_system *)payload;
    struct cv_wire_call *calls = (struct cv_wire_call *)(head + 1);
    *head = (struct cv_wire_system){.page_bytes = PAGE, .forks = forks, .threads = threads};
    if (cv_pages_so_far(&head->pages))
        head->flags |= CV_WIRE_PAGES_KNOWN;
    for (UInt number = 0; number < MOST_CALLS; number++)
        for (UInt target = 0; target < CV_WIRE_TARGETS; target++)
            if (counts[number][target].calls && head->calls < MOST_ENTRIES)
                calls[head->calls++] = (struct cv_wire_call){
                    .number = number, .target = target, .calls = counts[number][target].calls, .bytes = counts[number][target].bytes};
    cv_stream_record(CV_WIRE_SYSTEM, 0, payload, sizeof *head + head->calls * sizeof *calls);
}

void cv_calls_start(void) { huge_pages(False); }

void cv_calls_fork(void)
{
    VG_(memset)(counts, 0, sizeof counts);
    forks = threads = 0;
    cv_pages_fork();
}
