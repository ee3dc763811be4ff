/* Asks the kernel for known amounts of things: asks WHAT N [PATH]. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096L

static char *map(long pages, int flags) { return mmap(NULL, (pages + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0); }

static void touch(char *at, long pages)
{
    for (long i = 0; i < pages; i++)
        *(volatile char *)(at + i * PAGE) = 1;
}

static void read_through(const char *at, long pages)
{
    for (long i = 0; i < pages; i++)
        (void)*(const volatile char *)(at + i * PAGE);
}

static __attribute__((noinline)) void heap(long pages)
{
    sbrk(-(long)sbrk(0) & (PAGE - 1));
    for (int turn = 0; turn < 2; turn++) {
        touch(sbrk(pages * PAGE), pages);
        sbrk(-pages * PAGE);
    }
}

static void write_to(int out, long bytes)
{
    static char block[1000];
    for (; bytes > 0; bytes -= sizeof block)
        if (write(out, block, bytes < (long)sizeof block ? bytes : (long)sizeof block) < 0)
            exit(1);
}

static void through_a_pipe(long bytes)
{
    int ends[2];
    char block[1000];
    if (pipe(ends))
        exit(1);
    for (; bytes > 0; bytes -= sizeof block)
        if (write(ends[1], block, sizeof block) != read(ends[0], block, sizeof block))
            exit(1);
}

int main(int argc, char **argv)
{
    const char *what = argv[1], *path = argc > 3 ? argv[3] : "/dev/null";
    long n = atol(argv[2]);
    if (!strcmp(what, "kept")) {
        touch(map(n, MAP_PRIVATE), n);
    } else if (!strcmp(what, "unmapped")) {
        char *at = map(n, MAP_PRIVATE);
        touch(at, n);
        munmap(at, (n + 1) * PAGE);
    } else if (!strcmp(what, "replaced")) {
        char *at = map(n, MAP_PRIVATE);
        touch(at, n);
        touch(mmap(at, (n + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE | MAP_FIXED, -1, 0), n);
    } else if (!strcmp(what, "discarded")) {
        char *at = map(n, MAP_PRIVATE);
        touch(at, n);
        madvise(at, n * PAGE, MADV_DONTNEED);
        touch(at, n);
    } else if (!strcmp(what, "moved")) {
        char *at = map(n, MAP_PRIVATE);
        touch(at, n);
        at = mremap(at, (n + 1) * PAGE, (3 * n + 1) * PAGE, MREMAP_MAYMOVE);
        touch(at, n);
        mremap(at, (3 * n + 1) * PAGE, PAGE, 0);
    } else if (!strcmp(what, "heap")) {
        heap(n);
    } else if (!strcmp(what, "filled")) {
        touch(map(n, MAP_PRIVATE | MAP_POPULATE), n);
    } else if (!strcmp(what, "shared")) {
        touch(map(n, MAP_SHARED), n);
    } else if (!strcmp(what, "advised")) {
        char *at = map(n + 511, MAP_PRIVATE);
        at += -(long)at & (512 * PAGE - 1);
        madvise(at, n * PAGE, MADV_HUGEPAGE);
        touch(at, n);
    } else if (!strcmp(what, "static")) {
        static char table[1024 * PAGE];
        touch(table, n);
    } else if (!strcmp(what, "malloc")) {
        touch(malloc((n + 1023) * PAGE), n + 1023);
    } else if (!strcmp(what, "file")) {
        /* Without pages, too: the C library's code of these calls lies in a window of its own or not, as it was mapped. */
        read_through(mmap(NULL, (n ? n : 1) * PAGE, PROT_READ, MAP_PRIVATE, open(path, O_RDONLY), 0), n);
    } else if (!strcmp(what, "call")) {
        for (long i = 0; i < n; i++)
            syscall(SYS_getpid);
    } else if (!strcmp(what, "write")) {
        write_to(open(path, O_WRONLY | O_CREAT, 0644), n);
    } else if (!strcmp(what, "pipe")) {
        through_a_pipe(n);
    } else if (!strcmp(what, "fork")) {
        if (fork() == 0) {
            touch(map(n, MAP_PRIVATE), n);
            _exit(0);
        }
        wait(NULL);
    }
    return 0;
}
