/* OpenMP: thread i does i + 1 parts of work a region. */
#include <omp.h>
#include <stdio.h>

#include "spin.h"

enum { ROUNDS = 10, TURNS = 300000 };

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
