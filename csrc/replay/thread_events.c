/* Packing of the events of threads: one stream a thread, objects by number, and what follows from the order of the trace. */
#include "thread_events.h"

#include <stdlib.h>
#include <string.h>

/* Objects of different uses at one address are distinguished. */
#define TEAM (UINT64_C(1) << 63) /* of a barrier */

enum space { LOCKS = 1, CONDITIONS, BARRIERS, SEMAPHORES, FUTEXES, TEAMS, POOLS, STARTS, ENDS, TASKS };

static uint64_t mix(uint64_t key, enum space space) { return (key ^ (uint64_t)space << 56) * UINT64_C(0x9E3779B97F4A7C15) + space; }

static bool grow_objects(cv_threads *t)
{
    if (t->n_objects < t->objects_room)
        return true;
    uint32_t room = t->objects_room ? 2 * t->objects_room : 256, size = 4 * room;
    struct sync_object *objects = realloc(t->objects, room * sizeof *objects);
    uint32_t *table = objects ? malloc(size * sizeof *table) : NULL;
    if (objects)
        t->objects = objects;
    if (!table)
        return false;
    free(t->table);
    t->table = table;
    t->table_size = size;
    t->objects_room = room;
    memset(table, 0xff, size * sizeof *table);
    for (uint32_t i = 0; i < t->n_objects; i++) {
        uint64_t at = objects[i].key >> 20;
        while (table[at % size] != NOBODY)
            at++;
        table[at % size] = i;
    }
    return true;
}

/* Returns NOBODY where memory is short. */
static uint32_t object_of(cv_threads *t, uint64_t object, enum space space)
{
    uint64_t key = mix(object, space);
    if (!grow_objects(t))
        return NOBODY;
    uint64_t at = key >> 20;
    for (; t->table[at % t->table_size] != NOBODY; at++)
        if (t->objects[t->table[at % t->table_size]].key == key)
            return t->table[at % t->table_size];
    t->table[at % t->table_size] = t->n_objects;
    t->objects[t->n_objects] = (struct sync_object){.key = key, .barrier = NOBODY, .sums = {.object = object}};
    return t->n_objects++;
}

static enum space space_of(const struct cv_thread_record *r)
{
    switch (r->kind) {
    case CV_THREAD_LOCK:
    case CV_THREAD_UNLOCK: return LOCKS;
    case CV_THREAD_WAIT:
    case CV_THREAD_WOKEN:
    case CV_THREAD_SIGNAL: return CONDITIONS;
    case CV_THREAD_BARRIER: return BARRIERS;
    case CV_THREAD_ACQUIRE:
    case CV_THREAD_RELEASE: return SEMAPHORES;
    case CV_THREAD_SLEPT:
    case CV_THREAD_WAKE: return FUTEXES;
    case CV_THREAD_FORK:
    case CV_THREAD_BODY:
    case CV_THREAD_BODY_END:
    case CV_THREAD_JOINED: return TEAMS;
    case CV_THREAD_CREATE: return STARTS;
    case CV_THREAD_JOIN: return ENDS;
    default: return 0;
    }
}

/* What a thread has met so far, in the pass over the records. */
struct met {
    uint32_t waits;  /* record of the last WAIT */
    uint32_t forked; /* object of the team that it began last */
    uint64_t loop;   /* loops of the team so far */
    uint32_t made;   /* pool's threads since the last fork */
    uint32_t team;   /* object of the team in whose region it is, or NOBODY */
};

static struct packed *next_packed(cv_threads *t, uint32_t record)
{
    struct stream *stream = &t->streams[t->stream_of[record]];
    return &t->packed[stream->first + stream->filled++];
}

static void pack_team(cv_threads *t, const struct cv_thread_record *r, struct met *met, uint32_t object)
{
    if (r->kind == CV_THREAD_FORK)
        met->forked = object;
    if (r->kind == CV_THREAD_BODY) {
        t->objects[object].parties++;
        met->loop = 0;
        met->team = object;
    }
    if (r->kind == CV_THREAD_BODY_END)
        met->team = NOBODY;
}

