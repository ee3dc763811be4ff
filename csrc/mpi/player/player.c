/* Performs a trace on real ranks: its messages through MPI, its computation as turns of a calibrated loop. SPDX-License-Identifier: MIT
 *
 *   player TRACE OUT
 *
 * TRACE (convolver/mpi/play.py, native byte order): "CVPLAY01", u64 ranks, u64 communicators; for each communicator u64 size and as many
 * i32 members (padded to 8 bytes); u64 first[ranks + 1]; records. OUT: text, "-1 ranks processors" of the fullest host, one line a mark:
 * "rank value seconds", and one line a rank with value -1 for its end. Seconds begin at a barrier of all ranks. */
#define _GNU_SOURCE
#include "cv_mpi_events.h"
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { POOL = 32 << 20, OPEN_SENDS = 512, WRONG_SIZE = 3, MASK_BYTES = 1024 };

struct record {
    uint8_t kind, flags, op, unused;
    int32_t partner, tag, comm;
    int64_t bytes; /* of collectives: each rank's part */
    double seconds;
};

struct open_request {
    MPI_Request request;
    int32_t kind, partner, tag, comm;
};

static struct open_request *pending;
static size_t pending_count, pending_room, open_sends;
static MPI_Comm *comms;
static char *pool, *parts[2];
static size_t pool_bytes, pool_next;
static double turns_a_second;

static void fail(const char *what)
{
    fprintf(stderr, "convolver-player: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static void *room(void *before, size_t bytes)
{
    void *got = realloc(before, bytes);
    if (got == NULL)
        fail("out of memory");
    return got;
}

/* --- computation --------------------------------------------------------------------------------------------------------------- */

static void turn(uint64_t times)
{
    uint64_t x = 1;
    for (; times; times--) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(x));
    }
}

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* All ranks at once, as they will compute; by processor time, since they may share one. */
static void calibrate(void)
{
    enum { TURNS = 4000000, REPEATS = 7 };
    double best = 1e9;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < REPEATS; i++) {
        double begin = processor_seconds();
        turn(TURNS);
        double took = processor_seconds() - begin;
        best = took < best ? took : best;
    }
    turns_a_second = TURNS / best;
}

/* --- messages ------------------------------------------------------------------------------------------------------------------ */

/* Buffers take turns through a pool, as a program's are rarely all in the nearest cache; what they hold is of no interest. */
static char *buffer(int64_t bytes)
{
    size_t need = ((size_t)bytes + 63) / 64 * 64;
    if (pool_next + need > pool_bytes)
        pool_next = 0;
    char *place = pool + pool_next;
    pool_next += need;
    return place;
}

static void put(MPI_Request request, const struct record *r)
{
    if (pending_count == pending_room)
        pending = room(pending, (pending_room = pending_room ? 2 * pending_room : 64) * sizeof *pending);
    pending[pending_count++] = (struct open_request){request, r->kind, r->partner, r->tag, r->comm};
    open_sends += r->kind == CV_REPLAY_SEND;
}

static void finish(size_t i)
{
    MPI_Wait(&pending[i].request, MPI_STATUS_IGNORE);
    open_sends -= pending[i].kind == CV_REPLAY_SEND;
    memmove(pending + i, pending + i + 1, (--pending_count - i) * sizeof *pending);
}

/* Waits for the oldest request that the record names; a trace without waits for its sends has them waited for when there are many. */
static void wait_for(int kind, const struct record *r)
{
    for (size_t i = 0; i < pending_count; i++)
        if (pending[i].kind == kind && pending[i].comm == r->comm &&
            (kind == CV_REPLAY_COLLECTIVE || (pending[i].partner == r->partner && pending[i].tag == r->tag))) {
            finish(i);
            return;
        }
}

static void send(const struct record *r)
{
    MPI_Request request;
    bool late = r->flags & CV_REPLAY_RENDEZVOUS;
    if (!(r->flags & CV_REPLAY_IMMEDIATE)) {
        (late ? MPI_Ssend : MPI_Send)(buffer(r->bytes), (int)r->bytes, MPI_BYTE, r->partner, r->tag, MPI_COMM_WORLD);
        return;
    }
    (late ? MPI_Issend : MPI_Isend)(buffer(r->bytes), (int)r->bytes, MPI_BYTE, r->partner, r->tag, MPI_COMM_WORLD, &request);
    put(request, r);
    for (size_t i = 0; open_sends > OPEN_SENDS; i++)
        if (pending[i].kind == CV_REPLAY_SEND) {
            finish(i);
            break;
        }
}

