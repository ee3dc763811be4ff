/* Counts the processors that ranks may run on, as the kernel and the launcher's binding allow. SPDX-License-Identifier: MIT
 *
 * Ranks that share memory are taken to share a host. Two bound to one processor have one between them, whatever else is idle. */
#define _GNU_SOURCE
#include "processors.h"
#include <mpi.h>
#include <sched.h>

enum { MOST = 8192, BITS = 8, MASK_BYTES = MOST / BITS };

static int bits_of(const unsigned char *mask)
{
    int count = 0;
    for (int i = 0; i < MOST; i++)
        count += mask[i / BITS] >> i % BITS & 1;
    return count;
}

struct host fullest_host(void)
{
    static unsigned char own[MASK_BYTES] __attribute__((aligned(sizeof(long)))), all[MASK_BYTES];
    MPI_Comm host;
    struct host mine;
    sched_getaffinity(0, sizeof own, (cpu_set_t *)own);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &mine.ranks);
    MPI_Allreduce(own, all, MASK_BYTES, MPI_BYTE, MPI_BOR, host);
    MPI_Comm_free(&host);
    mine.processors = bits_of(all);

    struct {
        double share;
        int rank;
    } here = {.share = (double)mine.processors / mine.ranks}, least;
    MPI_Comm_rank(MPI_COMM_WORLD, &here.rank);
    MPI_Allreduce(&here, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
    MPI_Bcast(&mine, 2, MPI_INT, least.rank, MPI_COMM_WORLD);
    return mine;
}
