#include "lines.h"

void cv_print_kernel(FILE *out, const struct cv_kernel *kernel)
{
    fprintf(out,
            "{\"kernel\": \"%s\", \"pattern\": \"%s\", \"operation\": \"%s\", \"width_bytes\": %u, \"stride_bytes\": %u, "
            "\"chains\": %u, \"per_iteration\": %u, \"flops\": %u, \"supported\": %s}\n",
            kernel->name, kernel->pattern, kernel->operation, kernel->width_bytes, kernel->stride_bytes, kernel->chains,
            kernel->per_iteration, kernel->flops, !kernel->supported || kernel->supported() ? "true" : "false");
}

void cv_print_point(FILE *out, const struct cv_kernel *kernel, size_t bytes, int threads, const struct cv_point *point)
{
    fprintf(out,
            "{\"kernel\": \"%s\", \"working_set_bytes\": %zu, \"threads\": %d, \"references\": %llu, \"rejected\": %d, "
            "\"interval\": %.4g, \"precise\": %s, \"cycle_seconds\": %.5g, \"elapsed_seconds\": %.4g, \"samples_seconds\": [",
            kernel->name, bytes, threads, (unsigned long long)point->references, point->rejected, point->interval,
            point->precise ? "true" : "false", point->cycle_seconds, point->elapsed_seconds);
    for (int i = 0; i < point->count; i++)
        fprintf(out, "%s%.5g", i ? ", " : "", point->samples[i]);
    fputs("]}\n", out);
    fflush(out);
}
