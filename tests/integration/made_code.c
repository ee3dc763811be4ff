/* A program that changes its own code in all ways that the native engine must survive: text that it patches, made code that calls back in
 * threads, under signals, forks and spawns, and made code that changes itself. */
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
typedef int made(int, int (*)(int));

static unsigned char *page;
static volatile int caught;

static void on_alarm(int number) { caught = number; }

__attribute__((noinline, aligned(4096))) static int patched(void)
{
    static volatile int x = 41;
    return x;
}

__attribute__((noinline)) static int twice(void) { return patched() + patched(); }

static void protect_text(int how) { mprotect((void *)((uint64_t)patched & ~UINT64_C(4095)), 4096, how); }

static int helper(int x) { return x * 3 + 1; }

static void *call_back(void *ignored)
{
    long sum = 0;
    for (int i = 0; i < 2000; i++)
        sum += ((made *)page)(i, helper);
    (void)ignored;
    return (void *)sum;
}

static int status_of(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        ;
    return WEXITSTATUS(status);
}

int main(void)
{
    static const unsigned char returns_5[] = {0xb8, 5, 0, 0, 0, 0xc3};
    static const unsigned char calls_back[] = {0x48, 0x83, 0xec, 8, 0xff, 0xd6, 0x48, 0x83, 0xc4, 8, 0xff, 0xc0, 0xc3};
    static const unsigned char counts_itself[] = {0xb8, 0, 0, 1, 0, 0xff, 0xc8, 0x75, 0xfc, 0xff, 0x05, 0xf2, 0xff, 0xff, 0xff, 0xc3};
    long sum = 0, of_threads = 0;
    pthread_t threads[4];
    void *result;
    for (int i = 0; i < 100; i++)
        sum += twice();
    protect_text(7);
    memcpy((void *)patched, returns_5, sizeof returns_5);
    protect_text(5);
    for (int i = 0; i < 100; i++)
        sum += twice();
    protect_text(7);
    for (int i = 0; i < 100; i++) {
        ((unsigned char *)patched)[1] = (unsigned char)i;
        sum += twice();
    }
    printf("patched %ld\n", sum);
    page = mmap(NULL, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, calls_back, sizeof calls_back);
    signal(SIGALRM, on_alarm);
    ualarm(1000, 1000);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, call_back, NULL);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &result);
        of_threads += (long)result;
    }
    for (int i = 0; i < 5; i++) {
        char *arguments[] = {"true", NULL};
        pid_t child = fork();
        if (!child)
            _exit(((made *)page)(i, helper) & 127);
        sum += status_of(child);
        if (!posix_spawnp(&child, "true", NULL, NULL, arguments, environ))
            sum += status_of(child);
        sum += ((made *)page)(i, helper);
    }
    while (!caught)
        ;
    ualarm(0, 0);
    memcpy(page, counts_itself, sizeof counts_itself);
    for (int i = 0; i < 10; i++)
        ((made *)page)(0, helper);
    printf("called back %ld %ld, changed %d, signal %d\n", of_threads, sum, page[1], caught);
    for (int i = 0; i < 900000; i++)
        __asm__ volatile("" : "+r"(sum));
    printf("%ld\n", sum);
    return 0;
}
