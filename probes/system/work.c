#define _GNU_SOURCE
#include "teams.h"
#include "together.h"
#include "work.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define HUGE_PAGE ((size_t)2 << 20)
#define FILE_BYTES ((size_t)32 << 20) /* beyond the second level of any core we know: what a program reads was rarely read just before */
#define OTHER_BYTES ((size_t)1 << 20)
#define BETWEEN_BYTES ((size_t)32 << 10)
#define BLOCK_BYTES ((size_t)64 << 10)
#define WINDOW_BYTES ((size_t)64 << 10) /* that the kernel maps around one fault in a file */

static int file = -1, null = -1, program = -1, ends[2] = {-1, -1};
static char block[BLOCK_BYTES], other[OTHER_BYTES];

/* ---- pages: a fault, and what giving the page back takes ---- */

static void cv_touch(char *at, size_t bytes, size_t step)
{
    for (size_t i = 0; i < bytes; i += step)
        *(volatile char *)(at + i) = 1;
}

/* Touches every `step` bytes of a fresh mapping, and unmaps it. */
static size_t cv_fault(size_t bytes, int flags, int advice)
{
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
    if (at == MAP_FAILED)
        return 0;
    madvise(at, bytes, advice);
    cv_touch(at, bytes, PAGE);
    munmap(at, bytes);
    return bytes / PAGE;
}

/* A program does other work between two faults, and the kernel finds little of its own in the first level. */
static void cv_between(void)
{
    static size_t at;
    for (size_t i = 0; i < BETWEEN_BYTES; i += 64, at = (at + 64) % OTHER_BYTES)
        (void)*(volatile char *)(other + at);
}

static void cv_between_all(size_t pages)
{
    for (size_t i = 0; i < pages; i++)
        cv_between();
}

static size_t cv_anonymous(size_t pages)
{
    char *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
    if (at == MAP_FAILED)
        return 0;
    madvise(at, pages * PAGE, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < pages; i++) {
        cv_touch(at + i * PAGE, 1, 1);
        cv_between();
    }
    munmap(at, pages * PAGE);
    return pages;
}

static size_t cv_shared(size_t pages) { return cv_fault(pages * PAGE, MAP_SHARED, MADV_NOHUGEPAGE); }

static size_t cv_populated(size_t pages) { return cv_fault(pages * PAGE, MAP_PRIVATE | MAP_POPULATE, MADV_NOHUGEPAGE); }

/* Is the page that holds `at` a part of a huge one? Then the region became there with the first touch. */
static int cv_is_huge(char *at)
{
    cv_touch(at, 1, 1);
    int pagemap = open("/proc/self/pagemap", O_RDONLY);
    uint64_t entry = 0;
    if (pagemap < 0)
        return 0;
    if (pread(pagemap, &entry, sizeof entry, (off_t)(((uintptr_t)at + HUGE_PAGE - PAGE) / PAGE * sizeof entry)) != sizeof entry)
        entry = 0;
    close(pagemap);
    return entry >> 63 != 0;
}

static size_t cv_huge(size_t regions)
{
    const size_t bytes = (regions + 1) * HUGE_PAGE;
    char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
    if (map == MAP_FAILED)
        return 0;
    char *at = map + (-(uintptr_t)map & (HUGE_PAGE - 1));
    size_t done = madvise(at, regions * HUGE_PAGE, MADV_HUGEPAGE) == 0 && cv_is_huge(at) ? regions : 0;
    if (done)
        cv_touch(at, regions * HUGE_PAGE, HUGE_PAGE);
    munmap(map, bytes);
    return done;
}

/* Windows of a file that lies in the page cache. */
static size_t cv_window(size_t windows)
{
    char *at = file < 0 ? MAP_FAILED : mmap(NULL, windows * WINDOW_BYTES, PROT_READ, MAP_PRIVATE, file, 0);
    if (at == MAP_FAILED)
        return 0;
    for (size_t i = 0; i < windows; i++)
        (void)*(const volatile char *)(at + i * WINDOW_BYTES);
    munmap(at, windows * WINDOW_BYTES);
    return windows;
}

