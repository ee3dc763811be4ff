/* SPDX-License-Identifier: GPL-2.0-or-later
 * What is executed between MPI calls (cv_bursts.h): the interposer in the guest says where bursts of computation begin and end.
 *
 * sums[i] gains counter i at an end and loses it at a beginning: two passes over the counters a call, a few ten microseconds, and no
 * cost in the code between. Counters that come into being inside a burst began at zero, so they need no beginning. */
#include "tracer.h"
#include "../mpi/cv_bursts.h"

static ULong *sums;
static UInt n_sums, sums_room, taken;

static ULong add_counters(Bool end)
{
    UInt used = cv_counters_used();
    ULong total = 0;
    sums = cv_with_room(sums, &sums_room, used, sizeof *sums);
    n_sums = used;
    for (UInt i = 0; i < used;) {
        UInt n;
        const ULong *counter = cv_counters_span(i, &n);
        ULong *sum = sums + i;
        if (end)
            for (UInt k = 0; k < n; k++)
                total += sum[k] += counter[k];
        else
            for (UInt k = 0; k < n; k++)
                sum[k] -= counter[k];
        i += n;
    }
    return total;
}

static UInt take(ULong *words, UInt room)
{
    const ULong largest = (1ULL << CV_BURSTS_COUNT_BITS) - 1;
    UInt n = 0;
    while (n < room && taken < n_sums) {
        ULong part = sums[taken] < largest ? sums[taken] : largest;
        if (part == 0) {
            taken++;
            continue;
        }
        words[n++] = (ULong)taken << CV_BURSTS_COUNT_BITS | part;
        sums[taken] -= part;
    }
    if (n < room)
        taken = 0;
    return n;
}

/* Where a region switches recording off and on, counters are taken back: nothing can be attributed then. */
static Bool possible(void) { return !cv_options.start_at && !cv_options.stop_at; }

Bool cv_bursts_asked(UWord *arguments, UWord *answer)
{
    *answer = 0;
    switch (arguments[0]) {
    case CV_BURSTS_HERE: *answer = possible(); return True;
    case CV_BURSTS_BEGIN: add_counters(False); return True;
    case CV_BURSTS_END: *answer = add_counters(True); return True;
    case CV_BURSTS_TAKE: *answer = take((ULong *)arguments[1], arguments[2]); return True;
    case CV_BURSTS_EXECUTED: *answer = cv_executed(); return True;
    default: return False;
    }
}
