/* OpenMP: thread i does i + 1 parts of work a region. */
#include <omp.h>
#include <stdio.h>

enum { ROUNDS = 10, TURNS = 300000 };

static __attribute__((noinline)) double spin(long turns)
{
    double x = 1;
    __asm__ volatile("" ::: "memory"); /* nobody may move, share or leave out a call */
    for (long i = 0; i < turns; i++)
        x = x * 0.99999 + 1e-9;
    return x;
}

int main(void)
{
    double sum = 0;
    for (int r = 0; r < ROUNDS; r++) {
#pragma omp parallel reduction(+ : sum)
        {
            sum += spin((long)TURNS * (omp_get_thread_num() + 1));
        }
    }
    printf("%.3f\n", sum);
    return 0;
}