/* ---- calls ---- */

static size_t cv_call(size_t times)
{
    for (size_t i = 0; i < times; i++)
        syscall(SYS_getppid);
    return times;
}

static size_t cv_mapping(size_t times)
{
    for (size_t i = 0; i < times; i++)
        munmap(mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE, -1, 0), 4 * PAGE);
    return 2 * times;
}

static size_t cv_open(size_t times)
{
    for (size_t i = 0; i < times; i++) {
        int opened = open("/proc/../dev/null", O_RDONLY | O_CLOEXEC);
        if (opened < 0)
            return 0;
        close(opened);
    }
    return times;
}

static size_t cv_stat(size_t times)
{
    struct stat status;
    for (size_t i = 0; i < times; i++)
        if (stat("/proc/../dev/null", &status))
            return 0;
    return times;
}

/* ---- bytes ---- */

/* Goes on where it was: through the whole file. */
static size_t cv_read_blocks(size_t times, size_t bytes)
{
    static size_t at;
    for (size_t i = 0; i < times; i++)
        if (pread(file, block, bytes, (off_t)((at += bytes) % (FILE_BYTES - BLOCK_BYTES))) != (ssize_t)bytes)
            return 0;
    return times;
}

static size_t cv_read_file(size_t times) { return cv_read_blocks(times, 1); }

static size_t cv_read_file_bytes(size_t times) { return cv_read_blocks(times, BLOCK_BYTES) * BLOCK_BYTES; }

static size_t cv_write_blocks(size_t times, size_t bytes, size_t from)
{
    for (size_t i = 0; i < times; i++)
        if (pwrite(file, block, bytes, (off_t)(from + i * bytes)) != (ssize_t)bytes)
            return 0;
    return times;
}

static size_t cv_write_file(size_t times) { return cv_write_blocks(times, 1, 0); }

/* A file that grows: its pages are new. */
static size_t cv_write_file_bytes(size_t times)
{
    const size_t done = cv_write_blocks(times, BLOCK_BYTES, FILE_BYTES);
    return ftruncate(file, FILE_BYTES) ? 0 : done * BLOCK_BYTES;
}

/* There and back: half of the calls and bytes are the writer's. */
static size_t cv_through_pipe(size_t times, size_t bytes)
{
    for (size_t i = 0; i < times; i++)
        if (write(ends[1], block, bytes) != (ssize_t)bytes || read(ends[0], block, bytes) != (ssize_t)bytes)
            return 0;
    return 2 * times;
}

static size_t cv_pipe(size_t times) { return cv_through_pipe(times, 1); }

static size_t cv_pipe_bytes(size_t times) { return cv_through_pipe(times, BLOCK_BYTES / 2) * BLOCK_BYTES / 2; }

static size_t cv_write_null(size_t times)
{
    for (size_t i = 0; i < times; i++)
        if (write(null, block, BLOCK_BYTES) != (ssize_t)BLOCK_BYTES)
            return 0;
    return times;
}

/* ---- processes and threads ---- */

#if defined __x86_64__
/* The smallest program there is: an ELF header, one segment, exit(0). Its start is the kernel's work alone. */
static const unsigned char cv_smallest[] = {
    0x7f, 'E', 'L', 'F', 2,    1, 1,  0, 0, 0,    0, 0, 0,    0, 0, 0, 2,    0,  62,   0, 1, 0,    0,    0,    0x78, 0,
    0x40, 0,   0,   0,   0,    0, 64, 0, 0, 0,    0, 0, 0,    0, 0, 0, 0,    0,  0,    0, 0, 0,    0,    0,    0,    0,
    64,   0,   56,  0,   1,    0, 0,  0, 0, 0,    0, 0, 1,    0, 0, 0, 5,    0,  0,    0, 0, 0,    0,    0,    0,    0,
    0,    0,   0,   0,   0x40, 0, 0,  0, 0, 0,    0, 0, 0x40, 0, 0, 0, 0,    0,  0x81, 0, 0, 0,    0,    0,    0,    0,
    0x81, 0,   0,   0,   0,    0, 0,  0, 0, 0x10, 0, 0, 0,    0, 0, 0, 0xb8, 60, 0,    0, 0, 0x31, 0xff, 0x0f, 0x05};