static void pack_start(cv_threads *t, const struct cv_thread_record *r, struct met *met)
{
    if (r->argument & CV_THREAD_POOLED && r->object < t->n_threads && met[r->object].forked != NOBODY)
        t->objects[met[r->object].forked].made++;
}

/* Signals and waits: the wait ends with the last signal that was given while it lasted. */
static void pack_condition(struct packed *p, uint32_t number, const struct cv_thread_record *r, struct met *met, uint32_t *last)
{
    switch (r->kind) {
    case CV_THREAD_SIGNAL:
    case CV_THREAD_WAKE: last[p->object] = number; break;
    case CV_THREAD_WAIT: met->waits = number; break;
    case CV_THREAD_WOKEN: p->other = last[p->object] != NEVER && last[p->object] > met->waits ? last[p->object] : NEVER; break;
    case CV_THREAD_SLEPT: p->other = last[p->object]; break;
    default: break;
    }
}

static bool pack_one(cv_threads *t, uint32_t number, struct met *met)
{
    const struct cv_thread_record *r = &t->records[number];
    struct met *mine = &met[r->thread];
    struct packed *p = next_packed(t, number);
    *p = (struct packed){number, NOBODY, NEVER, NOBODY, 0};
    enum space space = space_of(r);
    if (space && (p->object = object_of(t, r->object, space)) == NOBODY)
        return false;
    if (r->kind == CV_THREAD_START && (p->object = object_of(t, r->thread, STARTS)) == NOBODY)
        return false;
    if (r->kind == CV_THREAD_EXIT && (p->object = object_of(t, r->thread, ENDS)) == NOBODY)
        return false;
    if ((r->kind == CV_THREAD_WAIT || r->kind == CV_THREAD_WOKEN) && (p->second = object_of(t, r->argument, LOCKS)) == NOBODY)
        return false;
    if (r->kind == CV_THREAD_BARRIER && !r->argument && (p->second = object_of(t, r->object & ~TEAM, TEAMS)) == NOBODY)
        return false;
    if (r->kind == CV_THREAD_TASK && mine->team != NOBODY)
        t->objects[mine->team].tasks = true;
    if (r->kind == CV_THREAD_LOCK && r->argument & CV_THREAD_SPINS)
        t->objects[p->object].spins = true;
    if (r->kind == CV_THREAD_LOCK && r->argument & CV_THREAD_SHARED)
        t->objects[p->object].shared = true;
    if (r->kind == CV_THREAD_CHUNK) {
        p->second = object_of(t, r->object << 20 ^ mine->loop, POOLS);
        if (p->second == NOBODY)
            return false;
        t->objects[p->second].n += r->argument != 0;
        t->n_chunks += r->argument != 0;
        mine->loop += r->argument == 0;
    }
    if (space == TEAMS)
        pack_team(t, r, mine, p->object);
    if (r->kind == CV_THREAD_START)
        pack_start(t, r, met);
    if (r->kind == CV_THREAD_WAIT || r->kind == CV_THREAD_WOKEN)
        t->objects[p->second].ordered = true;
    return true;
}

static void pack_semaphore(struct sync_object *o, uint8_t kind)
{
    o->count += kind == CV_THREAD_RELEASE ? 1 : -1;
    if (-o->count > o->at_first)
        o->at_first = -o->count;
}

