/* The runtime of CALL: a stack of open regions, the chosen drivers, one JSON line a finished region. */
#include "convolver_call.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"

#define DEPTH 32
#define PARAMETERS 32
#define NAME 128
#define DRIVERS 8
#define FORMULAS 64

struct region {
    char name[NAME];
    int count;
    char names[PARAMETERS][NAME];
    double values[PARAMETERS];
    double begin[DRIVERS][CV_CALL_METRICS];
    double start_unix;
};

static struct cv_call_driver *const known[] = {
    &cv_call_counters, &cv_call_host,
#ifdef CONVOLVER_CALL_MPI
    &cv_call_network,  &cv_call_mpi,
#endif
    &cv_call_clock, /* last: its begin is the last snapshot before the region and its end the first after it */
};
#define KNOWN ((int)(sizeof known / sizeof *known))

static struct region stack[DEPTH];
static int depth, opened;
static struct cv_call_driver *used[DRIVERS];
static int used_count;
static char wanted[256];
static char trouble[1024];
static struct cv_call_place place;
static struct {
    char region[NAME], text[512];
} formulas[FORMULAS];
static int formula_count;

static void copy(char *to, size_t size, const char *from) { snprintf(to, size, "%s", from ? from : ""); }

static double unix_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int is_wanted(const char *name)
{
    size_t length = strlen(name);
    for (const char *at = wanted; (at = strstr(at, name)) != NULL; at += length)
        if ((at == wanted || at[-1] == ' ') && (at[length] == ' ' || at[length] == 0))
            return 1;
    return 0;
}

static int environment(const char *const *names, int otherwise)
{
    for (; *names; names++)
        if (getenv(*names))
            return atoi(getenv(*names));
    return otherwise;
}

static void find_place(void)
{
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", NULL};
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", NULL};
    const char *run = getenv("CONVOLVER_CALL_RUN");
    place.rank = environment(ranks, 0);
    place.size = environment(sizes, 1);
    snprintf(place.run, sizeof place.run, "%.0f-%ld", 1e6 * unix_time(), (long)getpid());
#ifdef CONVOLVER_CALL_MPI
    cv_call_mpi_place(&place);
#endif
    if (run)
        copy(place.run, sizeof place.run, run);
}

static void open_drivers(void)
{
    if (opened)
        return;
    opened = 1;
    if (!wanted[0])
        copy(wanted, sizeof wanted, getenv("CONVOLVER_CALL_DRIVERS") ? getenv("CONVOLVER_CALL_DRIVERS") : "clock mpi");
    find_place();
    for (int i = 0; i < KNOWN; i++) {
        const char *why = is_wanted(known[i]->name) ? known[i]->open() : "";
        if (!why)
            used[used_count++] = known[i];
        else if (why[0])
            snprintf(trouble + strlen(trouble), sizeof trouble - strlen(trouble), "%s%s: %s", trouble[0] ? "; " : "", known[i]->name, why);
    }
}

void convolver_use(const char *drivers) { copy(wanted, sizeof wanted, drivers); }

void convolver_formula(const char *region, const char *formula)
{
    for (int i = 0; i < formula_count; i++)
        if (!strcmp(formulas[i].region, region))
            return;
    if (formula_count < FORMULAS) {
        copy(formulas[formula_count].region, NAME, region);
        copy(formulas[formula_count++].text, sizeof formulas[0].text, formula);
    }
}

int convolver_begin_list(const char *region, int count, const char *const *names, const double *values)
{
    if (depth >= DEPTH || count > PARAMETERS || count < 0)
        return -1;
    struct region *top = &stack[depth];
    copy(top->name, NAME, region);
    top->count = count;
    for (int i = 0; i < count; i++) {
        copy(top->names[i], NAME, names[i]);
        top->values[i] = values[i];
    }
    open_drivers();
    depth++;
    for (int i = 0; i < used_count; i++)
        if (used[i]->prepare)
            used[i]->prepare();
    top->start_unix = unix_time();
    for (int i = 0; i < used_count; i++)
        used[i]->read(top->begin[i]);
    return 0;
}

int convolver_begin(const char *region, ...)
{
    const char *names[PARAMETERS], *name;
    double values[PARAMETERS];
    int count = 0;
    va_list list;
    va_start(list, region);
    while ((name = va_arg(list, const char *)) != NULL && count < PARAMETERS) {
        names[count] = name;
        values[count++] = va_arg(list, double);
    }
    va_end(list);
    return convolver_begin_list(region, count, names, values);
}

static void put_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        if ((unsigned char)*text >= ' ')
            fputc(*text, out);
    }
    fputc('"', out);
}

static FILE *record_file(char *host, size_t size)
{
    static FILE *out;
    if (gethostname(host, size) != 0)
        copy(host, size, "unknown");
    host[size - 1] = 0;
    if (!out) {
        char path[1024];
        const char *folder = getenv("CONVOLVER_CALL_DIR");
        snprintf(path, sizeof path, "%s/convolver-call.%s.%ld.%d.jsonl", folder ? folder : ".", host, (long)getpid(), place.rank);
        const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
        out = file < 0 ? NULL : fdopen(file, "a");
        if (!out)
            fprintf(stderr, "convolver: %s cannot be written; set CONVOLVER_CALL_DIR to a folder that can.\n", path);
    }
    return out;
}

static void put_metrics(FILE *out, const struct region *region, double (*end)[CV_CALL_METRICS])
{
    const char *comma = "";
    for (int i = 0; i < used_count; i++)
        for (int j = 0; j < used[i]->count; j++) {
            const struct cv_call_metric *metric = &used[i]->metrics[j];
            double value = end[i][j] - (metric->state ? 0 : region->begin[i][j]);
            if (value != value || value - value != 0) /* nan or infinite: not known, and no JSON */
                continue;
            fprintf(out, "%s\"%s\":{\"value\":%.17g,\"unit\":\"%s\"}", comma, metric->name, value, metric->unit);
            comma = ",";
        }
}

static void put_record(FILE *out, const struct region *region, double (*end)[CV_CALL_METRICS], double end_unix, const char *host)
{
    fputs("{\"region\":", out);
    put_text(out, region->name);
    fprintf(out, ",\"run\":\"%s\",\"rank\":%d,\"size\":%d,\"host\":", place.run, place.rank, place.size);
    put_text(out, host);
    fprintf(out, ",\"start\":%.9f,\"end\":%.9f,\"parameters\":{", region->start_unix, end_unix);
    for (int i = 0; i < region->count; i++) {
        fputs(i ? "," : "", out);
        put_text(out, region->names[i]);
        fprintf(out, ":%.17g", region->values[i]);
    }
    fputs("},\"metrics\":{", out);
    put_metrics(out, region, end);
    fputs("}", out);
    for (int i = 0; i < formula_count; i++)
        if (!strcmp(formulas[i].region, region->name)) {
            fputs(",\"formula\":", out);
            put_text(out, formulas[i].text);
        }
    if (trouble[0]) {
        fputs(",\"trouble\":", out);
        put_text(out, trouble);
    }
    fputs("}\n", out);
    fflush(out);
}

int convolver_end(const char *region)
{
    double end[DRIVERS][CV_CALL_METRICS];
    char host[256];
    for (int i = used_count - 1; i >= 0; i--) /* the clock first */
        used[i]->read(end[i]);
    if (depth == 0 || strncmp(stack[depth - 1].name, region, NAME - 1) != 0)
        return -1;
    depth--;
    FILE *out = record_file(host, sizeof host);
    if (!out)
        return -1;
    put_record(out, &stack[depth], end, unix_time(), host);
    return 0;
}
