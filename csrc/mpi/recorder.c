/* The recorder: the mapped file, the clocks, communicators and requests. One thread at a time records (MPI_THREAD_SERIALIZED); under
 * MPI_THREAD_MULTIPLE a lock keeps records whole. */
#define _GNU_SOURCE
#include "recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cv_bursts.h"

enum { WINDOW = 4 << 20, MEMBERS_A_RECORD = 16 };

typedef struct {
    uint64_t key;
    uint32_t id;
    int size;
    int *world;
} communicator;

static struct {
    int file;
    struct cvm_header *header;
    char *window;
    size_t filled;   /* of the window */
    uint64_t mapped; /* file offset after the window */
    bool on, cpu_clock, instructions, threads;
    uint64_t wall, cpu;        /* where the current burst began */
    uint64_t burst, burst_cpu; /* of it, before calls that leave no record */
    uint64_t polled;           /* inside those calls */
    communicator *comms;
    uint32_t comm_count, comm_capacity, last_comm;
    cvm_request *requests; /* open addressing; call 0: empty */
    uint32_t request_mask, request_count, serials;
} r = {.file = -1};

static __thread int depth;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool next_window(void)
{
    if (r.window)
        munmap(r.window, WINDOW);
    r.window = NULL;
    if (posix_fallocate(r.file, (off_t)r.mapped, WINDOW) == 0) {
        r.window = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, r.file, (off_t)r.mapped);
        if (r.window == MAP_FAILED)
            r.window = NULL;
    }
    if (r.window == NULL) {
        r.header->lost = 1;
        r.on = false;
        return false;
    }
    r.mapped += WINDOW;
    r.filled = 0;
    return true;
}

static void put_raw(const void *bytes)
{
    if (r.filled == WINDOW && !next_window())
        return;
    memcpy(r.window + r.filled, bytes, sizeof(struct cvm_record));
    r.filled += sizeof(struct cvm_record);
    __atomic_store_n(&r.header->used, r.header->used + sizeof(struct cvm_record), __ATOMIC_RELEASE);
}

/* The clock of what a thread has computed: its CPU time or, under the tracer with --total=yes, its instructions. */
static uint64_t computed(void) { return r.instructions ? cv_bursts_request(CV_BURSTS_EXECUTED, 0, 0) : clock_ns(CLOCK_THREAD_CPUTIME_ID); }

/* Thread CPU time since the last call of this function, `gap` of elapsed time ago. The CPU clock is a system call: what took less than
 * two microseconds was not interrupted, and the elapsed time says the same. Instructions are always asked for. */
static uint64_t cpu_after(uint64_t gap)
{
    uint64_t before = r.cpu;
    r.cpu = !r.instructions && (!r.cpu_clock || gap < 2000) ? before + gap : computed();
    return r.cpu > before ? r.cpu - before : 0;
}

cvm_scope cvm_enter(void)
{
    cvm_scope s = {.outer = depth++ == 0 && r.on, .first = true};
    if (!s.outer)
        return s;
    if (r.threads)
        pthread_mutex_lock(&lock);
    cvm_bursts_end(r.header->used / sizeof(struct cvm_record));
    s.entered = s.begin = clock_ns(CLOCK_MONOTONIC);
    uint64_t gap = s.begin - r.wall, used = cpu_after(gap);
    r.burst += gap;
    r.burst_cpu += r.instructions || used < gap ? used : gap;
    if (r.threads)
        pthread_mutex_unlock(&lock);
    return s;
}

void cvm_leave(cvm_scope *s)
{
    depth--;
    if (!s->outer)
        return;
    if (r.threads)
        pthread_mutex_lock(&lock);
    s->begin = clock_ns(CLOCK_MONOTONIC) - s->begin; /* now the duration */
}

void cvm_close(cvm_scope *s)
{
    if (!s->outer)
        return;
    r.wall = clock_ns(CLOCK_MONOTONIC);
    cpu_after(r.wall - s->entered);
    if (r.header) {
        r.header->end_ns = r.wall;
        r.header->own_ns += r.wall - s->entered - s->begin;
        if (s->first) {
            r.header->polled_ns += s->begin;
            r.polled += s->begin;
        }
    }
    cvm_bursts_begin();
    if (r.threads)
        pthread_mutex_unlock(&lock);
}

void cvm_put(cvm_scope *s, struct cvm_record record)
{
    if (!s->outer || !r.on)
        return;
    if (s->first) {
        record.burst_ns = r.burst;
        record.burst_cpu_ns = r.burst_cpu;
        record.call_ns = s->begin;
        record.polled_ns = r.polled < UINT32_MAX ? (uint32_t)r.polled : UINT32_MAX;
        r.polled = 0;
        r.burst = r.burst_cpu = 0;
        s->first = false;
    } else {
        record.flags |= CVM_CONTINUES;
    }
    put_raw(&record);
}

