/* The log of threads: what each executes between its events (../include/cv_threads.h), for the controller to write.
 *
 * Instructions are exact for every interval. A thread's counters are compared with their last snapshot when it has run for some time (a
 * settlement), so that this takes a few per cent of the time, however frequent events are. What it ran between two settlements is a period:
 * all its records get one class. Now and then an interval, however short, has a period of its own, which says what its kind executes. The
 * controller reads records in their order, as far as they have one. */
#include "blob.h"

#define INSTRUCTIONS_A_COUNTER 16 /* of a period, at least: to compare one takes the time of several */
#define SETTLED_APART 8           /* of so many settlements one is followed by such an interval */
#define MOST_SPLIT 16
#define LONGEST_PERIOD (CV_MOST_PERIOD - 16 * MOST_SPLIT) /* what one look into the engine may add lies beyond */
#define SPARE_RECORDS (CV_MOST_RECORDS / 4)
#define MIXED (UINT64_C(1) << 63)
#define RUSAGE_THREAD 1

#define RECORDS ((struct cv_thread_record *)(CV_SHARED_BASE + CV_OFF_RECORDS))
#define CLASS_KEYS ((uint64_t *)(CV_SHARED_BASE + CV_OFF_CLASS_KEYS))
#define CLASS_SUMS(number) ((uint64_t *)(CV_SHARED_BASE + CV_OFF_CLASSES) + (uint64_t)(number) * CV_MOST_EXITS)

/* A thread's log lies in its slot, and so does the stack of what runs for it in the engine. */
static struct cv_slot *slot_of(const void *within) { return (struct cv_slot *)((uint64_t)within & ~(CV_SLOT_BYTES - 1)); }

static void lock_period(struct cv_slot *slot)
{
    while (__atomic_exchange_n(&slot->period.lock, 1, __ATOMIC_ACQUIRE))
        cv_system(SYS_yield, 0, 0, 0, 0, 0, 0);
}

static void unlock_period(struct cv_slot *slot) { __atomic_store_n(&slot->period.lock, 0, __ATOMIC_RELEASE); }

/* ---- places in the code ---- */

struct place_number {
    uint64_t address, number;
};

/* 0: too many. */
uint32_t cv_threads_place(uint64_t address)
{
    struct place_number *table = (struct place_number *)(CV_SHARED_BASE + CV_OFF_THREAD_PLACES);
    uint64_t i = address * UINT64_C(0x9e3779b97f4a7c15) >> 50;
    while (table[i].address && table[i].address != address)
        i = (i + 1) % CV_MOST_THREAD_PLACES;
    if (!table[i].address && SHARED->thread_places < CV_MOST_THREAD_PLACES / 2) {
        table[i].number = ++SHARED->thread_places;
        __atomic_store_n(&table[i].address, address, __ATOMIC_RELEASE);
    }
    return (uint32_t)table[i].number;
}

void cv_threads_name_object(uint64_t object) { (void)object; } /* the controller does */

/* ---- records; with the lock held ---- */

int cv_threads_active(void) { return SHARED->following != 0; }

void cv_threads_attribute(struct cv_thread *thread)
{
    struct cv_slot *slot = slot_of(thread);
    struct cv_blob_period *period = &slot->period;
    const uint64_t total = __atomic_load_n(&slot->total, __ATOMIC_RELAXED), n = total - period->attributed;
    period->attributed = total;
    if (!n)
        return;
    *(thread->in_runtime ? &thread->inside : &thread->work) += n;
    period->all += n;
    if (thread->began == period->key) {
        period->most += n;
    } else if (n > period->most) {
        period->most = n;
        period->key = thread->began;
    }
}

static void add(struct cv_slot *slot, struct cv_thread_record record)
{
    struct cv_blob_period *period = &slot->period;
    uint64_t *list = (uint64_t *)(slot->self + CV_SLOT_PERIOD) + period->half * CV_MOST_PERIOD;
    cv_assert(SHARED->lock); /* one writer at a time */
    cv_assert(SHARED->records - SHARED->records_read < CV_MOST_RECORDS && period->records < CV_MOST_PERIOD);
    memcpy(&RECORDS[SHARED->records % CV_MOST_RECORDS], &record, sizeof record);
    list[period->records++] = SHARED->records;
    __atomic_store_n(&SHARED->records, SHARED->records + 1, __ATOMIC_RELEASE);
}

void cv_threads_event(struct cv_thread *thread, enum cv_thread_event kind, uint64_t object, uint64_t argument, uint32_t place)
{
    struct cv_slot *slot = slot_of(thread);
    if (!SHARED->following || !SHARED->follows)
        return;
    if (SHARED->records >= SHARED->follows) { /* what runs from now on is the rest */
        SHARED->follows = 0;
        return;
    }
    for (int i = 0; i < MOST_SPLIT && thread->inside > UINT32_MAX; i++, thread->inside -= UINT32_MAX) /* it spins for long */
        add(slot, (struct cv_thread_record){.thread = thread->serial, .work_class = CV_NO_CLASS, .inside = UINT32_MAX});
    add(slot, (struct cv_thread_record){.thread = thread->serial,
                                        .kind = (uint8_t)kind,
                                        .work_class = CV_NO_CLASS,
                                        .object = object,
                                        .argument = argument,
                                        .instructions = thread->work,
                                        .inside = (uint32_t)thread->inside,
                                        .calls = thread->calls,
                                        .place = place});
    thread->work = thread->inside = thread->calls = 0;
    thread->began = (uint64_t)kind << 40 | place;
    if (slot->period.apart && kind != CV_THREAD_PROGRESS)
        slot->period.ends = --slot->period.apart < 2;
}

