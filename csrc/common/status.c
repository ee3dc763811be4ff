#include "cv_status.h"

const char *cv_status_message(cv_status status)
{
    switch (status) {
    case CV_OK: return "no error";
    case CV_ERROR_MEMORY: return "out of memory";
    case CV_ERROR_ARGUMENT: return "invalid argument";
    case CV_ERROR_FORMAT: return "malformed data";
    case CV_ERROR_IO: return "input or output failed";
    case CV_ERROR_LIMIT: return "limit exceeded";
    case CV_ERROR_INTERRUPTED: return "interrupted";
    }
    return "unknown status";
}
