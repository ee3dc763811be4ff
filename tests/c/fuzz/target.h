/* A target for libFuzzer; built without it (no FUZZING), the program runs the files that it is given.

   An input that takes more than LIMIT_SECONDS of processor time ends the program. libFuzzer's own limit is elapsed time, which passes
   while the process is stopped or waits for a CPU. */
#ifndef TARGET_H
#define TARGET_H

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#ifndef LIMIT_SECONDS
#define LIMIT_SECONDS 10
#endif

static void take(const uint8_t *data, size_t size);

static void on_limit(int number)
{
    static const char text[] = "An input takes too much processor time.\n";
    size_t written = (size_t)write(STDERR_FILENO, text, sizeof text - 1);
    (void)number, (void)written;
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct itimerval limit = {.it_value.tv_sec = LIMIT_SECONDS}, none;
    signal(SIGPROF, on_limit);
    setitimer(ITIMER_PROF, &limit, NULL);
    take(data, size);
    setitimer(ITIMER_PROF, &none, NULL);
    return 0;
}

#ifndef FUZZING
int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (!file)
            return 2;
        uint8_t *room = malloc(1 << 20);
        size_t size = fread(room, 1, 1 << 20, file);
        uint8_t *data = realloc(room, size + !size); /* of exactly this size, so that a read beyond its end is seen */
        LLVMFuzzerTestOneInput(data, size);
        free(data);
        fclose(file);
    }
    return 0;
}
#endif

#endif
