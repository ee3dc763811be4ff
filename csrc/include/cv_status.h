/* Status codes of the C core. Values are pinned: Python maps each to an exception class (convolver/_native/status.py). */
#ifndef CV_STATUS_H
#define CV_STATUS_H

typedef enum {
    CV_OK = 0,
    CV_ERROR_MEMORY = 1,   /* an allocation failed */
    CV_ERROR_ARGUMENT = 2, /* the caller broke the contract */
    CV_ERROR_FORMAT = 3,   /* foreign data is malformed */
    CV_ERROR_IO = 4,       /* a read or write failed; errno tells */
    CV_ERROR_LIMIT = 5     /* a stated limit is exceeded */
} cv_status;

/* Message of a status code: a static string, never NULL. */
const char *cv_status_message(cv_status status);

#endif
