/* SPDX-License-Identifier: GPL-2.0-or-later
 * How many pages of the traced program's memory a native run would have to fault in.
 *
 * Nothing is done at a reference: the kernel's page tables say which pages are there (/proc/self/pagemap, whose bits for "present" and
 * "of a file" every process may read of itself). Pages are counted when mappings go (munmap, mmap over others, a smaller heap,
 * madvise, exec) and at the end. What was there when counting began (a region, a forked child) is taken off.
 *
 * An anonymous page, or one of a private file mapping that was written, is there because it faulted alone; for pages that files are
 * read through the kernel maps those around in one fault, so aligned windows of 64 KiB are counted, within their mapping. Transparent
 * huge pages are switched off for the traced process, or a page would be there because its neighbor was touched; what they would have
 * been is counted beside. */
#include "tracer.h"
#include "private.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_vkiscnums.h"

#define PAGE_SHIFT 12
#define WINDOW_SHIFT 16 /* fault_around_bytes of the kernel */
#define HUGE_SHIFT 21
#define PRESENT (1ULL << 63)
#define OF_A_FILE (1ULL << 61) /* or of memory that is shared */
#define MOST_ENTRIES 4096

/* ---- ranges that differ from others ---- */

struct range {
    Addr start, end;
    struct range *next;
};

static struct range *ranges[CV_PAGES_KINDS];
static struct range heap;

static void add_range(struct range **list, Addr start, SizeT bytes)
{
    struct range *range = VG_(malloc)("cv.ranges", sizeof *range);
    *range = (struct range){start, start + bytes, *list};
    *list = range;
}

/* Other memory is there now. (One that is cut in the middle goes whole: rare enough.) */
static void forget_ranges(struct range **list, Addr start, SizeT bytes)
{
    while (*list) {
        struct range *range = *list;
        if (range->start < start + bytes && start < range->end) {
            *list = range->next;
            VG_(free)(range);
        } else {
            list = &range->next;
        }
    }
}

static Bool in_ranges(const struct range *range, Addr address)
{
    while (range && !(range->start <= address && address < range->end))
        range = range->next;
    return range != NULL;
}

void cv_pages_are(enum cv_pages_kind kind, Addr start, SizeT bytes)
{
    forget_ranges(&ranges[kind], start, bytes);
    add_range(&ranges[kind], start, bytes);
}

void cv_pages_mapped(Addr start, SizeT bytes)
{
    for (UInt kind = 0; kind < CV_PAGES_KINDS; kind++)
        forget_ranges(&ranges[kind], start, bytes);
}

void cv_pages_heap(Addr start, Addr end) { heap = (struct range){start, end, NULL}; }

/* ---- counting ---- */

static struct cv_wire_pages total;
static Int pagemap = -1;
static Bool unknown;

/* One mapping, or the part of it that goes. */
struct part {
    const NSegment *mapping;
    Addr start, end; /* end excluded */
    Bool shared;
    Addr last_window;
    Addr region;              /* the aligned 2 MiB of the last page */
    Bool inside, asked, heap; /* could it be a huge page: wherever one fits, as the program asked, as its allocator could */
    struct cv_wire_pages pages;
};

static Bool open_pagemap(void)
{
    if (pagemap < 0 && !unknown) {
        SysRes opened = VG_(open)("/proc/self/pagemap", VKI_O_RDONLY, 0);
        if (sr_isError(opened))
            unknown = True;
        else
            pagemap = VG_(safe_fd)(sr_Res(opened));
    }
    return !unknown;
}

static void close_pagemap(void)
{
    if (pagemap >= 0)
        VG_(close)(pagemap);
    pagemap = -1;
}

/* A huge page takes the place of all pages of an aligned region that lies within one mapping. An allocator that asks for huge pages
 * grows its heap by whole ones, so there the region's start decides. */
static void enter_region(struct part *part, Addr region)
{
    part->region = region;
    part->inside = region >= part->mapping->start && region + (1UL << HUGE_SHIFT) - 1 <= part->mapping->end;
    part->asked = part->inside && in_ranges(ranges[CV_PAGES_ADVISED], region);
    part->heap = part->asked || in_ranges(&heap, region) || (part->inside && in_ranges(ranges[CV_PAGES_ALLOCATED], region));
    part->pages.huge_regions += part->inside;
    part->pages.advised_regions += part->asked;
    part->pages.heap_regions += part->heap;
}

static void count_huge(struct part *part, Addr address)
{
    Addr region = address >> HUGE_SHIFT << HUGE_SHIFT;
    if (region != part->region)
        enter_region(part, region);
    part->pages.huge_pages += part->inside;
    part->pages.advised_pages += part->asked;
    part->pages.heap_pages += part->heap;
}

