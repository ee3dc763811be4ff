/* Three threads that each sum an array of their own. */
#include <pthread.h>
#include <stdio.h>

static double values[3][1000];
static pthread_barrier_t together; /* so that no thread ends, and leaves its number to another, before all have begun */

static void *work(void *row)
{
    double total = 0, *mine = row;
    pthread_barrier_wait(&together);
    for (int i = 0; i < 1000; i++)
        total += mine[i] += i;
    mine[0] = total;
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    pthread_barrier_init(&together, NULL, 3);
    for (int t = 0; t < 3; t++)
        pthread_create(&threads[t], NULL, work, values[t]);
    for (int t = 0; t < 3; t++)
        pthread_join(threads[t], NULL);
    printf("%g\n", values[0][0] + values[1][0] + values[2][0]);
    return 0;
}
