/* When samples are taken. The thread itself divides its run into intervals and begins its bursts, so that a busy machine, where the
 * controller waits, loses none. Bursts and stretches of set samples lie evenly over the run (one in so many intervals); where they cost
 * more than their share of the processor time, each second one of them is left out from then on, as the reader does with those that it has.
 */
#include "blob.h"

enum { BURSTS, SETS };

/* What samples of a kind may cost: one part in PART of the processor time, and so many nanoseconds beyond; these halve whenever samples
 * become fewer. Beside sets, which cost more, bursts may have more, too; and where there is nothing but bursts.
 */
#define PART 16
static const uint64_t beyond[2] = {2000000, 1000000000}, beyond_beside_sets = 300000000, beyond_natively = 6000000;

#define SHORTEST 50000 /* nanoseconds of an interval, whose end costs one or two thousand */
#define FIRST_BURSTS 8 /* find their code not yet translated */

uint64_t cv_time_now(void)
{
    uint64_t t[2] = {0, 0};
    cv_system(SYS_clock_gettime, 3, (uint64_t)t, 0, 0, 0, 0);
    return t[0] * 1000000000 + t[1] + 1;
}

static uint64_t below(struct cv_slot *slot, uint64_t most)
{
    if (!slot->random)
        slot->random = __builtin_ia32_rdtsc() | 1;
    slot->random ^= slot->random << 13;
    slot->random ^= slot->random >> 7;
    slot->random ^= slot->random << 17;
    return slot->random % most;
}

void cv_begin_heads(struct cv_slot *slot)
{
    struct cv_blob_pace *pace = &SHARED->pace;
    slot->heads_behind = slot->in_bursts = 0;
    slot->since = cv_time_now();
    slot->heads = slot->interval_heads = !pace->heads || !SHARED->inside ? CV_HEADS : pace->begun ? 1 + below(slot, pace->heads) : 1;
}

static void add(uint64_t *to, uint64_t value) { __atomic_fetch_add(to, value, __ATOMIC_RELAXED); }

static uint64_t every(int what)
{
    const struct cv_blob_pace *pace = &SHARED->pace;
    return pace->every[what] > pace->own[what] ? pace->every[what] : pace->own[what];
}

/* Leaves each second sample out from now on, where those since the last time cost more than they may. */
static void weigh(int what, uint64_t spent, uint64_t used)
{
    struct cv_blob_pace *pace = &SHARED->pace;
    const uint64_t of_bursts = SHARED->sets ? beyond_beside_sets : SHARED->bursts_only ? beyond_natively : beyond[BURSTS];
    const uint64_t more = what == BURSTS ? of_bursts : beyond[SETS];
    if (!pace->stretch || spent < used / PART + (more >> pace->halved[what]))
        return;
    pace->own[what] = 2 * every(what);
    pace->halved[what] += pace->halved[what] < 63;
    pace->spent[what] = pace->read[what] = pace->used[what] = 0;
    if (what == SETS) {
        pace->filtered[0] = pace->time[1];
        pace->filtered[1] = pace->intervals[1];
    }
}

/* What the samples of sets cost: as much as their intervals took longer than others. */
static uint64_t spent_on_sets(void)
{
    const struct cv_blob_pace *pace = &SHARED->pace;
    const uint64_t took = pace->time[1] - pace->filtered[0], n = pace->intervals[1] - pace->filtered[1];
    const uint64_t counting = pace->intervals[0] ? n * (pace->time[0] / pace->intervals[0]) : took / 4;
    return pace->read[SETS] + (took > counting ? took - counting : 0);
}

static void plan_sets(uint64_t number)
{
    const uint64_t stretch = SHARED->pace.stretch;
    if (!SHARED->sets || !stretch)
        return;
    if (number && number % every(SETS) == 0) {
        cv_lock();
        weigh(SETS, spent_on_sets(), SHARED->pace.used[SETS]);
        cv_unlock();
    }
    const uint64_t mode = number % every(SETS) < stretch ? CV_FILTERING : CV_COUNTING;
    if (__atomic_exchange_n(&SHARED->mode, mode, __ATOMIC_ACQ_REL) == mode)
        return;
    for (uint64_t i = 0; i < SHARED->slots; i++)
        cv_want(cv_slot_at(i), CV_WANT_MODE);
}

/* Returns by how much the next interval is longer than others: not all have many references. */
static uint64_t account(struct cv_slot *slot)
{
    struct cv_blob_pace *pace = &SHARED->pace;
    const uint64_t now = cv_time_now(), all = now - slot->since, bursts = slot->in_bursts;
    const int filtering = slot->mode == CV_FILTERING;
    slot->since = now;
    slot->in_bursts = 0;
    add(&pace->time[filtering], all > bursts ? all - bursts : 0);
    add(&pace->intervals[filtering], 1);
    add(&pace->used[BURSTS], all);
    add(&pace->used[SETS], all);
    if (all < SHORTEST && slot->longer < 20)
        slot->longer++;
    else if (all > 4 * SHORTEST && slot->longer)
        slot->longer--;
    return slot->longer;
}

void cv_leave_heads(struct cv_slot *slot)
{
    const uint64_t left = (slot->heads & CV_HEADS) + slot->heads_behind;
    if (slot->interval_heads != CV_HEADS && slot->interval_heads > left)
        add(&SHARED->pace.heads_ended, slot->interval_heads - left);
    slot->heads = slot->interval_heads = CV_HEADS;
    slot->heads_behind = 0;
}

int cv_heads_ended(struct cv_slot *slot)
{
    struct cv_blob_pace *pace = &SHARED->pace;
    if (!SHARED->inside) {
        cv_leave_heads(slot);
        return 0;
    }
    if (slot->heads_behind) {
        slot->heads = slot->heads_behind;
        slot->heads_behind = 0;
        return 1;
    }
    const uint64_t heads = pace->heads << account(slot), number = __atomic_fetch_add(&pace->begun, 1, __ATOMIC_ACQ_REL);
    add(&pace->heads_ended, slot->interval_heads);
    SHARED->interval = number;
    slot->heads = slot->interval_heads = heads;
    if (SHARED->burst_references && number % every(BURSTS) == 0) {
        slot->heads = number ? 1 + below(slot, heads) : 1; /* the first one at once: the program may be short */
        slot->heads_behind = heads + 1 - slot->heads;
    }
    plan_sets(number);
    return 0;
}

void cv_burst_begins(struct cv_slot *slot) { slot->burst_since = cv_time_now(); }

void cv_burst_ends(struct cv_slot *slot)
{
    struct cv_blob_pace *pace = &SHARED->pace;
    const uint64_t took = cv_time_now() - slot->burst_since;
    slot->in_bursts += took;
    pace->bursts++;
    if (pace->bursts <= FIRST_BURSTS)
        return;
    cv_lock();
    pace->spent[BURSTS] += took;
    weigh(BURSTS, pace->spent[BURSTS] + pace->read[BURSTS], pace->used[BURSTS]);
    cv_unlock();
}
