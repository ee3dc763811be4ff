/* Threads of C11: thread i does i + 1 parts of work. */
#include <stdio.h>
#include <threads.h>

#include "spin.h"

enum { THREADS = 4, ROUNDS = 10, TURNS = 300000 };

static mtx_t lock;
static double sum;

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
