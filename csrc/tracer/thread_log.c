/* SPDX-License-Identifier: GPL-2.0-or-later
 * What each thread executes between its events, written beside the counter file (../include/cv_threads.h).
 *
 * Instructions are exact for every interval. Block counters are compared with their last snapshot when some of the program has run since
 * (a settlement), so that this takes a few per cent of the time, however frequent events are. What ran between two settlements is a period:
 * all its records get one class. Now and then an interval, however short, has a period of its own, which says what its kind executes. */
#include "tracer.h"
#include "private.h"
#include "../common/cv_assert.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_vkiscnums.h"

#define ROOM 4096
#define LONGEST_PERIOD 2048
#define INSTRUCTIONS_A_COUNTER 4 /* of a period, at least: comparing a counter takes the time of a part of a traced instruction */
#define SETTLED_APART 8          /* of so many settlements one is followed by such an interval */
#define MOST_SUMS (1UL << 25)    /* counters of all classes together; then further classes are one */
#define PLACES (1U << 14)
#define MIXED (1ULL << 63)

struct class {
    ULong key;
    ULong *sums;
    UInt room;
};

static Int file = -1;
static struct cv_thread_record buffer[ROOM];
static UInt filled, period; /* where the records of the period begin */
static struct class *classes;
static UInt n_classes, classes_room;
static ULong sums_used;
static ULong *snapshot;
static UInt snapshot_room;
static ULong settled, attributed; /* cv_executed then */
static ULong period_key, period_most, period_total;
static UInt settlements, apart; /* events until the one that ends an interval of its own; 0: there is none to come */
static Long faults_seen;

int cv_threads_active(void) { return file >= 0; }

static void put(const void *data, SizeT bytes)
{
    if (VG_(write)(file, data, bytes) != (Int)bytes)
        cv_fatal("no space for the events of threads; free some or choose another folder");
}

static void write_out(UInt n)
{
    if (n)
        put(buffer, n * sizeof buffer[0]);
    VG_(memmove)(buffer, buffer + n, (filled - n) * sizeof buffer[0]);
    filled -= n;
    period -= n;
}

static Long faults_so_far(void)
{
    Long usage[18];
    VG_(do_syscall)(__NR_getrusage, 0, (UWord)usage, 0, 0, 0, 0, 0, 0);
    return usage[8];
}

/* ---- classes ---- */

static UInt class_of(ULong key)
{
    for (UInt i = 0; i < n_classes; i++)
        if (classes[i].key == key)
            return i;
    if (n_classes && sums_used >= MOST_SUMS)
        return 0;
    classes = cv_with_room(classes, &classes_room, n_classes + 1, sizeof *classes);
    classes[n_classes] = (struct class){.key = key};
    return n_classes++;
}

static void add_counters(struct class *class)
{
    UInt used = cv_counters_used();
    snapshot = cv_with_room(snapshot, &snapshot_room, used, sizeof *snapshot);
    sums_used -= class->room;
    class->sums = cv_with_room(class->sums, &class->room, used, sizeof *class->sums);
    sums_used += class->room;
    for (UInt i = 0, n; i < used; i += n) {
        const ULong *counter = cv_counters_span(i, &n);
        ULong *last = snapshot + i, *sum = class->sums + i;
        for (UInt k = 0; k < n; k++) {
            sum[k] += counter[k] - last[k];
            last[k] = counter[k];
        }
    }
}

/* ---- records ---- */

void cv_end_at(const char *message) { VG_(tool_panic)(message); }

/* What ran since the last call is the running thread's. */
void cv_threads_attribute(struct cv_thread *thread)
{
    ULong n = cv_executed() - attributed;
    attributed = cv_executed();
    if (!n)
        return;
    *(thread->in_runtime ? &thread->inside : &thread->work) += n;
    period_total += n;
    if (thread->began == period_key) {
        period_most += n;
    } else if (n > period_most) {
        period_most = n;
        period_key = thread->began;
    }
}

static void add_record(struct cv_thread *thread, enum cv_thread_event kind, ULong object, ULong argument, UInt place)
{
    buffer[filled++] = (struct cv_thread_record){.thread = thread->serial,
                                                 .kind = kind,
                                                 .object = object,
                                                 .argument = argument,
                                                 .instructions = thread->work,
                                                 .inside = thread->inside,
                                                 .calls = thread->calls,
                                                 .place = place};
    thread->work = thread->inside = 0;
    thread->calls = 0;
}

static void settle(void)
{
    cv_threads_each(add_record);
    Long faults = faults_so_far();
    if (filled > period) {
        UInt number = class_of(period_key | (period_most < period_total - period_total / 8 ? MIXED : 0));
        add_counters(&classes[number]);
        for (UInt i = period; i < filled; i++)
            buffer[i].work_class = number;
        buffer[filled - 1].faults = faults > faults_seen ? faults - faults_seen : 0;
    }
    faults_seen = faults;
    settled = cv_executed();
    period = filled;
    period_most = period_total = 0;
    if (filled > ROOM / 4)
        write_out(filled);
}

