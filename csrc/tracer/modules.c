/* SPDX-License-Identifier: GPL-2.0-or-later
 * Object files by address, from Valgrind's map of the address space (it reads no debug information: Convolver does that later).
 * All code outside files, JIT code and the vdso for example, belongs to one module with an empty path. */
#include "tracer.h"
#include "pub_tool_aspacemgr.h"

struct module {
    ULong device, inode;
    Int name; /* index of Valgrind's file name table; -1: no file */
    const HChar *path;
};

static struct module *modules;
static UInt n_modules, room;

static void define(UInt id, const NSegment *mapping, const HChar *path)
{
    HChar payload[sizeof(struct cv_wire_module) + 4096 + 8];
    struct cv_wire_module *module = (struct cv_wire_module *)payload;
    SizeT length = VG_(strlen)(path);
    if (length > 4096)
        length = 4096;
    VG_(memset)(module, 0, sizeof *module);
    if (mapping) {
        module->address = mapping->start;
        module->size_bytes = mapping->end + 1 - mapping->start;
        module->file_offset = mapping->offset;
    }
    module->path_bytes = length;
    VG_(memcpy)(payload + sizeof *module, path, length);
    cv_stream_record(CV_WIRE_MODULE, id, payload, sizeof *module + length);
}

static UInt find_or_add(struct module key, const NSegment *mapping, const HChar *path)
{
    for (UInt i = 0; i < n_modules; i++)
        if (modules[i].name == key.name && modules[i].inode == key.inode && modules[i].device == key.device)
            return i;
    modules = cv_with_room(modules, &room, n_modules + 1, sizeof *modules);
    modules[n_modules] = key;
    modules[n_modules].path = VG_(strdup)("cv.path", path);
    define(n_modules, mapping, path);
    return n_modules++;
}

UInt cv_module_of(Addr address, uint64_t *file_offset)
{
    const NSegment *mapping = VG_(am_find_nsegment)(address);
    const HChar *path = mapping && mapping->kind == SkFileC ? VG_(am_get_filename)(mapping) : NULL;
    if (!path || path[0] != '/') {
        *file_offset = address;
        return find_or_add((struct module){0, 0, -1, NULL}, NULL, "");
    }
    *file_offset = address - mapping->start + mapping->offset;
    return find_or_add((struct module){mapping->dev, mapping->ino, mapping->fnIdx, NULL}, mapping, path);
}

const HChar *cv_module_path(UInt id) { return modules[id].path; }
