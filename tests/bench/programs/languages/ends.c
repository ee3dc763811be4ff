/* How threads and processes may end: ends WHAT. Thread i does i + 1 parts of work. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spin.h"

enum { THREADS = 4, TURNS = 3000000 };

static const char *what;

static void *unequal(void *number)
{
    spin(TURNS * ((long)number + 1));
    if (!strcmp(what, "exit") && (long)number == THREADS - 1) {
        puts("ended by the last thread");
        exit(0); /* the first thread waits for it */
    }
    return NULL;
}

int main(int count, char **words)
{
    pthread_t made[THREADS];
    what = count > 1 ? words[1] : "";
    for (long i = 0; i < THREADS; i++)
        pthread_create(&made[i], NULL, unequal, (void *)i);
    if (!strcmp(what, "fork")) { /* while they run */
        pid_t child = fork();
        if (!child) {
            spin(TURNS);
            _exit(3);
        }
        int status;
        waitpid(child, &status, 0);
        printf("child: %d\n", WEXITSTATUS(status));
    }
    if (!strcmp(what, "detached")) { /* nobody waits for them */
        for (int i = 0; i < THREADS; i++)
            pthread_detach(made[i]);
        pthread_exit(NULL);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(made[i], NULL);
    puts("joined");
    return 0;
}
