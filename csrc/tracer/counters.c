/* SPDX-License-Identifier: GPL-2.0-or-later
 * Exact counters. Inline code increments them in memory that is a shared mapping of the counter file, so that they are complete
 * even when the process is killed. The file grows in chunks; each chunk keeps its address for good. */
#include "tracer.h"
#include "private.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_options.h"
#include "pub_tool_vkiscnums.h"

#define CHUNK_COUNTERS (1U << 18)
#define CHUNK_BYTES (CHUNK_COUNTERS * sizeof(ULong))
#define MAX_CHUNKS (1U << 12)

static struct cv_counters_header private_header;
static struct cv_counters_header *header = &private_header;
static Addr chunks[MAX_CHUNKS];
static UInt n_chunks;
static Int file = -1;

static Addr map_file(Off64T offset, SizeT bytes)
{
    /* Blocks are reserved now: a full disk must be a sentence here, not a SIGBUS in the middle of the guest. */
    SysRes reserved = VG_(do_syscall)(__NR_fallocate, file, 0, offset, bytes, 0, 0, 0, 0);
    if (sr_isError(reserved) && sr_Err(reserved) == VKI_ENOSPC)
        cv_fatal("no space for the counter file %s; free some or choose another folder", cv_options.counters);
    if (sr_isError(reserved) && sr_isError(VG_(do_syscall)(__NR_ftruncate, file, offset + bytes, 0, 0, 0, 0, 0, 0)))
        cv_fatal("cannot enlarge the counter file %s", cv_options.counters);
    SysRes mapped = VG_(am_shared_mmap_file_float_valgrind)(bytes, VKI_PROT_READ | VKI_PROT_WRITE, file, offset);
    if (sr_isError(mapped))
        cv_fatal("cannot map the counter file %s", cv_options.counters);
    return sr_Res(mapped);
}

static void add_chunk(void)
{
    Off64T offset = CV_COUNTERS_OFFSET + (Off64T)n_chunks * CHUNK_BYTES;
    chunks[n_chunks++] = file >= 0 ? map_file(offset, CHUNK_BYTES) : (Addr)VG_(am_shadow_alloc)(CHUNK_BYTES);
    header->capacity = (ULong)n_chunks * CHUNK_COUNTERS;
}

static HChar file_path[4096]; /* with room for what is put after */

static void open_file(const HChar *path)
{
    if (VG_(strlen)(path) < sizeof file_path - 16)
        VG_(strcpy)(file_path, path);
    SysRes opened = VG_(open)(path, VKI_O_RDWR | VKI_O_CREAT | VKI_O_TRUNC, 0644);
    if (sr_isError(opened))
        cv_fatal("cannot create the counter file %s", path);
    file = VG_(safe_fd)(sr_Res(opened));
    header = (struct cv_counters_header *)map_file(0, CV_COUNTERS_OFFSET);
    header->magic = CV_COUNTERS_MAGIC;
    header->pid = VG_(getpid)();
}

void cv_counters_open(void)
{
    if (cv_stream_counters())
        open_file(cv_stream_counters());
    else if (cv_options.counters)
        open_file(VG_(expand_file_name)("--counters", cv_options.counters));
    add_chunk();
}

UInt cv_counters_allocate(UInt n)
{
    UInt first = header->used;
    if (first + (ULong)n > (ULong)cv_options.max_counters)
        cv_fatal("the program has more than %lld counted blocks; trace a part of it", cv_options.max_counters);
    while (first + n > header->capacity) {
        if (n_chunks == MAX_CHUNKS)
            cv_fatal("the program has more than %u counted blocks; trace a part of it", n_chunks * CHUNK_COUNTERS);
        add_chunk();
    }
    header->used = first + n;
    return first;
}

Addr cv_counter_address(UInt counter) { return chunks[counter / CHUNK_COUNTERS] + counter % CHUNK_COUNTERS * sizeof(ULong); }

UInt cv_counters_used(void) { return header->used; }

const ULong *cv_counters_span(UInt first, UInt *n)
{
    UInt chunk_end = (first / CHUNK_COUNTERS + 1) * CHUNK_COUNTERS, used = header->used;
    *n = (used < chunk_end ? used : chunk_end) - first;
    return (const ULong *)cv_counter_address(first);
}

const HChar *cv_counters_path(void) { return file >= 0 && file_path[0] ? file_path : NULL; }

void cv_counters_finished(Bool finished) { header->finished = finished; }

Bool cv_counters_remove(void)
{
    static const HChar made_by_runner[] = "/convolver-";
    HChar *name = VG_(strrchr)(file_path, '/');
    if (file < 0 || !name || !VG_(strstr)(file_path, made_by_runner))
        return False;
    VG_(unlink)(file_path);
    SizeT length = VG_(strlen)(file_path);
    VG_(strcpy)(file_path + length, ".threads");
    VG_(unlink)(file_path);
    file_path[length] = 0;
    if (cv_options.streams) { /* FOLDER/PROCESS.counters and the FIFO */
        file_path[VG_(strlen)(file_path) - VG_(strlen)(".counters")] = 0;
        VG_(unlink)(file_path);
    }
    VG_(strcpy)(name, "/log");
    VG_(unlink)(file_path);
    *name = 0;
    VG_(do_syscall)(__NR_rmdir, (UWord)file_path, 0, 0, 0, 0, 0, 0, 0); /* while other processes are in it, this fails */
    return True;
}

ULong cv_counters_every(enum cv_every which)
{
    const ULong at_first[] = {1, cv_options.stretch, cv_options.sets}, every = *(volatile ULong *)&header->every[which];
    return every ? every : at_first[which];
}

/* Inline code holds the addresses, so the parent's pages are replaced in place, after Valgrind's address space manager: a mapping
 * of the same size and rights differs in nothing that it relies on. */
static void replace_chunks(Int from)
{
    UWord flags = VKI_MAP_FIXED | (from < 0 ? VKI_MAP_PRIVATE | VKI_MAP_ANONYMOUS : VKI_MAP_SHARED);
    for (UInt i = 0; i < n_chunks; i++) {
        Off64T offset = from < 0 ? 0 : CV_COUNTERS_OFFSET + (Off64T)i * CHUNK_BYTES;
        if (from >= 0 && sr_isError(VG_(do_syscall)(__NR_ftruncate, from, offset + CHUNK_BYTES, 0, 0, 0, 0, 0, 0)))
            cv_fatal("cannot enlarge the counter file of a forked process");
        VG_(do_syscall)(__NR_mmap, chunks[i], CHUNK_BYTES, VKI_PROT_READ | VKI_PROT_WRITE, flags, (UWord)from, offset, 0, 0);
    }
}

void cv_counters_fork(void)
{
    struct cv_counters_header parent = *header;
    if (file >= 0)
        VG_(close)(file);
    else if (!cv_stream_counters())
        return;
    file = -1;
    private_header = parent;
    header = &private_header;
    if (cv_stream_counters()) {
        open_file(cv_stream_counters());
        header->used = parent.used;
        header->capacity = parent.capacity;
    }
    replace_chunks(file);
}
