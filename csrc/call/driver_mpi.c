/* The MPI drivers: calls, bytes and time in MPI by interposition (PMPI), and an embedded ping for latency and bandwidth.
 * Bytes are those this rank hands to MPI: sent point to point, and its own contribution to collectives. */
#include <mpi.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "driver.h"

#define SMALL 8
#define LARGE (1 << 20)
#define SMALL_ROUNDS 10
#define LARGE_ROUNDS 3

static double calls, bytes, inside, latency = NAN, bandwidth = NAN;

static int running(void)
{
    int started = 0, finished = 0;
    PMPI_Initialized(&started);
    PMPI_Finalized(&finished);
    return started && !finished;
}

void cv_call_mpi_place(struct cv_call_place *place)
{
    if (!running())
        return;
    PMPI_Comm_rank(MPI_COMM_WORLD, &place->rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &place->size);
    PMPI_Bcast(place->run, sizeof place->run, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static const char *open_mpi(void) { return running() ? NULL : "MPI is not initialized; begin the first region after MPI_Init"; }

static void read_mpi(double *values)
{
    values[0] = calls;
    values[1] = bytes;
    values[2] = inside;
}

struct cv_call_driver cv_call_mpi = {
    .name = "mpi",
    .count = 3,
    .metrics = {{"mpi_calls", "1", 0}, {"mpi_bytes", "B", 0}, {"mpi_time", "s", 0}},
    .open = open_mpi,
    .read = read_mpi,
};

static double ping(char *buffer, int size, int rounds, int rank, int last)
{
    double start = PMPI_Wtime();
    for (int i = 0; i < rounds; i++) {
        if (last == 0) { /* alone: through MPI to itself */
            PMPI_Sendrecv(buffer, size, MPI_CHAR, 0, 7001, buffer + size, size, MPI_CHAR, 0, 7001, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            PMPI_Sendrecv(buffer + size, size, MPI_CHAR, 0, 7002, buffer, size, MPI_CHAR, 0, 7002, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 0) {
            PMPI_Send(buffer, size, MPI_CHAR, last, 7001, MPI_COMM_WORLD);
            PMPI_Recv(buffer, size, MPI_CHAR, last, 7002, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == last) {
            PMPI_Recv(buffer, size, MPI_CHAR, 0, 7001, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            PMPI_Send(buffer, size, MPI_CHAR, 0, 7002, MPI_COMM_WORLD);
        }
    }
    return (PMPI_Wtime() - start) / (2.0 * rounds);
}

/* Rank 0 and the last rank exchange messages before the region, all others wait: every rank must begin the region. */
static void measure_network(void)
{
    static char buffer[2 * LARGE];
    double result[2];
    int rank, size;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    PMPI_Barrier(MPI_COMM_WORLD);
    ping(buffer, SMALL, 2, rank, size - 1);
    result[0] = ping(buffer, SMALL, SMALL_ROUNDS, rank, size - 1);
    double large = ping(buffer, LARGE, LARGE_ROUNDS, rank, size - 1);
    /* a disturbed small message can take longer than a large one: then the large one's whole time counts */
    result[1] = LARGE / (large > 2 * result[0] ? large - result[0] : fmax(large, 1e-12));
    PMPI_Bcast(result, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    latency = result[0];
    bandwidth = result[1];
    PMPI_Barrier(MPI_COMM_WORLD);
}

static void read_network(double *values)
{
    values[0] = latency;
    values[1] = bandwidth;
}

struct cv_call_driver cv_call_network = {
    .name = "network",
    .count = 2,
    .metrics = {{"latency", "s", 1}, {"bandwidth", "B/s", 1}},
    .open = open_mpi,
    .read = read_network,
    .prepare = measure_network,
};

#ifndef CONVOLVER_CALL_NO_PMPI
static double type_bytes(int count, MPI_Datatype type)
{
    int size = 0;
    PMPI_Type_size(type, &size);
    return (double)count * size;
}

/* An MPI function with parameters P and arguments A that hands `AMOUNT` bytes over. */
#define COUNTED(NAME, P, A, AMOUNT)     \
    int MPI_##NAME P                    \
    {                                   \
        double start = PMPI_Wtime();    \
        int result = PMPI_##NAME A;     \
        inside += PMPI_Wtime() - start; \
        calls += 1;                     \
        bytes += (AMOUNT);              \
        return result;                  \
    }

typedef MPI_Datatype type_t;
typedef MPI_Comm comm_t;

static int ranks(MPI_Comm comm)
{
    int size = 0;
    PMPI_Comm_size(comm, &size);
    return size;
}

COUNTED(Send, (const void *b, int n, type_t t, int to, int tag, comm_t c), (b, n, t, to, tag, c), type_bytes(n, t))
COUNTED(Isend, (const void *b, int n, type_t t, int to, int tag, comm_t c, MPI_Request *r), (b, n, t, to, tag, c, r), type_bytes(n, t))
COUNTED(Recv, (void *b, int n, type_t t, int from, int tag, comm_t c, MPI_Status *s), (b, n, t, from, tag, c, s), 0)
COUNTED(Irecv, (void *b, int n, type_t t, int from, int tag, comm_t c, MPI_Request *r), (b, n, t, from, tag, c, r), 0)
COUNTED(Sendrecv,
        (const void *b, int n, type_t t, int to, int tag, void *rb, int rn, type_t rt, int from, int rtag, comm_t c, MPI_Status *s),
        (b, n, t, to, tag, rb, rn, rt, from, rtag, c, s), type_bytes(n, t))
COUNTED(Wait, (MPI_Request * r, MPI_Status *s), (r, s), 0)
COUNTED(Waitall, (int n, MPI_Request *r, MPI_Status *s), (n, r, s), 0)
COUNTED(Barrier, (comm_t c), (c), 0)
COUNTED(Bcast, (void *b, int n, type_t t, int root, comm_t c), (b, n, t, root, c), type_bytes(n, t))
COUNTED(Reduce, (const void *b, void *rb, int n, type_t t, MPI_Op o, int root, comm_t c), (b, rb, n, t, o, root, c), type_bytes(n, t))
COUNTED(Allreduce, (const void *b, void *rb, int n, type_t t, MPI_Op o, comm_t c), (b, rb, n, t, o, c), type_bytes(n, t))
COUNTED(Gather, (const void *b, int n, type_t t, void *rb, int rn, type_t rt, int root, comm_t c), (b, n, t, rb, rn, rt, root, c),
        type_bytes(n, t))
COUNTED(Scatter, (const void *b, int n, type_t t, void *rb, int rn, type_t rt, int root, comm_t c), (b, n, t, rb, rn, rt, root, c),
        type_bytes(rn, rt))
COUNTED(Allgather, (const void *b, int n, type_t t, void *rb, int rn, type_t rt, comm_t c), (b, n, t, rb, rn, rt, c), type_bytes(n, t))
COUNTED(Alltoall, (const void *b, int n, type_t t, void *rb, int rn, type_t rt, comm_t c), (b, n, t, rb, rn, rt, c),
        ranks(c) * type_bytes(n, t))
#endif
