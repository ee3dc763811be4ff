/* SPDX-License-Identifier: GPL-2.0-or-later
 * Data objects below the blocks: mapped files and memory, stacks; and the symbols of object files, which Valgrind reads anyway. */
#include "tracer.h"
#include "private.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_machine.h"

static const HChar no_name[] = "", mmap_name[] = "mmap";

static const HChar *kept_path(const HChar *path)
{
    static HChar **kept;
    static UInt n_kept, room;
    for (UInt i = 0; i < n_kept; i++)
        if (!VG_(strcmp)(kept[i], path))
            return kept[i];
    if (n_kept == room) {
        room = room ? 2 * room : 64;
        kept = VG_(realloc)("cv.paths", kept, room * sizeof *kept);
    }
    return kept[n_kept++] = VG_(strdup)("cv.paths", path);
}

/* ---- symbols ---- */

#define MOST_NAME 1024

static Addr *loaded; /* where the code of the object files whose symbols were sent lies */
static UInt n_loaded, loaded_room;

struct symbols {
    UInt module, first, count;
    SizeT bytes;
    UChar payload[CV_RECORD_WORDS * sizeof(ULong)];
};

static void send(struct symbols *s)
{
    if (!s->count)
        return;
    cv_stream_record(CV_WIRE_SYMBOLS, 0, s->payload, s->bytes);
    s->first = cv_objects_take(s->count);
    cv_object_event(CV_WIRE_LOADED, s->first, s->count, 0, 2);
    s->count = s->bytes = 0;
}

static void add_symbol(struct symbols *s, Addr address, SizeT size, const HChar *name)
{
    SizeT length = VG_(strlen)(name);
    if (length > MOST_NAME)
        length = MOST_NAME;
    SizeT padded = (length + 7) / 8 * 8;
    if (s->bytes + sizeof(struct cv_wire_symbol) + padded > sizeof s->payload)
        send(s);
    struct cv_wire_symbol symbol = {address, size, s->module, length};
    VG_(memcpy)(s->payload + s->bytes, &symbol, sizeof symbol);
    s->bytes += sizeof symbol;
    VG_(memset)(s->payload + s->bytes, 0, padded);
    VG_(memcpy)(s->payload + s->bytes, name, length);
    s->bytes += padded;
    s->count++;
}

static void load_symbols(const DebugInfo *file)
{
    static struct symbols s; /* large */
    uint64_t offset;
    Addr code = VG_(DebugInfo_get_text_avma)(file);
    s.module = cv_module_of(code, &offset);
    SizeT zeros = VG_(DebugInfo_get_bss_size)(file);
    if (zeros)
        cv_object_event(CV_WIRE_PLACED, cv_object(CV_WIRE_FILE, 0, kept_path(cv_module_path(s.module))), VG_(DebugInfo_get_bss_avma)(file),
                        zeros, 3);
    Int n = VG_(DebugInfo_syms_howmany)(file);
    for (Int i = 0; i < n; i++) {
        struct cv_symbol_addresses at = {0};
        UInt size = 0;
        const HChar *name = NULL, **others = NULL;
        Bool is_code = True, is_indirect = False, is_global = False;
        VG_(DebugInfo_syms_getidx)(file, i, &at, &size, &name, &others, &is_code, &is_indirect, &is_global);
        if (!is_code && size && name && name[0])
            add_symbol(&s, at.main, size, name);
    }
    send(&s);
}

static Bool is_loaded(Addr code)
{
    for (UInt i = 0; i < n_loaded; i++)
        if (loaded[i] == code)
            return True;
    return False;
}

static void load_new(void)
{
    for (const DebugInfo *file = VG_(next_DebugInfo)(NULL); file; file = VG_(next_DebugInfo)(file)) {
        Addr code = VG_(DebugInfo_get_text_avma)(file);
        if (!code || is_loaded(code))
            continue;
        if (n_loaded == loaded_room) {
            loaded_room = loaded_room ? 2 * loaded_room : 64;
            loaded = VG_(realloc)("cv.loaded", loaded, loaded_room * sizeof *loaded);
        }
        loaded[n_loaded++] = code;
        const NSegment *mapping = VG_(am_find_nsegment)(code);
        if (mapping && mapping->kind == SkFileC) /* Valgrind's own code is listed, too */
            load_symbols(file);
        /* Asking for the module's name may have changed the order of the list. */
        file = NULL;
    }
}

/* ---- mappings ---- */

static UInt object_of(const NSegment *mapping)
{
    const HChar *path = mapping->kind == SkFileC ? VG_(am_get_filename)(mapping) : NULL;
    Addr site;
    Bool allocating;
    if (path && path[0] == '/')
        return cv_object(CV_WIRE_FILE, 0, kept_path(path));
    if (VG_(DebugInfo_sect_kind)(&path, mapping->start) == Vg_SectBSS) /* zero-filled data after what the file holds */
        return cv_object(CV_WIRE_FILE, 0, kept_path(path));
    if (!cv_objects_caller(&site, &allocating))
        return cv_object(CV_WIRE_MAPPING, 0, mmap_name);
    return allocating ? cv_object(CV_WIRE_ALLOCATOR, 0, no_name) : cv_object(CV_WIRE_MAPPING, site, mmap_name);
}

static void mapped(Addr start, SizeT bytes)
{
    const NSegment *mapping = VG_(am_find_nsegment)(start);
    if (mapping && bytes)
        cv_object_event(CV_WIRE_PLACED, object_of(mapping), start, bytes, 3);
}

static void new_mapping(Addr start, SizeT bytes, Bool read, Bool write, Bool execute, ULong debug_information)
{
    if (!cv_options.data_objects)
        return;
    if (execute) /* other code may now be where there was some before */
        cv_objects_forget_sites();
    mapped(start, bytes);
    if (debug_information)
        load_new();
}

static void new_heap(Addr start, SizeT bytes, ThreadId thread)
{
    if (cv_options.data_objects && bytes)
        cv_object_event(CV_WIRE_PLACED, cv_object(CV_WIRE_ALLOCATOR, 0, no_name), start, bytes, 3);
}

static void unmapped(Addr start, SizeT bytes)
{
    if (!cv_options.data_objects || !bytes)
        return;
    for (UInt i = n_loaded; i-- > 0;)
        if (loaded[i] - start < bytes)
            loaded[i] = loaded[--n_loaded];
    cv_object_event(CV_WIRE_UNMAPPED, start, bytes, 0, 2);
}

static void moved(Addr from, Addr to, SizeT bytes)
{
    if (cv_options.data_objects && bytes)
        cv_object_event(CV_WIRE_MOVED, from, to, bytes, 3);
}

/* ---- stacks ---- */

void cv_objects_place_stack(ThreadId thread)
{
    SizeT bytes = VG_(thread_get_stack_size)(thread);
    Addr last = VG_(thread_get_stack_max)(thread);
    if (bytes && last)
        cv_object_event(CV_WIRE_PLACED, cv_object_stack(thread), last + 1 - bytes, bytes, 3);
}

static void thread_ended(ThreadId thread)
{
    cv_synchronization_thread_ended(thread);
    if (cv_options.data_objects)
        cv_objects_thread_ended(thread);
}

void cv_objects_register(void)
{
    VG_(track_pre_thread_ll_exit)(thread_ended);
    VG_(track_new_mem_startup)(new_mapping);
    VG_(track_new_mem_mmap)(new_mapping);
    VG_(track_new_mem_brk)(new_heap);
    VG_(track_die_mem_brk)(unmapped);
    VG_(track_die_mem_munmap)(unmapped);
    VG_(track_copy_mem_remap)(moved);
}
