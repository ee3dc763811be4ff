typedef enum { CV_OK, CV_ERROR_MEMORY, CV_ERROR_ARGUMENT, CV_ERROR_FORMAT, CV_ERROR_IO, CV_ERROR_LIMIT, ... } cv_status;
const char *cv_status_message(cv_status status);