static void collective(const struct record *r)
{
    MPI_Comm comm = comms[r->comm];
    MPI_Request q;
    int n = (int)r->bytes, root = r->partner;
    char *a = parts[0], *b = parts[1];
    MPI_Datatype type = n % 8 ? MPI_BYTE : MPI_DOUBLE;
    MPI_Op sum = n % 8 ? MPI_BOR : MPI_SUM;
    int count = n % 8 ? n : n / 8;
    bool later = r->flags == CV_REPLAY_NONBLOCKING;
#define EITHER(call, icall, ...) later ? icall(__VA_ARGS__, comm, &q) : call(__VA_ARGS__, comm)
    switch (r->op) {
    case CV_OP_BARRIER: later ? MPI_Ibarrier(comm, &q) : MPI_Barrier(comm); break;
    case CV_OP_BCAST: EITHER(MPI_Bcast, MPI_Ibcast, a, n, MPI_BYTE, root); break;
    case CV_OP_GATHER:
    case CV_OP_GATHERV: EITHER(MPI_Gather, MPI_Igather, a, n, MPI_BYTE, b, n, MPI_BYTE, root); break;
    case CV_OP_SCATTER:
    case CV_OP_SCATTERV: EITHER(MPI_Scatter, MPI_Iscatter, a, n, MPI_BYTE, b, n, MPI_BYTE, root); break;
    case CV_OP_ALLGATHER:
    case CV_OP_ALLGATHERV: EITHER(MPI_Allgather, MPI_Iallgather, a, n, MPI_BYTE, b, n, MPI_BYTE); break;
    case CV_OP_ALLTOALL:
    case CV_OP_ALLTOALLV:
    case CV_OP_ALLTOALLW: EITHER(MPI_Alltoall, MPI_Ialltoall, a, n, MPI_BYTE, b, n, MPI_BYTE); break;
    case CV_OP_REDUCE: EITHER(MPI_Reduce, MPI_Ireduce, a, b, count, type, sum, root); break;
    case CV_OP_ALLREDUCE: EITHER(MPI_Allreduce, MPI_Iallreduce, a, b, count, type, sum); break;
    case CV_OP_REDUCE_SCATTER:
    case CV_OP_REDUCE_SCATTER_BLOCK: EITHER(MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, a, b, count, type, sum); break;
    case CV_OP_SCAN: EITHER(MPI_Scan, MPI_Iscan, a, b, count, type, sum); break;
    default: fail("unknown collective operation");
    }
#undef EITHER
    if (later)
        put(q, r);
}

static void perform(const struct record *r)
{
    MPI_Request request;
    switch (r->kind) {
    case CV_REPLAY_BURST:
    case CV_REPLAY_GPU: turn((uint64_t)(r->seconds * turns_a_second)); break;
    case CV_REPLAY_SEND: send(r); break;
    case CV_REPLAY_RECV: MPI_Recv(buffer(r->bytes), (int)r->bytes, MPI_BYTE, r->partner, r->tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE); break;
    case CV_REPLAY_IRECV:
        MPI_Irecv(buffer(r->bytes), (int)r->bytes, MPI_BYTE, r->partner, r->tag, MPI_COMM_WORLD, &request);
        put(request, r);
        break;
    case CV_REPLAY_WAIT: wait_for(CV_REPLAY_IRECV, r); break;
    case CV_REPLAY_SEND_WAIT: wait_for(CV_REPLAY_SEND, r); break;
    case CV_REPLAY_COLLECTIVE:
        if (r->flags == CV_REPLAY_WAIT_NONBLOCKING)
            wait_for(CV_REPLAY_COLLECTIVE, r);
        else
            collective(r);
        break;
    default: break;
    }
}

/* --- the trace ----------------------------------------------------------------------------------------------------------------- */

static const uint64_t *make_comms(const uint64_t *at, uint64_t count)
{
    MPI_Group world, group;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    comms = room(NULL, (count + 1) * sizeof *comms);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t size = *at++;
        MPI_Group_incl(world, (int)size, (const int *)at, &group);
        MPI_Comm_create(MPI_COMM_WORLD, group, &comms[i]);
        MPI_Group_free(&group);
        at += (size + 1) / 2;
    }
    return at;
}