/* ---- classes ---- */

static uint32_t class_of(uint64_t key)
{
    for (uint32_t i = 0; i < SHARED->classes; i++)
        if (CLASS_KEYS[i] == key)
            return i;
    if (SHARED->classes == CV_MOST_CLASSES - 1) /* the last one is the controller's */
        return 0;
    CLASS_KEYS[SHARED->classes] = key;
    return (uint32_t)SHARED->classes++;
}

static void add_counters(const struct cv_slot *slot, uint32_t number)
{
    const uint64_t *counter = (const uint64_t *)(slot->self + CV_SLOT_COUNTERS), n = SHARED->exits;
    uint64_t *last = (uint64_t *)(slot->self + CV_SLOT_SNAPSHOT), *sum = CLASS_SUMS(number);
    for (uint64_t i = 1; i < n; i++) {
        const uint64_t now = counter[i], more = now - last[i];
        if (!more)
            continue;
        __atomic_fetch_add(&sum[i], more, __ATOMIC_RELAXED);
        last[i] = now;
    }
}

static uint32_t faults_since(struct cv_slot *slot)
{
    uint64_t usage[18] = {0}, before = slot->period.faults;
    cv_system(SYS_getrusage, RUSAGE_THREAD, (uint64_t)usage, 0, 0, 0, 0);
    slot->period.faults = usage[8];
    return usage[8] > before ? (uint32_t)(usage[8] - before) : 0;
}

/* Ends a thread's period, of this thread or another one. Without the lock. */
static void settle(struct cv_slot *slot, int own)
{
    struct cv_blob_period *period = &slot->period;
    lock_period(slot);
    cv_lock();
    struct cv_thread *thread = &cv_followed_by(slot)->thread;
    cv_threads_attribute(thread);
    const uint64_t began = thread->began;
    if (thread->work || thread->inside)
        cv_threads_event(thread, CV_THREAD_PROGRESS, 0, 0, 0);
    thread->began = began;
    const uint64_t n = period->records, *list = (const uint64_t *)(slot->self + CV_SLOT_PERIOD) + period->half * CV_MOST_PERIOD;
    const uint32_t number = n ? class_of(period->key | (period->most < period->all - period->all / 8 ? MIXED : 0)) : 0;
    period->half ^= 1;
    period->records = period->most = period->all = 0;
    period->settled = period->attributed;
    cv_unlock();
    if (n)
        add_counters(slot, number);
    if (n && own)
        RECORDS[list[n - 1] % CV_MOST_RECORDS].faults = faults_since(slot);
    for (uint64_t i = 0; i < n; i++)
        __atomic_store_n(&RECORDS[list[i] % CV_MOST_RECORDS].work_class, number, __ATOMIC_RELEASE);
    unlock_period(slot);
}

void cv_log_settle(struct cv_slot *slot, int always)
{
    struct cv_blob_period *period = &slot->period;
    const int due = period->records >= LONGEST_PERIOD || slot->total - period->settled >= INSTRUCTIONS_A_COUNTER * SHARED->exits;
    if (!SHARED->following || !(always || due || period->ends))
        return;
    settle(slot, 1);
    period->ends = 0;
    if (due && !period->apart && period->settlements++ % SETTLED_APART == 0)
        period->apart = 2 + (slot->total * UINT64_C(0x9E3779B97F4A7C15) >> 62); /* by chance: kinds take turns */
}

void cv_log_begin(struct cv_slot *first)
{
    SHARED->following = 1;
    cv_followed_by(first)->thread.work = 1; /* what ran before has one record */
    cv_followed_by(first)->thread.inside = 0;
    first->total = first->period.attributed = first->period.settled = 0;
    cv_anew(0);
}

int cv_log_room(struct cv_slot *slot)
{
    const uint64_t moment[2] = {0, 50000};
    while (SHARED->records - __atomic_load_n(&SHARED->records_read, __ATOMIC_ACQUIRE) > CV_MOST_RECORDS - SPARE_RECORDS) {
        if (cv_system(SYS_kill, SHARED->controller, 0, 0, 0, 0, 0) == -3)
            return 0;
        for (uint64_t i = 0; i < SHARED->slots; i++) /* or the controller would wait for threads that sleep */
            if (cv_slot_at(i)->period.records && !cv_slot_at(i)->guest)
                settle(cv_slot_at(i), cv_slot_at(i) == slot);
        cv_system(SYS_nanosleep, (uint64_t)moment, 0, 0, 0, 0, 0);
    }
    return 1;
}
