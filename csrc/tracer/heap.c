/* SPDX-License-Identifier: GPL-2.0-or-later
 * A heap that can grow. Valgrind lets `brk` give a program 8 MiB; malloc then takes mappings instead, which it does not give back, so a
 * program that frees and takes large memory has fewer page faults, and other addresses, than natively. So the heap begins elsewhere. */
#include "tracer.h"
#include "private.h"

#define HEAP_ROOM (1ull << 34) /* of the 64 GiB that older versions of Valgrind give a program */

void cv_heap_make_room(void)
{
    Bool found;
    const Addr start = VG_(am_get_advisory_client_simple)(0, HEAP_ROOM, &found);
    if (!found || !VG_(am_create_reservation)(start + VKI_PAGE_SIZE, HEAP_ROOM - VKI_PAGE_SIZE, SmLower, VKI_PAGE_SIZE))
        return;
    if (sr_isError(VG_(am_mmap_anon_fixed_client)(start, VKI_PAGE_SIZE, VKI_PROT_READ | VKI_PROT_WRITE | VKI_PROT_EXEC)))
        return;
    VG_(brk_base) = VG_(brk_limit) = start;
}