/* --- communicators ------------------------------------------------------------------------------------------------------------- */

static communicator *find_comm(uint64_t key)
{
    if (r.last_comm < r.comm_count && r.comms[r.last_comm].key == key)
        return &r.comms[r.last_comm];
    for (uint32_t i = r.comm_count; i-- > 0;)
        if (r.comms[i].key == key) {
            r.last_comm = i;
            return &r.comms[i];
        }
    return NULL;
}

uint32_t cvm_comm(MPI_Comm comm)
{
    communicator *c = find_comm(CVM_KEY(comm));
    return c ? c->id : UINT32_MAX;
}

int cvm_world_rank(uint32_t comm, int rank)
{
    if (rank == MPI_PROC_NULL || rank == MPI_ROOT)
        return -2;
    if (comm >= r.comm_count || rank < 0 || rank >= r.comms[comm].size)
        return -1;
    return r.comms[comm].world[rank];
}

int cvm_comm_size(uint32_t comm) { return comm < r.comm_count ? r.comms[comm].size : 0; }

/* Members as ranks of MPI_COMM_WORLD; of an intercommunicator those of the remote group, which its calls name. */
static bool members(MPI_Comm comm, communicator *c)
{
    MPI_Group group, world;
    int inter = 0;
    PMPI_Comm_test_inter(comm, &inter);
    if (inter)
        PMPI_Comm_remote_group(comm, &group);
    else
        PMPI_Comm_group(comm, &group);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_size(group, &c->size);
    c->world = malloc(((size_t)c->size + MEMBERS_A_RECORD) * sizeof *c->world);
    int *own = malloc(((size_t)c->size + 1) * sizeof *own);
    if (c->world && own) {
        for (int i = 0; i < c->size; i++)
            own[i] = i;
        PMPI_Group_translate_ranks(group, c->size, own, world, c->world);
    }
    free(own);
    PMPI_Group_free(&group);
    PMPI_Group_free(&world);
    return c->world != NULL;
}

void cvm_comm_new(cvm_scope *s, MPI_Comm comm, MPI_Comm parent)
{
    if (!r.on || (s && !s->outer) || comm == MPI_COMM_NULL)
        return;
    if (r.comm_count == r.comm_capacity) {
        uint32_t capacity = r.comm_capacity ? 2 * r.comm_capacity : 16;
        communicator *comms = realloc(r.comms, capacity * sizeof *comms);
        if (comms == NULL)
            return;
        r.comms = comms;
        r.comm_capacity = capacity;
    }
    communicator *c = &r.comms[r.comm_count];
    *c = (communicator){.key = CVM_KEY(comm), .id = r.comm_count};
    if (!members(comm, c))
        return;
    r.comm_count++;
    cvm_scope silent = {.outer = true, .first = false};
    uint32_t from = parent == MPI_COMM_NULL ? UINT32_MAX : cvm_comm(parent);
    struct cvm_record record = {.call = CVM_COMM, .comm = c->id, .bytes = c->size, .extra = (int64_t)(uint32_t)(from + 1)};
    cvm_put(s ? s : &silent, record);
    for (int i = 0; i < c->size; i += MEMBERS_A_RECORD)
        put_raw(c->world + i);
}

void cvm_comm_forget(MPI_Comm comm)
{
    communicator *c = find_comm(CVM_KEY(comm));
    if (c && c->id > 1)
        c->key = UINT64_MAX;
}

/* --- requests ------------------------------------------------------------------------------------------------------------------ */

