/* SPDX-License-Identifier: GPL-2.0-or-later
 * Data objects below the blocks: mapped files and memory, stacks; and the symbols of object files, which Valgrind reads anyway. */
#include "tracer.h"
#include "private.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_machine.h"

/* ---- symbols ---- */

static Addr *loaded; /* where the code of the object files whose symbols were sent lies */
static UInt n_loaded, loaded_room;

static void load_symbols(const DebugInfo *file)
{
    uint64_t offset;
    const UInt module = cv_module_of(VG_(DebugInfo_get_text_avma)(file), &offset);
    const SizeT zeros = VG_(DebugInfo_get_bss_size)(file);
    if (zeros)
        cv_object_place(cv_object(CV_WIRE_FILE, 0, cv_module_path(module)), VG_(DebugInfo_get_bss_avma)(file), zeros);
    Int n = VG_(DebugInfo_syms_howmany)(file);
    for (Int i = 0; i < n; i++) {
        struct cv_symbol_addresses at = {0};
        UInt size = 0;
        const HChar *name = NULL, **others = NULL;
        Bool is_code = True, is_indirect = False, is_global = False;
        VG_(DebugInfo_syms_getidx)(file, i, &at, &size, &name, &others, &is_code, &is_indirect, &is_global);
        if (!is_code && size && name && name[0])
            cv_object_symbol(module, at.main, size, name);
    }
    cv_objects_loaded();
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
        loaded = cv_with_room(loaded, &loaded_room, n_loaded + 1, sizeof *loaded);
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
        return cv_object(CV_WIRE_FILE, 0, path);
    if (VG_(DebugInfo_sect_kind)(&path, mapping->start) == Vg_SectBSS) /* zero-filled data after what the file holds */
        return cv_object(CV_WIRE_FILE, 0, path);
    if (!cv_objects_caller(&site, &allocating))
        return cv_object(CV_WIRE_MAPPING, 0, "mmap");
    return allocating ? cv_object(CV_WIRE_ALLOCATOR, 0, "") : cv_object(CV_WIRE_MAPPING, site, "mmap");
}

static void mapped(Addr start, SizeT bytes)
{
    const NSegment *mapping = VG_(am_find_nsegment)(start);
    if (mapping && bytes)
        cv_object_place(object_of(mapping), start, bytes);
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
        cv_object_place(cv_object(CV_WIRE_ALLOCATOR, 0, ""), start, bytes);
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
        cv_object_place(cv_object_define(CV_WIRE_STACK, 0, thread, ""), last + 1 - bytes, bytes);
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
