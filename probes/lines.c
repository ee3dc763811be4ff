#include "lines.h"

void cv_print_kernel(FILE *out, const struct cv_kernel *kernel)
{
    fprintf(out,
            "{\"kernel\": \"%s\", \"pattern\": \"%s\", \"operation\": \"%s\", \"width_bytes\": %u, \"stride_bytes\": %u, "
            "\"chains\": %u, \"per_iteration\": %u, \"flops\": %u, \"supported\": %s}\n",
            kernel->name, kernel->pattern, kernel->operation, kernel->width_bytes, kernel->stride_bytes, kernel->chains,
            kernel->per_iteration, kernel->flops, !kernel->supported || kernel->supported() ? "true" : "false");
}

static void cv_print_list(FILE *out, const char *name, const double *values, int count)
{
    fprintf(out, ", \"%s\": [", name);
    for (int i = 0; i < count; i++)
        fprintf(out, "%s%.5g", i ? ", " : "", values[i]);
    fputc(']', out);
}

void cv_print_point(FILE *out, const struct cv_kernel *kernel, size_t bytes, int threads, const struct cv_point *point)
{
    fprintf(out,
            "{\"kernel\": \"%s\", \"working_set_bytes\": %zu, \"threads\": %d, \"references\": %llu, \"rejected\": %d, "
            "\"interval\": %.4g, \"precise\": %s, \"cycle_seconds\": %.5g, \"elapsed_seconds\": %.4g",
            kernel->name, bytes, threads, (unsigned long long)point->references, point->rejected, point->interval,
            point->precise ? "true" : "false", point->cycle_seconds, point->elapsed_seconds);
    cv_print_list(out, "samples_seconds", point->samples, point->count);
    cv_print_list(out, "clocks_seconds", point->clocks, point->count);
    cv_print_list(out, "witness_cycles", point->witness, point->count);
    fputs("}\n", out);
    fflush(out);
}
