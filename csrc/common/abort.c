/* A library that others wrote ends the process with abort() where it finds no memory for what a file asks: here with a sentence. */
#include "cv_status.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char sentence[1024];
static int status, to;

static void say(int number)
{
    ssize_t written = write(to, sentence, strlen(sentence));
    (void)written;
    (void)number;
    _exit(status);
}

void cv_abort_says(const char *words, int exit_status, int descriptor)
{
    static struct sigaction before;
    if (words) {
        snprintf(sentence, sizeof sentence, "%s\n", words);
        status = exit_status;
        to = descriptor;
        struct sigaction action = {.sa_handler = say}, found;
        sigaction(SIGABRT, &action, &found);
        if (found.sa_handler != say)
            before = found;
    } else {
        sigaction(SIGABRT, &before, NULL);
    }
}