static uint32_t home_of(uint64_t key) { return (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & r.request_mask; }

/* The slot of the key: an empty one where it is not there. */
static cvm_request *slot_of(uint64_t key)
{
    uint32_t i = home_of(key);
    while (r.requests[i].call && r.requests[i].key != key)
        i = (i + 1) & r.request_mask;
    return &r.requests[i];
}

cvm_request *cvm_request_find(uint64_t key)
{
    cvm_request *found = r.requests ? slot_of(key) : NULL;
    return found && found->call ? found : NULL;
}

cvm_request *cvm_request_add(uint64_t key)
{
    if (r.requests == NULL || r.request_count >= r.request_mask / 2) {
        uint32_t old = r.requests ? r.request_mask + 1 : 0, size = old ? 2 * old : 256;
        cvm_request *before = r.requests, *larger = calloc(size, sizeof *larger);
        if (larger == NULL)
            return NULL;
        r.requests = larger;
        r.request_mask = size - 1;
        for (uint32_t i = 0; i < old; i++)
            if (before[i].call)
                *slot_of(before[i].key) = before[i];
        free(before);
    }
    cvm_request *slot = slot_of(key);
    if (!slot->call) {
        r.request_count++;
        *slot = (cvm_request){.key = key, .call = CVM_ISEND};
    }
    return slot;
}

void cvm_request_drop(uint64_t key)
{
    cvm_request *found = cvm_request_find(key);
    if (found == NULL)
        return;
    /* Close the gap: what follows in the probe sequence moves up. */
    uint32_t hole = (uint32_t)(found - r.requests), i = hole;
    for (;;) {
        i = (i + 1) & r.request_mask;
        if (!r.requests[i].call)
            break;
        uint32_t home = home_of(r.requests[i].key);
        if (((i - home) & r.request_mask) >= ((i - hole) & r.request_mask)) {
            r.requests[hole] = r.requests[i];
            hole = i;
        }
    }
    r.requests[hole].call = 0;
    r.request_count--;
}

uint32_t cvm_serial(void) { return ++r.serials; }

/* --- start and end ------------------------------------------------------------------------------------------------------------- */

/* A recording has its name only once its header and its first communicators are whole: who is killed before leaves none. */
struct names {
    char unfinished[4096], whole[4096];
};

static bool open_file(const char *folder, int rank, struct names *names)
{
    int length = snprintf(names->unfinished, sizeof names->unfinished, "%s/rank-%05d.cvm.new", folder, rank);
    if (length >= (int)sizeof names->unfinished)
        return false;
    snprintf(names->whole, sizeof names->whole, "%.*s", length - (int)strlen(".new"), names->unfinished);
    r.file = open(names->unfinished, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (r.file < 0 || posix_fallocate(r.file, 0, CVM_HEADER_BYTES) != 0)
        return false;
    r.header = mmap(NULL, CVM_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, r.file, 0);
    if (r.header == MAP_FAILED) {
        r.header = NULL;
        return false;
    }
    r.mapped = CVM_HEADER_BYTES;
    return next_window();
}

static void say_why_not(const char *folder, int rank)
{
    fprintf(stderr, "convolver: rank %d records no MPI events: %s/rank-%05d.cvm: %s\n", rank, folder, rank, strerror(errno));
}

void cvm_start(void)
{
    const char *folder = getenv("CONVOLVER_MPI_OUT"), *clock = getenv("CONVOLVER_MPI_CPU_CLOCK");
    char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int rank = 0, size = 0, length = 0, level = MPI_THREAD_SINGLE;
    struct names names;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    if (r.on || folder == NULL || !open_file(folder, rank, &names)) {
        if (folder && !r.on)
            say_why_not(folder, rank);
        return;
    }
    PMPI_Get_library_version(library, &length);
    PMPI_Query_thread(&level);
    memcpy(r.header->magic, "CVMPI01\n", 8);
    r.header->version = CVM_VERSION;
    r.header->rank = (uint32_t)rank;
    r.header->size = (uint32_t)size;
    r.header->pid = (uint32_t)getpid();
    gethostname(r.header->host, sizeof r.header->host - 1);
    snprintf(r.header->library, sizeof r.header->library, "%.*s", (int)strcspn(library, "\n,"), library);
    r.cpu_clock = clock == NULL || strcmp(clock, "0") != 0;
    r.instructions = clock != NULL && strcmp(clock, "instructions") == 0 && cv_bursts_request(CV_BURSTS_EXECUTED, 0, 0) != 0;
    r.header->counted = r.instructions;
    r.threads = level == MPI_THREAD_MULTIPLE;
    r.on = true;
    cvm_comm_new(NULL, MPI_COMM_WORLD, MPI_COMM_NULL);
    cvm_comm_new(NULL, MPI_COMM_SELF, MPI_COMM_NULL);
    r.cpu = computed();
    r.wall = r.header->begin_ns = r.header->end_ns = clock_ns(CLOCK_MONOTONIC);
    if (rename(names.unfinished, names.whole) != 0) {
        say_why_not(folder, rank);
        r.on = false;
        return;
    }
    cvm_bursts_open(folder, rank);
    cvm_bursts_begin();
}

void cvm_stop(enum cvm_end end)
{
    if (!r.on)
        return;
    cvm_scope s = cvm_enter();
    cvm_leave(&s);
    s.begin = 0;
    cvm_put(&s, (struct cvm_record){.call = CVM_OPAQUE});
    if (s.outer && r.threads)
        pthread_mutex_unlock(&lock);
    r.on = false;
    r.header->end_ns = clock_ns(CLOCK_MONOTONIC);
    r.header->end = end;
    cvm_bursts_close();
    if (ftruncate(r.file, (off_t)(CVM_HEADER_BYTES + r.header->used)) != 0)
        r.header->lost = 1;
}
