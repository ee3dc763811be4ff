/* Writes what threads did (../include/cv_threads.h, blob_log.c) beside the counters: records in their order, names of places and of locks,
 * and in the end what each class of work executed. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "engine_wire.h"

#define NAME_BYTES 256

static FILE *file;
static uint64_t named; /* places */

static const void *at(uint64_t offset) { return target->memory + offset; }

static void put_record(const struct cv_thread_record *record) { fwrite(record, sizeof *record, 1, file); }

/* ---- names ---- */

static void put_name(uint64_t object, uint32_t place, const char *name)
{
    char padded[NAME_BYTES] = "";
    const size_t length = strnlen(name, sizeof padded);
    memcpy(padded, name, length);
    put_record(&(struct cv_thread_record){.kind = CV_THREADS_NAME, .object = object, .argument = length, .place = place});
    fwrite(padded, 1, (length + 7) / 8 * 8, file);
}

/* Names are looked for in the end, of all places and locks of a file at once: a large file has very many symbols. */
static struct cv_name_wanted wanted[CV_MOST_THREAD_PLACES];
static size_t n_wanted;

static void name_later(uint64_t address, const struct cv_blob_mapping *mapping, uint32_t place)
{
    if (n_wanted < CV_MOST_THREAD_PLACES)
        wanted[n_wanted++] = (struct cv_name_wanted){address, mapping, place, NULL};
}

static void name_places(void)
{
    const struct {
        uint64_t address, number;
    } *table = at(CV_OFF_THREAD_PLACES);
    const uint64_t all = target->shared->thread_places;
    for (uint64_t i = 0; named < all && i < CV_MOST_THREAD_PLACES; i++) {
        const uint64_t address = table[i].address, number = table[i].number;
        const struct cv_blob_mapping *mapping = address && number > named && number <= all ? cv_mapping_at(target, address) : NULL;
        if (mapping)
            name_later(address, mapping, (uint32_t)number);
        else if (address && number > named && number <= all)
            put_name(0, (uint32_t)number, "code of no file");
    }
    named = all;
}

/* A lock may be a variable of an object file. */
static void name_lock(uint64_t object)
{
    static uint64_t known_locks[CV_MOST_THREAD_PLACES], n;
    uint64_t i = object * UINT64_C(0x9e3779b97f4a7c15) >> 50;
    while (known_locks[i] && known_locks[i] != object)
        i = (i + 1) % CV_MOST_THREAD_PLACES;
    if (known_locks[i] || n >= CV_MOST_THREAD_PLACES / 2)
        return;
    known_locks[i] = object;
    n++;
    name_later(object, NULL, 0);
}

static void put_names(void)
{
    cv_find_names(target, wanted, n_wanted);
    for (size_t i = 0; i < n_wanted; i++)
        if (wanted[i].mapping)
            put_name(0, wanted[i].place, wanted[i].name ? wanted[i].name : "code of no file");
        else if (wanted[i].name)
            put_name(wanted[i].address, 0, wanted[i].name);
}

/* ---- records ---- */

/* Up to the first one that has no class yet; `last`: those that never had one get this. */
static void write_records(uint32_t last)
{
    struct cv_shared *shared = target->shared;
    struct cv_thread_record *records = (struct cv_thread_record *)(uintptr_t)at(CV_OFF_RECORDS);
    const uint64_t all = __atomic_load_n(&shared->records, __ATOMIC_ACQUIRE);
    uint64_t number = shared->records_read;
    if (number < all)
        name_places();
    for (; number < all; number++) {
        struct cv_thread_record *record = &records[number % CV_MOST_RECORDS];
        if (__atomic_load_n(&record->work_class, __ATOMIC_ACQUIRE) == CV_NO_CLASS) {
            if (last == CV_NO_CLASS)
                break;
            record->work_class = last;
        }
        if (record->kind == CV_THREAD_LOCK)
            name_lock(record->object);
        put_record(record);
        __atomic_store_n(&shared->records_read, number + 1, __ATOMIC_RELEASE);
    }
}

static int is_open(void)
{
    char path[4200];
    static int tried;
    if (!file && !tried && counters && target->shared->following) {
        tried = 1;
        snprintf(path, sizeof path, "%s.threads", options->counters);
        file = fopen(path, "we");
        if (!file)
            cv_say("%s could not be written", path);
    }
    return file != NULL;
}

void cv_threads_write(void)
{
    if (is_open())
        write_records(CV_NO_CLASS);
    else /* or the program would wait */
        target->shared->records_read = target->shared->records;
}

/* ---- the end ---- */

/* What a thread ran since its last period, which it did not live to settle. */
static void settle_rest(const struct cv_slot *slot, uint32_t number)
{
    const uint8_t *base = (const uint8_t *)slot;
    const uint64_t *counter = (const uint64_t *)(base + CV_SLOT_COUNTERS), *last = (const uint64_t *)(base + CV_SLOT_SNAPSHOT);
    const struct cv_thread *thread = &((const struct cv_followed *)(base + CV_SLOT_FOLLOWED))->thread;
    uint64_t *sums = (uint64_t *)(uintptr_t)at(CV_OFF_CLASSES) + (uint64_t)number * CV_MOST_EXITS;
    const uint64_t more = slot->total - slot->period.attributed;
    for (uint64_t i = 1; i < target->shared->exits; i++)
        sums[i] += counter[i] - last[i];
    struct cv_thread_record record = {.thread = thread->serial, .kind = CV_THREAD_PROGRESS, .work_class = number};
    const int waits = thread->in_runtime && target->shared->follows;
    uint64_t inside = thread->inside + (waits ? more : 0);
    for (record.inside = UINT32_MAX; inside > UINT32_MAX; inside -= UINT32_MAX)
        put_record(&record);
    record.inside = (uint32_t)inside;
    record.instructions = thread->work + (waits ? 0 : more);
    record.calls = thread->calls;
    if (record.instructions || record.inside)
        put_record(&record);
}

static void put_class(uint32_t number)
{
    const uint64_t *pairs, n = cv_wire_pairs((const uint64_t *)at(CV_OFF_CLASSES) + (uint64_t)number * CV_MOST_EXITS, &pairs);
    put_record(&(struct cv_thread_record){.kind = CV_THREADS_CLASS, .object = number, .argument = n});
    fwrite(pairs, 16, n, file);
}

void cv_threads_end(void)
{
    if (!is_open())
        return;
    const uint32_t rest = (uint32_t)target->shared->classes++;
    write_records(rest);
    for (uint64_t i = 0; i < target->shared->slots; i++)
        if (!cv_slot_of(target, i)->guest)
            settle_rest(cv_slot_of(target, i), rest);
    for (uint32_t number = 0; number <= rest; number++)
        put_class(number);
    put_names();
    if (fclose(file))
        cv_say("the events of threads could not be written; free some space or choose another folder");
    file = NULL;
}