#else
static const unsigned char cv_smallest[1];
#endif

static int cv_make_program(void)
{
    int made = memfd_create("smallest", MFD_CLOEXEC);
    if (sizeof cv_smallest > 1 && made >= 0 && write(made, cv_smallest, sizeof cv_smallest) == (ssize_t)sizeof cv_smallest)
        return made;
    if (made >= 0)
        close(made);
    return -1;
}

static double children_seconds;

double cv_work_children(void) { return children_seconds; }

/* What it took, exactly: the kernel tells of a child that has ended and was not waited for. */
static void count_child(pid_t child)
{
    siginfo_t ended;
    clockid_t clock;
    struct timespec time;
    if (waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT) || clock_getcpuclockid(child, &clock) || clock_gettime(clock, &time))
        return;
    children_seconds += (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Returns 0 when the program has run. */
static int cv_run_smallest(void)
{
    char *const nothing[] = {NULL};
    int status = 1;
    const pid_t child = vfork();
    if (child == 0) {
        fexecve(program, nothing, nothing);
        _exit(127);
    }
    if (child < 0)
        return 1;
    count_child(child);
    return waitpid(child, &status, 0) != child || status;
}

static size_t cv_process(size_t times)
{
    if (program < 0)
        return 0;
    for (size_t i = 0; i < times; i++)
        if (cv_run_smallest())
            return 0;
    return times;
}

static void *cv_nothing(void *argument) { return argument; }

static size_t cv_thread(size_t times)
{
    pthread_t thread;
    for (size_t i = 0; i < times; i++)
        if (pthread_create(&thread, NULL, cv_nothing, NULL) || pthread_join(thread, NULL))
            return 0;
    return times;
}

/* ---- all of them ---- */

const struct cv_work cv_works[] = {
    {"page.few", cv_anonymous, 256, CV_SHORT, cv_between_all},
    {"page.many", cv_anonymous, 8192, CV_LONG, cv_between_all},
    {"page.populated", cv_populated, 256, CV_SHORT, NULL},
    {"page.shared", cv_shared, 256, CV_SHORT, NULL},
    {"page.window", cv_window, FILE_BYTES / WINDOW_BYTES, CV_SHORT, NULL},
    {"page.huge", cv_huge, 8, CV_LONG, NULL},
    {"page.huge_many", cv_huge, 64, CV_LONG, NULL},
    {"call.least", cv_call, 2000, CV_SHORT, NULL},
    {"call.mapping", cv_mapping, 200, CV_SHORT, NULL},
    {"call.open", cv_open, 300, CV_SHORT, NULL},
    {"call.stat", cv_stat, 500, CV_SHORT, NULL},
    {"call.read_file", cv_read_file, 1000, CV_SHORT, NULL},
    {"call.write_file", cv_write_file, 500, CV_SHORT, NULL},
    {"call.write_null", cv_write_null, 1000, CV_SHORT, NULL},
    {"call.pipe", cv_pipe, 300, CV_SHORT, NULL},
    {"byte.read_file", cv_read_file_bytes, 16, CV_SHORT, NULL},
    {"byte.write_file", cv_write_file_bytes, 128, CV_LONG, NULL},
    {"byte.pipe", cv_pipe_bytes, 8, CV_SHORT, NULL},
    {"start.process", cv_process, 2, CV_WITH_OTHERS, NULL},
    {"start.thread", cv_thread, 10, CV_WITH_OTHERS, NULL},
    {"thread.create", cv_thread_create, 10, CV_TOGETHER, NULL},
    {"thread.start", cv_thread_start, 10, CV_TOGETHER, NULL},
    {"thread.join", cv_thread_join, 5, CV_TOGETHER, NULL},
    {"thread.wake", cv_thread_wake, 50, CV_TOGETHER, NULL},
    {"thread.wake_each", cv_thread_wake_each, 10, CV_TOGETHER, NULL},
    {"thread.handover", cv_thread_handover, 500, CV_TOGETHER, NULL},
    {"thread.given", cv_thread_given, 10, CV_TOGETHER, NULL},
    {"thread.taken", cv_thread_taken, 10, CV_TOGETHER, NULL},
    {"thread.step", cv_thread_step, 100000, CV_TOGETHER, NULL},
    {"thread.counter", cv_thread_counter, 100000, CV_TOGETHER, NULL},
    {"thread.counters", cv_thread_counters, 5000, CV_TOGETHER, NULL},
    {"thread.shared_3", cv_thread_shared_3, 1000, CV_TOGETHER, NULL},
    {"thread.shared_9", cv_thread_shared_9, 500, CV_TOGETHER, NULL},
    {"thread.shared_27", cv_thread_shared_27, 150, CV_TOGETHER, NULL},
    {"thread.shared_81", cv_thread_shared_81, 50, CV_TOGETHER, NULL},
    {"thread.shared_243", cv_thread_shared_243, 20, CV_TOGETHER, NULL},
    {"thread.sum", cv_thread_sum, 100000, CV_TOGETHER, NULL},
    {"thread.sums", cv_thread_sums, 1000, CV_TOGETHER, NULL},
    {"thread.atomic_3", cv_thread_atomic_3, 500, CV_TOGETHER, NULL},
    {"thread.atomic_9", cv_thread_atomic_9, 300, CV_TOGETHER, NULL},
    {"thread.atomic_27", cv_thread_atomic_27, 150, CV_TOGETHER, NULL},
    {"thread.atomic_81", cv_thread_atomic_81, 50, CV_TOGETHER, NULL},
    {"thread.atomic_243", cv_thread_atomic_243, 20, CV_TOGETHER, NULL},
    {"thread.pass", cv_thread_pass, 500, CV_TOGETHER, NULL},
    {"thread.asleep", cv_thread_asleep, 20, CV_TOGETHER, NULL},
    {"thread.barrier", cv_thread_barrier, 500, CV_TOGETHER, NULL},
    {"thread.barrier_all", cv_thread_barrier_all, 500, CV_TOGETHER, NULL},
    {"thread.lock", cv_thread_lock, 2000, CV_TOGETHER, NULL},
    {"thread.region", cv_thread_region, 500, CV_TOGETHER, NULL}, /* the last: its threads look for work for a while after it */
    {"thread.region_all", cv_thread_region_all, 500, CV_TOGETHER, NULL},
};
const size_t cv_work_count = sizeof cv_works / sizeof *cv_works;

void cv_work_begin(void)
{
    const char *folder = getenv("TMPDIR");
    file = open(folder && *folder ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0)
        file = memfd_create("pages", MFD_CLOEXEC);
    memset(block, 1, sizeof block);
    memset(other, 1, sizeof other);
    for (size_t at = 0; file >= 0 && at < FILE_BYTES; at += BLOCK_BYTES)
        if (pwrite(file, block, BLOCK_BYTES, (off_t)at) != (ssize_t)BLOCK_BYTES)
            break;
    null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    program = cv_make_program();
    if (pipe2(ends, O_CLOEXEC))
        ends[0] = ends[1] = -1;
}

void cv_work_end(void)
{
    const int all[] = {file, null, program, ends[0], ends[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] >= 0)
            close(all[i]);
}
