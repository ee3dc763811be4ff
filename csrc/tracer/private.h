/* SPDX-License-Identifier: GPL-2.0-or-later
 * Functions of Valgrind's core that its tool headers do not declare. They exist, with these signatures, from Valgrind 3.15 on;
 * build_tracer.py tests the linked tool, so a version that changes one of them is found at build time. */
#ifndef CV_TRACER_PRIVATE_H
#define CV_TRACER_PRIVATE_H

#include "pub_tool_basics.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_vki.h"

/* Moves a descriptor to the range that Valgrind hides from the guest, close-on-exec; closes the old one. */
extern Int VG_(safe_fd)(Int old_fd);
extern SysRes VG_(am_shared_mmap_file_float_valgrind)(SizeT length, UInt protection, Int fd, Off64T offset);
extern SysRes VG_(am_mmap_anon_fixed_client)(Addr start, SizeT length, UInt protection);
extern Addr VG_(am_get_advisory_client_simple)(Addr start, SizeT length, Bool *found);
/* Keeps addresses free for the mapping of `extra` bytes before them (or after, where negative) to grow into. */
extern Bool VG_(am_create_reservation)(Addr start, SizeT length, ShrinkMode mode, SSizeT extra);
extern Addr VG_(brk_base), VG_(brk_limit); /* of the program's heap */
extern Int VG_(sigtimedwait_zero)(const vki_sigset_t *set, vki_siginfo_t *info);
extern SysRes VG_(do_syscall)(UWord number, RegWord, RegWord, RegWord, RegWord, RegWord, RegWord, RegWord, RegWord);
/* discard_translations asserts that this flag is set; the core sets it around its own calls. */
extern Bool VG_(ok_to_discard_translations);
extern void VG_(discard_translations)(Addr start, ULong range, const HChar *who);

/* What an object file's symbol table holds, as Valgrind read it. Later versions tell more of the addresses: there is room for it. */
struct cv_symbol_addresses {
    Addr main;
    Addr others[3];
};
typedef struct _DebugInfo DebugInfo;
extern Int VG_(DebugInfo_syms_howmany)(const DebugInfo *file);
extern void VG_(DebugInfo_syms_getidx)(const DebugInfo *file, Int index, struct cv_symbol_addresses *addresses, UInt *size_bytes,
                                       const HChar **name, const HChar ***other_names, Bool *is_code, Bool *is_indirect, Bool *is_global);

#endif
