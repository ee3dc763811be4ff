/* Loops of known length over memory of every kind. With an argument, a forked child goes on with a block of its parent's. Status 1:
 * the second allocation did not get the address of the first one, which was freed. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 1000 };

static long table[N];
static volatile long sink;

__attribute__((noinline)) static long *make_first(void) { return malloc(N * sizeof(long)); }
__attribute__((noinline)) static long *make_second(void) { return malloc(N * sizeof(long)); }
__attribute__((noinline)) static long *make_zeroed(void) { return calloc(N, sizeof(long)); }
__attribute__((noinline)) static long *make_longer(long *old) { return realloc(old, 4 * N * sizeof(long)); }
__attribute__((noinline)) static void *own_wrapper(size_t bytes)
{
    void *made = malloc(bytes);
    return made ? made : abort(), made;
}
__attribute__((noinline)) static long *make_wrapped(void)
{
    long *made = own_wrapper(N * sizeof(long));
    sink = 0;
    return made;
}

__attribute__((noinline)) static long *map_memory(void)
{
    return mmap(NULL, N * sizeof(long), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

__attribute__((noinline)) static long *map_file(const char *path)
{
    return mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, open(path, O_RDONLY), 0);
}

__attribute__((noinline)) static void fill(long *to, long count)
{
    for (long i = 0; i < count; i++)
        to[i] = i;
}

__attribute__((noinline)) static long sum(const long *from, long count)
{
    long total = 0;
    for (long i = 0; i < count; i++)
        total += from[i];
    return total;
}

static void *work(void *none)
{
    long local[N];
    fill(local, N);
    sink = sum(local, N);
    return none;
}

int main(int argc, char **argv)
{
    long local[N];
    long *first = make_first();
    volatile unsigned long was = (unsigned long)first;
    fill(first, N);
    free(first);
    long *second = make_second();
    fill(second, N);
    sink = sum(second, N);
    long *zeroed = make_zeroed();
    sink = sum(zeroed, N);
    int other = was != (unsigned long)second;
    long *longer = make_longer(second);
    fill(longer, 4 * N);
    fill(make_wrapped(), N);
    fill(map_memory(), N);
    sink = sum(map_file(argv[0]), 512);
    fill(table, N);
    fill(local, N);
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    if (argc > 1) {
        if (fork() == 0) {
            fill(zeroed, N);
            _exit(0);
        }
        wait(NULL);
    }
    sink = sum(longer, N);
    free(longer);
    return other;
}
