/* Dependences of tasks, from the order of the trace: one that writes comes after all siblings before it with the same address, others after
 * the last that wrote. */
#include "thread_events.h"

#include <stdlib.h>

/* An address, for the tasks that one task, or a thread outside of tasks, makes. */
struct datum {
    bool used;
    uint64_t address, parent;
    uint32_t writer;  /* the last task that wrote, or NOBODY */
    uint32_t readers; /* since then: the newest in `readers`, or NOBODY */
};

struct reader {
    uint32_t task, next;
};

struct order {
    uint32_t before, after;
};

struct found {
    uint64_t *within;   /* by thread: the task that it does at the moment, or the number of tasks + its own */
    uint64_t *outer;    /* by task: what its thread did before */
    struct datum *data; /* a hash table */
    uint64_t size;
    struct reader *readers;
    struct order *orders;
    uint64_t n_readers, n_orders;
};

static struct datum *datum_of(struct found *f, uint64_t address, uint64_t parent)
{
    uint64_t at = (address * UINT64_C(0x9E3779B97F4A7C15) ^ parent * UINT64_C(0xC2B2AE3D27D4EB4F)) >> 20;
    for (;; at++) {
        struct datum *datum = &f->data[at % f->size];
        if (!datum->used)
            *datum = (struct datum){true, address, parent, NOBODY, NOBODY};
        if (datum->address == address && datum->parent == parent)
            return datum;
    }
}

/* A task that stays with its maker ends before that one makes another. */
static void add_order(const cv_threads *t, struct found *f, uint32_t before, uint32_t after)
{
    if (before != NOBODY && before != after && t->tasks[before].stream != NOBODY)
        f->orders[f->n_orders++] = (struct order){before, after};
}

static void depends(const cv_threads *t, struct found *f, struct datum *datum, uint32_t task, bool writes)
{
    add_order(t, f, datum->writer, task);
    if (!writes) {
        f->readers[f->n_readers] = (struct reader){task, datum->readers};
        datum->readers = (uint32_t)f->n_readers++;
        return;
    }
    for (uint32_t i = datum->readers; i != NOBODY; i = f->readers[i].next)
        add_order(t, f, f->readers[i].task, task);
    datum->writer = task;
    datum->readers = NOBODY;
}

static void find(const cv_threads *t, struct found *f)
{
    for (uint32_t i = 0; i < t->n_threads; i++)
        f->within[i] = (uint64_t)t->n_tasks + i;
    for (uint64_t i = 0; i < t->n_records; i++) {
        const struct cv_thread_record *r = &t->records[i];
        uint64_t *within = &f->within[r->thread];
        if (r->kind == CV_THREAD_TASK_BEGIN && r->object < t->n_tasks) {
            f->outer[r->object] = *within;
            *within = r->object;
        } else if (r->kind == CV_THREAD_TASK_END && r->object < t->n_tasks && *within == r->object) {
            *within = f->outer[r->object];
        } else if (r->kind == CV_THREAD_DEPEND && r->argument / 2 < t->n_tasks) {
            depends(t, f, datum_of(f, r->object, *within), (uint32_t)(r->argument / 2), r->argument % 2);
        }
    }
}

static void keep(cv_threads *t, const struct found *f)
{
    for (uint64_t i = 0; i < f->n_orders; i++) {
        t->tasks[f->orders[i].after].predecessors++;
        t->tasks[f->orders[i].before].n++;
    }
    for (uint32_t i = 0, first = 0; i < t->n_tasks; i++) {
        t->tasks[i].first = first;
        first += t->tasks[i].n;
        t->tasks[i].n = 0;
    }
    for (uint64_t i = 0; i < f->n_orders; i++) {
        struct task *before = &t->tasks[f->orders[i].before];
        t->successors[before->first + before->n++] = f->orders[i].after;
    }
}

cv_status cv_thread_find_successors(cv_threads *t)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < t->n_records; i++)
        n += t->records[i].kind == CV_THREAD_DEPEND;
    if (!n)
        return CV_OK;
    if (n > UINT32_MAX / 2)
        return CV_ERROR_LIMIT;
    struct found f = {.size = 2 * n};
    f.within = calloc(t->n_threads, sizeof *f.within);
    f.outer = calloc(t->n_tasks + 1, sizeof *f.outer);
    f.data = calloc(f.size, sizeof *f.data);
    f.readers = calloc(n, sizeof *f.readers);
    f.orders = calloc(2 * n, sizeof *f.orders); /* each is after one that wrote, each that reads before one that writes */
    cv_status status = CV_ERROR_MEMORY;
    if (f.within && f.outer && f.data && f.readers && f.orders) {
        find(t, &f);
        t->successors = calloc(f.n_orders + 1, sizeof *t->successors);
        if (t->successors) {
            keep(t, &f);
            status = CV_OK;
        }
    }
    free(f.within);
    free(f.outer);
    free(f.data);
    free(f.readers);
    free(f.orders);
    return status;
}
