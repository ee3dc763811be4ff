/* Threads of C11: thread i does i + 1 parts of work. */
#include <stdio.h>
#include <threads.h>

enum { THREADS = 4, ROUNDS = 10, TURNS = 300000 };

static mtx_t lock;
static double sum;

static __attribute__((noinline)) double spin(long turns)
{
    double x = 1;
    __asm__ volatile("" ::: "memory"); /* nobody may move, share or leave out a call */
    for (long i = 0; i < turns; i++)
        x = x * 0.99999 + 1e-9;
    return x;
}

static int unequal(void *number)
{
    for (int r = 0; r < ROUNDS; r++) {
        double mine = spin(TURNS * ((long)number + 1));
        mtx_lock(&lock);
        sum += mine;
        mtx_unlock(&lock);
    }
    return 0;
}

int main(void)
{
    thrd_t made[THREADS];
    mtx_init(&lock, mtx_plain);
    for (long i = 0; i < THREADS; i++)
        thrd_create(&made[i], unequal, (void *)i);
    for (int i = 0; i < THREADS; i++)
        thrd_join(made[i], NULL);
    printf("%.3f\n", sum);
    return 0;
}
