/* What the probe prints: one JSON object a line on stdout. */
#ifndef CV_LINES_H
#define CV_LINES_H

#include <stdio.h>

#include "measure.h"

void cv_print_kernel(FILE *out, const struct cv_kernel *kernel);
void cv_print_point(FILE *out, const struct cv_kernel *kernel, size_t bytes, int threads, const struct cv_point *point);

#endif