/* The second pass, where all objects are known: turns, signals, chunks, parties. */
static bool pack_order(cv_threads *t, struct met *met)
{
    uint32_t *last = malloc((t->n_objects + 1) * sizeof *last);
    if (!last)
        return false;
    memset(last, 0xff, (t->n_objects + 1) * sizeof *last);
    for (uint32_t i = 0; i < t->n_streams; i++)
        t->streams[i].filled = 0;
    uint32_t chunks = 0;
    for (uint32_t i = 0; i < t->n_objects; i++)
        if (t->objects[i].n) {
            t->objects[i].first = chunks;
            chunks += t->objects[i].n;
            t->objects[i].n = 0;
        }
    for (uint64_t number = 0; number < t->n_records; number++) {
        const struct cv_thread_record *r = &t->records[number];
        struct met *mine = &met[r->thread];
        struct packed *p = next_packed(t, number);
        const uint32_t stream = t->stream_of[number], at = t->streams[stream].filled - 1;
        struct sync_object *o = p->object == NOBODY ? NULL : &t->objects[p->object];
        pack_condition(p, number, r, mine, last);
        if (r->kind == CV_THREAD_LOCK && o->ordered)
            p->turn = o->next_turn++;
        if (r->kind == CV_THREAD_ACQUIRE || r->kind == CV_THREAD_RELEASE)
            pack_semaphore(o, r->kind);
        if (r->kind == CV_THREAD_BARRIER) {
            o->parties = r->argument ? r->argument : t->objects[p->second].parties;
            o->own = r->argument != 0;
            if (!o->own)
                t->objects[p->second].barrier = p->object;
        }
        if (r->kind == CV_THREAD_CHUNK && r->argument) {
            struct sync_object *pool = &t->objects[p->second];
            t->chunks[pool->first + pool->n++] = (struct chunk){stream, at + 1};
        }
    }
    free(last);
    return true;
}

/* A thread that comes to a loop goes on in its own stream after the record that says that nothing was left. */
static void pack_loop_ends(cv_threads *t)
{
    for (uint32_t i = 0; i < t->n_streams; i++) {
        uint32_t end = t->streams[i].n;
        for (uint32_t k = t->streams[i].n; k-- > 0;) {
            struct packed *p = &t->packed[t->streams[i].first + k];
            const struct cv_thread_record *r = &t->records[p->record];
            if (r->kind != CV_THREAD_CHUNK)
                continue;
            if (!r->argument)
                end = k + 1;
            p->other = end;
        }
    }
}

/* The stream to which a record belongs: what its thread does at the moment, or does in another task. */
static uint32_t stream_of(const cv_threads *t, const struct cv_thread_record *r, const uint32_t *now)
{
    if (r->kind != CV_THREAD_TASK || !r->argument || r->argument > t->n_tasks)
        return now[r->thread];
    const uint32_t within = r->argument == 1 ? r->thread : t->tasks[r->argument - 1].stream;
    return within == NOBODY ? now[r->thread] : within;
}

/* Gives each task a stream of its own, but those that are run at once. The record that begins one belongs to what was done before. */
static cv_status part_tasks(cv_threads *t)
{
    uint32_t *now = calloc(t->n_threads + 1, sizeof *now); /* by thread: its stream */
    for (uint64_t i = 0; i < t->n_records; i++)
        if (t->records[i].kind == CV_THREAD_TASK && t->records[i].object <= t->n_records && t->records[i].object >= t->n_tasks)
            t->n_tasks = (uint32_t)t->records[i].object + 1;
    t->tasks = calloc(t->n_tasks + 1, sizeof *t->tasks);
    if (!now || !t->tasks) {
        free(now);
        return CV_ERROR_MEMORY;
    }
    for (uint32_t i = 0; i < t->n_tasks; i++)
        t->tasks[i].stream = NOBODY;
    for (uint32_t i = 0; i < t->n_threads; i++)
        now[i] = i;
    t->n_streams = t->n_threads;
    for (uint64_t i = 0; i < t->n_records; i++) {
        const struct cv_thread_record *r = &t->records[i];
        struct task *task = r->object < t->n_tasks ? &t->tasks[r->object] : NULL;
        t->stream_of[i] = stream_of(t, r, now);
        if (r->kind == CV_THREAD_TASK_BEGIN && !r->argument && task && task->stream == NOBODY &&
            t->n_streams < t->n_threads + t->n_records / 2) {
            task->stream = t->n_streams++;
            t->streams[task->stream].outer = now[r->thread];
            now[r->thread] = task->stream;
        } else if (r->kind == CV_THREAD_TASK_END && task && task->stream == now[r->thread]) {
            now[r->thread] = t->streams[task->stream].outer;
        }
    }
    free(now);
    return CV_OK;
}