static void make_buffers(const struct record *r, uint64_t count, int size)
{
    size_t message = 0, part = 64;
    for (uint64_t i = 0; i < count; i++) {
        size_t bytes = (size_t)(r[i].bytes > 0 ? r[i].bytes : 0);
        if (r[i].kind == CV_REPLAY_COLLECTIVE)
            part = bytes * (size_t)size > part ? bytes * (size_t)size : part;
        else if (r[i].kind != CV_REPLAY_EVENT)
            message = bytes > message ? bytes : message;
    }
    pool_bytes = 8 * message + 64 > POOL ? 8 * message + 64 : POOL;
    pool = room(NULL, pool_bytes);
    memset(pool, 1, pool_bytes);
    for (int i = 0; i < 2; i++) {
        parts[i] = room(NULL, part);
        memset(parts[i], 0, part);
    }
}

/* --- processors ---------------------------------------------------------------------------------------------------------------- */

struct host {
    int ranks, processors;
};

/* The host with the fewest processors a rank, to all ranks, as the kernel and the launcher's binding allow. Ranks that share memory are
 * taken to share a host; two bound to one processor have one between them, whatever else is idle. */
static struct host fullest_host(void)
{
    static long own[MASK_BYTES / sizeof(long)], all[MASK_BYTES / sizeof(long)];
    MPI_Comm host;
    struct host mine;
    sched_getaffinity(0, sizeof own, (cpu_set_t *)own);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &mine.ranks);
    MPI_Allreduce(own, all, MASK_BYTES, MPI_BYTE, MPI_BOR, host);
    MPI_Comm_free(&host);
    mine.processors = CPU_COUNT_S(sizeof all, (cpu_set_t *)all);

    struct {
        double share;
        int rank;
    } here = {.share = (double)mine.processors / mine.ranks}, least;
    MPI_Comm_rank(MPI_COMM_WORLD, &here.rank);
    MPI_Allreduce(&here, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
    MPI_Bcast(&mine, 2, MPI_INT, least.rank, MPI_COMM_WORLD);
    return mine;
}

/* Writes the marks of all ranks one after the other: rank 0 to a new file, the others after what is there. */
static void write_marks(const char *path, int rank, int size, const int64_t *values, const double *seconds, size_t count)
{
    struct host host = fullest_host();
    for (int turn_of = 0; turn_of < size; turn_of++) {
        if (turn_of == rank) {
            FILE *out = fopen(path, rank ? "a" : "w");
            if (out == NULL)
                fail("the result cannot be written");
            if (rank == 0)
                fprintf(out, "-1 %d %d\n", host.ranks, host.processors);
            for (size_t i = 0; i < count; i++)
                fprintf(out, "%d %lld %.9f\n", rank, (long long)values[i], seconds[i]);
            fclose(out);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 3)
        fail("usage: player TRACE OUT");
    struct stat about;
    int file = open(argv[1], O_RDONLY);
    if (file < 0 || fstat(file, &about) != 0)
        fail("the trace cannot be read; do all ranks see this machine's files?");
    const uint64_t *at = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (at == MAP_FAILED || memcmp(at, "CVPLAY01", 8) != 0)
        fail("the trace is damaged");
    if (at[1] != (uint64_t)size) {
        if (rank == 0)
            fprintf(stderr, "convolver-player: the trace has %llu ranks, but %d were started\n", (unsigned long long)at[1], size);
        MPI_Finalize();
        return WRONG_SIZE;
    }
    const uint64_t *first = make_comms(at + 3, at[2]);
    const struct record *r = (const struct record *)(first + size + 1) + first[rank];
    uint64_t count = first[rank + 1] - first[rank], marks = 0;
    int64_t *values = room(NULL, (count + 1) * sizeof *values);
    double *seconds = room(NULL, (count + 1) * sizeof *seconds);
    make_buffers(r, count, size);
    calibrate();
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (uint64_t i = 0; i < count; i++) {
        if (r[i].kind == CV_REPLAY_EVENT) {
            values[marks] = r[i].bytes;
            seconds[marks++] = MPI_Wtime() - begin;
        } else {
            perform(&r[i]);
        }
    }
    while (pending_count)
        finish(0);
    values[marks] = -1;
    seconds[marks++] = MPI_Wtime() - begin;
    MPI_Barrier(MPI_COMM_WORLD);
    write_marks(argv[2], rank, size, values, seconds, marks);
    MPI_Finalize();
    return 0;
}
