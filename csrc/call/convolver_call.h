/* Regions of a user's program that Convolver measures and models (docs/howto/call.md).
 *
 *     convolver_begin("product", "N", (double)n, "P", (double)p, NULL);
 *     ... the code ...
 *     convolver_end("product");
 *
 * Parameters are name and double pairs, ended by NULL. Regions may nest. Each end appends one JSON line to
 * $CONVOLVER_CALL_DIR/convolver-call.HOST.PID.jsonl. All functions return 0, or -1 when a region is unknown or too deep; they
 * never stop the program. One thread a process may call them. */
#ifndef CONVOLVER_CALL_H
#define CONVOLVER_CALL_H

#ifdef __cplusplus
extern "C" {
#endif

int convolver_begin(const char *region, ...);
int convolver_begin_list(const char *region, int count, const char *const *names, const double *values);
int convolver_end(const char *region);

/* Drivers to use, at spaces: "clock mpi counters host network". Default: $CONVOLVER_CALL_DRIVERS or "clock mpi". To be called
 * before the first region. */
void convolver_use(const char *drivers);

/* The formula a user expects for the time of a region; it is kept in the records and is the default of the analysis. */
void convolver_formula(const char *region, const char *formula);

#ifdef __cplusplus
}
#endif
#endif