static cv_status count_records(cv_threads *t)
{
    for (uint64_t i = 0; i < t->n_records; i++) {
        if (t->records[i].kind >= CV_THREAD_KINDS)
            return CV_ERROR_FORMAT;
        if (t->records[i].thread >= t->n_threads)
            t->n_threads = t->records[i].thread + 1;
    }
    t->streams = calloc(t->n_threads + t->n_records / 2 + 1, sizeof *t->streams);
    t->stream_of = calloc(t->n_records + 1, sizeof *t->stream_of);
    t->packed = calloc(t->n_records + 1, sizeof *t->packed);
    t->threads = calloc(t->n_threads + 1, sizeof *t->threads);
    t->runs = calloc(t->n_threads + 1, sizeof *t->runs);
    t->ready = calloc(t->n_threads + 1, sizeof *t->ready);
    t->sleeps = calloc(t->n_threads + 1, sizeof *t->sleeps);
    t->signaled = calloc(t->n_records + 1, 1);
    if (!t->streams || !t->stream_of || !t->packed || !t->threads || !t->signaled || !t->runs || !t->ready || !t->sleeps)
        return CV_ERROR_MEMORY;
    cv_status status = part_tasks(t);
    if (status == CV_OK)
        status = cv_thread_find_successors(t);
    if (status != CV_OK)
        return status;
    for (uint64_t i = 0; i < t->n_records; i++)
        t->streams[t->stream_of[i]].n++;
    for (uint32_t i = 0, first = 0; i < t->n_streams; i++) {
        t->streams[i].first = first;
        first += t->streams[i].n;
    }
    return CV_OK;
}

static cv_status pack(cv_threads *t)
{
    cv_status status = count_records(t);
    if (status != CV_OK)
        return status;
    struct met *met = calloc(t->n_threads + 1, sizeof *met);
    if (!met)
        return CV_ERROR_MEMORY;
    for (uint32_t i = 0; i < t->n_threads; i++)
        met[i].forked = met[i].team = NOBODY;
    bool packed = grow_objects(t) && (t->task_waits = object_of(t, 0, TASKS)) != NOBODY;
    for (uint64_t i = 0; packed && i < t->n_records; i++)
        packed = pack_one(t, i, met);
    for (uint32_t i = 0; packed && i < t->n_threads; i++) /* who joins waits, whether or not the trace says that it ended */
        packed = object_of(t, i, ENDS) != NOBODY && object_of(t, i, STARTS) != NOBODY;
    t->chunks = calloc(t->n_chunks + 1, sizeof *t->chunks);
    packed = packed && t->chunks && pack_order(t, met);
    free(met);
    if (!packed)
        return CV_ERROR_MEMORY;
    pack_loop_ends(t);
    return CV_OK;
}

cv_status cv_threads_new(const struct cv_thread_record *records, uint64_t n, cv_threads **out)
{
    if (n >= NEVER)
        return CV_ERROR_LIMIT;
    cv_threads *t = calloc(1, sizeof *t);
    if (!t)
        return CV_ERROR_MEMORY;
    t->records = records;
    t->n_records = n;
    t->least = -1;
    cv_status status = pack(t);
    if (status != CV_OK) {
        cv_threads_free(t);
        t = NULL;
    }
    *out = t;
    return status;
}

void cv_threads_free(cv_threads *t)
{
    if (!t)
        return;
    free(t->streams);
    free(t->stream_of);
    free(t->tasks);
    free(t->successors);
    free(t->packed);
    free(t->objects);
    free(t->chunks);
    free(t->signaled);
    free(t->threads);
    free(t->table);
    free(t->runs);
    free(t->ready);
    free(t->sleeps);
    free(t->lines);
    free(t->runners);
    free(t->complexes);
    free(t->intervals);
    free(t);
}
