/* Under Convolver's tracer: has the executions of every code segment attributed to the bursts between MPI calls (cv_bursts.h). */
#define _GNU_SOURCE
#include "recorder.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cv_bursts.h"

enum { ROOM = 1 << 14 };

static struct {
    bool on;
    int file;
    unsigned long threshold;
    uint64_t first, last; /* records whose bursts are in the sums */
    bool some;
    uint64_t chunk[3 + ROOM];
} b;

static void write_whole(const void *data, size_t bytes)
{
    for (const char *at = data; bytes;) {
        ssize_t written = write(b.file, at, bytes);
        if (written <= 0) {
            fprintf(stderr, "convolver: the file of bursts cannot be written: bursts from here on have no blocks\n");
            b.on = false;
            return;
        }
        at += written;
        bytes -= (size_t)written;
    }
}

static void take(void)
{
    uint64_t words;
    if (!b.some)
        return;
    b.some = false;
    do {
        words = cv_bursts_request(CV_BURSTS_TAKE, (unsigned long)(b.chunk + 3), ROOM);
        b.chunk[0] = b.first;
        b.chunk[1] = b.last;
        b.chunk[2] = words;
        write_whole(b.chunk, (3 + words) * sizeof *b.chunk);
    } while (words == ROOM && b.on);
}

void cvm_bursts_open(const char *folder, int rank)
{
    const char *threshold = getenv("CONVOLVER_MPI_BURSTS");
    char path[4096];
    struct {
        char magic[8];
        uint32_t rank, reserved;
    } header = {CV_BURSTS_MAGIC, (uint32_t)rank, 0};
    if (threshold == NULL || !cv_bursts_request(CV_BURSTS_HERE, 0, 0))
        return;
    b.threshold = strtoul(threshold, NULL, 10);
    snprintf(path, sizeof path, "%s/rank-%05d.cvb", folder, rank);
    b.file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    b.on = b.file >= 0;
    if (b.on)
        write_whole(&header, sizeof header);
}

void cvm_bursts_begin(void)
{
    if (b.on)
        cv_bursts_request(CV_BURSTS_BEGIN, 0, 0);
}

void cvm_bursts_end(uint64_t record)
{
    if (!b.on)
        return;
    unsigned long executed = cv_bursts_request(CV_BURSTS_END, 0, 0);
    if (!b.some)
        b.first = record;
    b.some = true;
    b.last = record;
    if (executed >= b.threshold)
        take();
}

void cvm_bursts_close(void)
{
    if (!b.on)
        return;
    take();
    close(b.file);
    b.on = false;
}
