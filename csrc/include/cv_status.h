/* Status codes of the C core. Values are pinned: Python maps each to an exception class (convolver/_native/status.py). */
#ifndef CV_STATUS_H
#define CV_STATUS_H

typedef enum {
    CV_OK = 0,
    CV_ERROR_MEMORY = 1,     /* an allocation failed */
    CV_ERROR_ARGUMENT = 2,   /* the caller broke the contract */
    CV_ERROR_FORMAT = 3,     /* foreign data is malformed */
    CV_ERROR_IO = 4,         /* a read or write failed; errno tells */
    CV_ERROR_LIMIT = 5,      /* a stated limit is exceeded */
    CV_ERROR_INTERRUPTED = 6 /* cv_ask_for_interrupts: the caller wants the call to end */
} cv_status;

/* Message of a status code: a static string, never NULL. */
const char *cv_status_message(cv_status status);

/* Calls that can take long ask this some times a second and end with CV_ERROR_INTERRUPTED where it returns no 0. NULL: they ask nobody.
 * What they worked on is then good for nothing but being freed. */
void cv_ask_for_interrupts(int (*ask)(void));

/* From now on abort() writes words to a descriptor and ends the process with this exit status; NULL: as before the first call. */
void cv_abort_says(const char *words, int exit_status, int descriptor);

#endif
