/* Three threads, each over an array of its own; prints the sum. */
#include <pthread.h>
#include <stdio.h>

static long data[3][1000];
static pthread_barrier_t all; /* nobody ends before everybody runs: Valgrind uses the numbers of ended threads again */

static void *fill(void *argument)
{
    long *mine = data[(long)argument];
    for (int round = 0; round < 20; round++)
        for (int i = 0; i < 1000; i++)
            mine[i] += i;
    pthread_barrier_wait(&all);
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    long sum = 0;
    pthread_barrier_init(&all, NULL, 3);
    for (long t = 0; t < 3; t++)
        pthread_create(&threads[t], NULL, fill, (void *)t);
    for (int t = 0; t < 3; t++) {
        pthread_join(threads[t], NULL);
        sum += data[t][999];
    }
    printf("%ld\n", sum);
    return 0;
}
