/* SPDX-License-Identifier: GPL-2.0-or-later
 * What happens in a sample: burst windows, the visit limit; sets.c has the sampled sets.
 *
 * Inline code takes a segment's references off cv_countdown and calls cv_visit when the result is negative. It stays negative while
 * a window is open, so outside windows a segment costs one subtraction and one test. Segments are atoms: a window opens with the
 * first segment that goes beyond the interval and closes with the first that begins beyond the sample. Masked references count as
 * references here, whether they happen or not. Where the path is recorded, a loop without references would keep a window open for
 * ever: a window also closes after many visits. */
#include "tracer.h"
#include "private.h"
#include "libvex_guest_amd64.h"

#define VISITS_A_REFERENCE 16 /* of a window, at most; programs have about one */

Long cv_countdown;
ULong cv_scratch[CV_MAX_WORDS + 1];

/* References executed so far, the current segment's included, are window_due - cv_countdown. */
static ULong window_due, window_end, windows, visits_left;
static Bool window_open, window_warming;

void cv_sampling_start(void) { cv_countdown = window_due = 0; }

/* A forked child's windows are its own. */
void cv_sampling_fork(void)
{
    if (!cv_options.streams)
        return;
    windows = 0;
    window_open = False;
    cv_sets_switch(True);
    if (cv_recording)
        cv_sampling_start();
}

ULong cv_windows(void) { return windows; }

static void close_window(ULong executed)
{
    window_open = False;
    cv_stream_control(CV_WIRE_WINDOW_CLOSE, executed);
}

void cv_sampling_stop(void)
{
    if (window_open)
        close_window(window_due - cv_countdown);
}

/* The interval that begins where a window is due: is a burst of it wanted? Without --stretch all are. */
static Bool interval_begins(void)
{
    if (!cv_options.stretch)
        return True;
    ULong number = window_due / cv_options.interval;
    cv_sets_switch(number % cv_counters_every(CV_EVERY_STRETCH) < (ULong)cv_options.stretch);
    cv_stream_control(CV_WIRE_INTERVAL, number);
    return number % cv_counters_every(CV_EVERY_BURST) == 0;
}

/* Is the segment that begins after `before` references and ends after `after` within a window? Opens and closes windows. */
static Bool step(ULong before, ULong after)
{
    if (window_open && (before >= window_end || !visits_left--)) {
        close_window(before);
        do
            window_due += cv_options.interval;
        while (window_due + cv_options.sample <= before);
        cv_countdown = window_due - after;
        if (cv_countdown >= 0)
            return False;
    }
    if (!window_open) {
        while (!interval_begins()) {
            window_due += cv_options.interval;
            cv_countdown = window_due - after;
            if (cv_countdown >= 0)
                return False;
        }
        window_open = True;
        windows++;
        window_end = window_due + cv_options.sample;
        visits_left = VISITS_A_REFERENCE * (ULong)cv_options.sample;
        window_warming = cv_options.warmup > 0;
        cv_stream_control(CV_WIRE_WINDOW_OPEN, before);
    }
    if (window_warming && before >= window_due + cv_options.warmup) {
        window_warming = False;
        cv_stream_control(CV_WIRE_WINDOW_WARM, before);
    }
    return True;
}

static void burst_visit(struct cv_segment_info *segment, HWord id)
{
    ULong after = window_due - cv_countdown;
    if (!step(after - segment->references, after))
        return;
    if (!segment->selected)
        return;
    if (cv_options.block_limit && segment->visits++ >= (ULong)cv_options.block_limit)
        return;
    *cv_next++ = CV_WIRE_VISIT | id;
    for (UInt w = 0; w < segment->words; w++)
        *cv_next++ = cv_scratch[w];
    if (cv_next >= cv_high_mark)
        cv_flush();
}

void VG_REGPARM(1) cv_visit(HWord id)
{
    struct cv_segment_info *segment = &cv_segment_infos[id];
    if (segment->sites)
        cv_sets_visit(segment);
    if (cv_options.interval && cv_countdown < 0)
        burst_visit(segment, id);
}

/* The same with the address words as arguments: cheaper in inline code than to store them. */
void cv_visit_1(HWord id, HWord a)
{
    cv_scratch[0] = a;
    cv_visit(id);
}

void cv_visit_2(HWord id, HWord a, HWord b)
{
    cv_scratch[1] = b;
    cv_visit_1(id, a);
}

void cv_visit_3(HWord id, HWord a, HWord b, HWord c)
{
    cv_scratch[2] = c;
    cv_visit_2(id, a, b);
}

void cv_visit_4(HWord id, HWord a, HWord b, HWord c, HWord d)
{
    cv_scratch[3] = d;
    cv_visit_3(id, a, b, c);
}

/* ---- visit limit where every address is recorded: translate the segment anew, without recording ---- */

static UInt *reached;
static UInt n_reached, reached_room;

void VG_REGPARM(2) cv_limit_reached(void *guest_state, HWord id)
{
    if (cv_segment_infos[id].stopped || !cv_recording)
        return;
    cv_segment_infos[id].stopped = True;
    reached = cv_with_room(reached, &reached_room, n_reached + 1, sizeof *reached);
    reached[n_reached++] = id;
    /* No translation can be thrown away while it runs. With this counter at zero the next block entry returns to the scheduler,
     * which calls cv_limit_discard: so the loop ends after at most one more visit. */
    ((VexGuestAMD64State *)guest_state)->host_EvC_COUNTER = 0;
}

void cv_limit_discard(void)
{
    if (!n_reached)
        return;
    VG_(ok_to_discard_translations) = True;
    for (UInt i = 0; i < n_reached; i++)
        VG_(discard_translations)(cv_segment_infos[reached[i]].address, 1, "convolver");
    VG_(ok_to_discard_translations) = False;
    n_reached = 0;
}
