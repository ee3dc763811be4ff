/* Ping-pong between tasks 0 and 1: one JSON line a measurement on stdout of task 0.
 *
 *   {"kind": "pingpong", "bytes": n, "seconds": one-way time}            best half round trip, as many lines as repeats
 *   {"kind": "overhead", "bytes": n, "seconds": time inside MPI_Isend}   what a send costs its processor
 *   {"kind": "receive", "bytes": n, "seconds": time inside MPI_Recv}     the message has been there for a while
 *   {"kind": "post", "bytes": n, "seconds": time inside MPI_Irecv}       before the message
 *   {"kind": "late", "bytes": n, "seconds": time inside MPI_Send}        the receiver comes 2 ms late: a rendezvous waits for it
 *   {"kind": "handover", "bytes": 0, "seconds": one-way time}            both tasks on one processor (where that is allowed)
 *   {"kind": "busy", "bytes": 0, "seconds": processor time}              of both tasks, which compute for half a second
 *   {"kind": "hosts", "same": true}                                      both tasks on one host */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LARGEST = 4 << 20, REPEATS = 9, POOL = 32 << 20 };

/* Large messages take turns through a pool: a program's buffers are rarely all in the nearest caches. */
static char *place(char *pool, int bytes)
{
    static size_t next;
    if (bytes < 4096)
        return pool;
    if (next + (size_t)bytes > POOL)
        next = 0;
    next += ((size_t)bytes + 4095) / 4096 * 4096;
    return pool + next - ((size_t)bytes + 4095) / 4096 * 4096;
}

static const double BUSY_SECONDS = 0.5;

static void spin(double seconds)
{
    double end = MPI_Wtime() + seconds;
    while (MPI_Wtime() < end)
        ;
}

static double round_trips(int rank, char *pool, int bytes, int count)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (int i = 0; i < count; i++) {
        char *buffer = place(pool, bytes);
        if (rank == 0) {
            MPI_Send(buffer, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(buffer, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buffer, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
        }
    }
    return (MPI_Wtime() - begin) / count / 2;
}

/* Task 0 sends, task 1 has posted the receive: what each spends in its non-blocking call. */
static double posted(int rank, char *pool, int bytes, double *post)
{
    MPI_Request request;
    char *buffer = place(pool, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        spin(2e-6);
    double begin = MPI_Wtime();
    if (rank == 0)
        MPI_Isend(buffer, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &request);
    else
        MPI_Irecv(buffer, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &request);
    double spent = MPI_Wtime() - begin, other = 0;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&spent, 1, MPI_DOUBLE, 1 - rank, 4, &other, 1, MPI_DOUBLE, 1 - rank, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    *post = other;
    return spent;
}

/* Task 1 receives what was sent long ago; task 0 learns how long that took. */
static double receive(int rank, char *pool, int bytes)
{
    double spent = 0;
    MPI_Request request;
    char *buffer = place(pool, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Isend(buffer, bytes, MPI_CHAR, 1, 3, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Recv(&spent, 1, MPI_DOUBLE, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        spin(1e-4);
        double begin = MPI_Wtime();
        MPI_Recv(buffer, bytes, MPI_CHAR, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        spent = MPI_Wtime() - begin;
        MPI_Send(&spent, 1, MPI_DOUBLE, 0, 4, MPI_COMM_WORLD);
    }
    return spent;
}

static double late(int rank, char *buffer, int bytes)
{
    double spent = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        double begin = MPI_Wtime();
        MPI_Send(buffer, bytes, MPI_CHAR, 1, 2, MPI_COMM_WORLD);
        spent = MPI_Wtime() - begin;
    } else {
        spin(2e-3);
        MPI_Recv(buffer, bytes, MPI_CHAR, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return spent;
}

/* Processor time that both tasks together get while they compute for half a second: quotas and other programs take some. */
static double busy(void)
{
    struct timespec before, after;
    MPI_Barrier(MPI_COMM_WORLD);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    spin(BUSY_SECONDS);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    double mine = (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec), all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* Both tasks on the processor that task 0 names; false on both where one of them must not run there. */
static int share_processor(void)
{
    cpu_set_t one;
    int cpu = sched_getcpu(), mine, all;
    MPI_Bcast(&cpu, 1, MPI_INT, 0, MPI_COMM_WORLD);
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    mine = sched_setaffinity(0, sizeof one, &one) == 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

/* As many round trips as fit into 20 ms, one at least: libraries that spin hold the processor for a time slice each. */
static double hand_over(int rank)
{
    double begin = MPI_Wtime(), spent = 0;
    int trips = 0, more = 1;
    while (more) {
        if (rank == 0) {
            MPI_Send(&more, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
            MPI_Recv(&more, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            spent = MPI_Wtime() - begin;
            trips++;
            more = spent < 0.02;
            if (!more)
                MPI_Send(&more, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
        } else {
            MPI_Recv(&more, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (more)
                MPI_Send(&more, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
        }
    }
    return trips ? spent / trips / 2 : 0;
}

static void print(int rank, const char *kind, int bytes, double seconds)
{
    if (rank == 0)
        printf("{\"kind\": \"%s\", \"bytes\": %d, \"seconds\": %.9g}\n", kind, bytes, seconds);
}

int main(int argc, char **argv)
{
    int rank, size, length, same;
    char host[2][MPI_MAX_PROCESSOR_NAME] = {"", ""}, *buffer = calloc(1, POOL);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (buffer)
        memset(buffer, 1, POOL);
    if (size != 2 || buffer == NULL) {
        if (rank == 0)
            fprintf(stderr, "the ping-pong needs exactly two tasks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Get_processor_name(host[0], &length);
    MPI_Sendrecv(host[0], MPI_MAX_PROCESSOR_NAME, MPI_CHAR, 1 - rank, 9, host[1], MPI_MAX_PROCESSOR_NAME, MPI_CHAR, 1 - rank, 9,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    same = strcmp(host[0], host[1]) == 0;
    if (rank == 0)
        printf("{\"kind\": \"hosts\", \"same\": %s}\n", same ? "true" : "false");
    for (int bytes = 0; bytes <= LARGEST; bytes = bytes ? 2 * bytes : 1) {
        int count = bytes <= 4096 ? 400 : bytes <= 262144 ? 60 : 10;
        round_trips(rank, buffer, bytes, count / 10 + 1);
        for (int r = 0; r < REPEATS; r++) {
            print(rank, "pingpong", bytes, round_trips(rank, buffer, bytes, count));
            double post, send = posted(rank, buffer, bytes, &post);
            print(rank, "overhead", bytes, send);
            print(rank, "post", bytes, post);
            print(rank, "receive", bytes, receive(rank, buffer, bytes));
        }
        if (bytes >= 64 && bytes <= 1 << 20)
            for (int r = 0; r < 7; r++)
                print(rank, "late", bytes, late(rank, buffer, bytes));
    }
    if (same)
        print(rank, "busy", 0, busy());
    if (same && share_processor())
        for (int r = 0; r < REPEATS; r++)
            print(rank, "handover", 0, hand_over(rank));
    MPI_Finalize();
    free(buffer);
    return 0;
}