static void count_page(struct part *part, Addr address, ULong entry)
{
    Addr window = address >> WINDOW_SHIFT;
    if (!(entry & PRESENT))
        return;
    if (!(entry & OF_A_FILE)) {
        part->pages.anonymous++;
        if (part->mapping->kind == SkAnonC)
            count_huge(part, address);
    } else if (part->shared) {
        part->pages.shared++;
    } else {
        part->pages.file++;
        part->pages.windows += window != part->last_window;
        part->last_window = window;
    }
}

static void count_part(struct part *part)
{
    static ULong entries[MOST_ENTRIES];
    part->shared = part->mapping->kind != SkFileC || in_ranges(ranges[CV_PAGES_SHARED], part->start);
    part->last_window = part->region = ~0UL;
    for (Addr at = part->start; at < part->end;) {
        SizeT wanted = (part->end - at) >> PAGE_SHIFT;
        if (wanted > MOST_ENTRIES)
            wanted = MOST_ENTRIES;
        SysRes got = VG_(do_syscall)(__NR_pread64, pagemap, (UWord)entries, wanted * sizeof *entries, (at >> PAGE_SHIFT) * sizeof *entries,
                                     0, 0, 0, 0);
        if (sr_isError(got) || sr_Res(got) == 0) {
            unknown = True;
            return;
        }
        SizeT n = sr_Res(got) / sizeof *entries;
        for (SizeT i = 0; i < n; i++, at += 1UL << PAGE_SHIFT)
            count_page(part, at, entries[i]);
    }
}

static Bool is_valgrinds(const NSegment *mapping)
{
    const HChar *path = mapping->kind == SkFileC ? VG_(am_get_filename)(mapping) : NULL;
    return path && cv_is_preloaded(path);
}

static void add_pages(struct cv_wire_pages *to, const struct cv_wire_pages *pages, Long sign)
{
    ULong *sum = (ULong *)to;
    const ULong *more = (const ULong *)pages;
    for (UInt i = 0; i < sizeof *to / sizeof *sum; i++)
        sum[i] += sign * more[i];
}

/* The pages that are there from `start` on, of the program's mappings alone. */
static void add_range_pages(struct cv_wire_pages *to, Addr start, SizeT bytes, Long sign)
{
    static Addr *starts;
    static Int room;
    const UInt kinds = SkAnonC | SkFileC | SkShmC;
    Int n;
    if (!open_pagemap())
        return;
    while (!starts || (n = VG_(am_get_segment_starts)(kinds, starts, room)) < 0) {
        room = starts ? 2 * -n : 256;
        starts = VG_(realloc)("cv.mappings", starts, room * sizeof *starts);
    }
    for (Int i = 0; i < n; i++) {
        struct part part = {.mapping = VG_(am_find_nsegment)(starts[i])};
        if (!part.mapping || is_valgrinds(part.mapping))
            continue;
        part.start = part.mapping->start > start ? part.mapping->start : start;
        part.end = part.mapping->end + 1 < start + bytes ? part.mapping->end + 1 : start + bytes;
        if (part.start < part.end) {
            count_part(&part);
            add_pages(to, &part.pages, sign);
        }
    }
}

static Addr whole_pages(Addr address) { return (address + (1UL << PAGE_SHIFT) - 1) >> PAGE_SHIFT << PAGE_SHIFT; }

void cv_pages_going(Addr start, SizeT bytes)
{
    if (bytes && cv_recording)
        add_range_pages(&total, start >> PAGE_SHIFT << PAGE_SHIFT, whole_pages(bytes), 1);
}

void cv_pages_populated(Addr start, SizeT bytes)
{
    struct cv_wire_pages filled = {0};
    if (!cv_recording)
        return;
    add_range_pages(&filled, start, whole_pages(bytes), 1);
    total.populated += filled.anonymous + filled.shared;
}

/* Everything from the first page to the last that a program can have. */
#define ALL 0, 1UL << 47

void cv_pages_begin(void)
{
    static UInt times;
    if (++times > 64)
        unknown = True; /* looking at all pages takes milliseconds: not for regions that are entered again and again */
    add_range_pages(&total, ALL, -1);
}

void cv_pages_end(void) { add_range_pages(&total, ALL, 1); }

void cv_pages_fork(void)
{
    close_pagemap();
    total = (struct cv_wire_pages){0};
    if (cv_recording)
        add_range_pages(&total, ALL, -1);
}

/* Those so far, and what is there now where the program is being recorded; False where the kernel does not tell. */
Bool cv_pages_so_far(struct cv_wire_pages *pages)
{
    *pages = total;
    if (cv_recording)
        add_range_pages(pages, ALL, 1);
    return !unknown;
}