static void settle_where_due(void)
{
    if (cv_executed() - settled < INSTRUCTIONS_A_COUNTER * (ULong)cv_counters_used() && filled - period < LONGEST_PERIOD)
        return;
    settle();
    if (!apart && settlements++ % SETTLED_APART == 0)
        apart = 2 + (cv_executed() * 0x9E3779B97F4A7C15ULL >> 62); /* by chance: kinds take turns */
}

void cv_threads_event(struct cv_thread *thread, enum cv_thread_event kind, uint64_t object, uint64_t argument, uint32_t place)
{
    if (file < 0)
        return;
    add_record(thread, kind, object, argument, place);
    if (!apart)
        settle_where_due();
    else if (--apart < 2)
        settle();
    thread->began = (ULong)kind << 40 | place;
}

void cv_threads_switched(struct cv_thread *from)
{
    cv_threads_attribute(from);
    settle_where_due();
}

/* ---- names ---- */

static void write_name(ULong object, UInt place, const HChar *name)
{
    ULong padded[32] = {0};
    SizeT length = VG_(strlen)(name);
    if (length > sizeof padded)
        length = sizeof padded;
    VG_(memcpy)(padded, name, length);
    write_out(filled); /* names have no class: records of the period would get theirs too late */
    struct cv_thread_record head = {.kind = CV_THREADS_NAME, .object = object, .argument = length, .place = place};
    put(&head, sizeof head);
    put(padded, (length + 7) / 8 * 8);
}

static Bool fresh(ULong *table, ULong key, UInt *slot)
{
    for (UInt i = (key * 0x9E3779B97F4A7C15ULL) >> 50;; i = (i + 1) % PLACES) {
        *slot = i;
        if (table[i] == key || !key)
            return False;
        if (!table[i]) {
            table[i] = key;
            return True;
        }
    }
}

#define NAME_BYTES 256

/* The name of the function at an address, else its object file and place there, as in tables of blocks. */
static const HChar *name_of(Addr address)
{
    static HChar made[NAME_BYTES];
    const HChar *name;
    if (VG_(get_fnname)(VG_(current_DiEpoch)(), address, &name))
        return name;
    const DebugInfo *library = VG_(find_DebugInfo)(VG_(current_DiEpoch)(), address);
    if (!library)
        return "code of no file";
    const HChar *path = VG_(DebugInfo_get_filename)(library), *last = VG_(strrchr)(path, '/');
    VG_(snprintf)(made, sizeof made, "%s+%#lx", last ? last + 1 : path, address - (Addr)VG_(DebugInfo_get_text_bias)(library));
    return made;
}

/* The number of a place in the code, its function's name written when it is new. 0: too many. */
uint32_t cv_threads_place(uint64_t address)
{
    static ULong table[PLACES];
    static UInt numbers[PLACES], used;
    UInt slot;
    if (used >= PLACES / 2 || file < 0)
        return 0;
    if (fresh(table, address, &slot)) {
        numbers[slot] = ++used;
        settle();
        write_name(0, used, name_of(address));
    }
    return numbers[slot];
}

/* Writes the name of a lock that is a variable of an object file. */
void cv_threads_name_object(uint64_t object)
{
    static ULong table[PLACES];
    static UInt used;
    const HChar *name;
    PtrdiffT offset;
    UInt slot;
    if (used >= PLACES / 2 || file < 0 || !fresh(table, object, &slot))
        return;
    used++;
    if (VG_(get_datasym_and_offset)(VG_(current_DiEpoch)(), object, &name, &offset)) {
        settle();
        write_name(object, 0, name);
    }
}

/* ---- begin and end ---- */

/* The second thread starts. What ran before is one record, which has 1 instruction: nobody counted them. */
void cv_threads_open(struct cv_thread *first)
{
    HChar path[4096 + 16];
    if (file >= 0 || !cv_counters_path())
        return;
    VG_(snprintf)(path, sizeof path, "%s.threads", cv_counters_path());
    SysRes opened = VG_(open)(path, VKI_O_WRONLY | VKI_O_CREAT | VKI_O_TRUNC, 0600);
    if (sr_isError(opened))
        return;
    file = VG_(safe_fd)(sr_Res(opened));
    cv_options.total = True;
    settled = attributed = cv_executed();
    first->work = 1;
    first->inside = 0;
    settle();
}

void cv_threads_end(struct cv_thread *current)
{
    if (file < 0)
        return;
    cv_threads_attribute(current);
    settle();
    write_out(filled);
    for (UInt i = 0; i < n_classes; i++) {
        struct cv_thread_record head = {.kind = CV_THREADS_CLASS, .object = i};
        for (UInt k = 0; k < classes[i].room; k++)
            head.argument += classes[i].sums[k] != 0;
        put(&head, sizeof head);
        for (UInt k = 0; k < classes[i].room; k++)
            if (classes[i].sums[k]) {
                ULong pair[2] = {k, classes[i].sums[k]};
                put(pair, sizeof pair);
            }
    }
}

/* In a forked child, which has one thread and counters at 0. */
void cv_threads_log_fork(void)
{
    if (file >= 0)
        VG_(close)(file);
    file = -1;
    filled = period = 0;
    for (UInt i = 0; i < n_classes; i++)
        VG_(free)(classes[i].sums);
    n_classes = 0;
    sums_used = 0;
    if (snapshot)
        VG_(memset)(snapshot, 0, snapshot_room * sizeof *snapshot);
}
