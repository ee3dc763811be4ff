#define _GNU_SOURCE
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char cv_usage[] =
    "usage: convolver-probe --list\n"
    "       convolver-probe --forever KERNEL [--cpu N] [--bytes SIZE] [--pages ...]\n"
    "       convolver-probe --residency [--cpu N] [--bytes SIZE] [--pages ...]\n"
    "       convolver-probe --core [--cpu N] [--bytes SIZE] [--pages ...] < WINDOWS\n"
    "       convolver-probe --ports [--cpu N]\n"
    "       convolver-probe --system|--watch [--cpu N]\n"
    "       convolver-probe [--cpu N] [--bytes MAX] [--pages default|4k|thp|2m] [--sample S] [--limit S] [--warmup S]\n"
    "                       [--precision R] [--least N] [--most N] [--beside KERNEL] [--other CPU] < PLAN\n"
    "       convolver-probe --record|--run [--bytes MAX] [--pages default|4k|thp] < PLAN\n"
    "A line of the plan is 'KERNEL BYTES THREADS'. Each is measured in turn and answered by one line of JSON.\n"
    "With --record it is 'KERNEL BYTES REFERENCES WARM_LINES', and the references are written as the tracer writes them; --run makes\n"
    "them, without WARM_LINES, and prints where the working set, the data that stay in L1 and the indices lie.\n";

static int cv_parse_pages(const char *text, enum cv_pages *pages)
{
    static const char *const names[] = {"default", "4k", "thp", "2m"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(text, names[i])) {
            *pages = (enum cv_pages)i;
            return 0;
        }
    return -1;
}

int cv_parse_options(int count, char **arguments, struct cv_options *options)
{
    static const struct option table[] = {
        {"list", no_argument, NULL, 'L'},
        {"cpu", required_argument, NULL, 'c'},
        {"record", no_argument, NULL, 'R'},
        {"run", no_argument, NULL, 'X'},
        {"bytes", required_argument, NULL, 'b'},
        {"pages", required_argument, NULL, 'p'},
        {"sample", required_argument, NULL, 's'},
        {"limit", required_argument, NULL, 'l'},
        {"warmup", required_argument, NULL, 'w'},
        {"precision", required_argument, NULL, 'r'},
        {"least", required_argument, NULL, 'n'},
        {"most", required_argument, NULL, 'N'},
        {"forever", required_argument, NULL, 'F'},
        {"beside", required_argument, NULL, 'B'},
        {"other", required_argument, NULL, 'O'},
        {"residency", no_argument, NULL, 'S'},
        {"core", no_argument, NULL, 'K'},
        {"ports", no_argument, NULL, 'P'},
        {"system", no_argument, NULL, 'Y'},
        {"watch", no_argument, NULL, 'W'},
        {NULL, 0, NULL, 0},
    };
    *options = (struct cv_options){.cpu = -1, .other = -1, .bytes = (size_t)1 << 20, .effort = {0.0006, 0.12, 0.08, 0.02, 9, 31}};
    for (int letter; (letter = getopt_long(count, arguments, "", table, NULL)) != -1;) {
        int bad = 0;
        switch (letter) {
        case 'L': options->list = 1; break;
        case 'B': options->beside = optarg; break;
        case 'O': options->other = atoi(optarg); break;
        case 'S': options->task = CV_RESIDENCY; break;
        case 'K': options->task = CV_CORE; break;
        case 'P': options->task = CV_PORTS; break;
        case 'Y': options->task = CV_SYSTEM; break;
        case 'W': options->task = CV_WATCH; break;
        case 'F': options->forever = optarg, options->task = CV_FOREVER; break;
        case 'R': options->task = CV_RECORD; break;
        case 'X': options->task = CV_RUN; break;
        case 'c': options->cpu = atoi(optarg); break;
        case 'b': options->bytes = strtoull(optarg, NULL, 10); break;
        case 'p': bad = cv_parse_pages(optarg, &options->pages); break;
        case 's': options->effort.sample_seconds = atof(optarg); break;
        case 'l': options->effort.limit_seconds = atof(optarg); break;
        case 'w': options->effort.warmup_seconds = atof(optarg); break;
        case 'r': options->effort.precision = atof(optarg); break;
        case 'n': options->effort.least = atoi(optarg); break;
        case 'N': options->effort.most = atoi(optarg); break;
        default: bad = 1;
        }
        if (bad) {
            fputs(cv_usage, stderr);
            return -1;
        }
    }
    if (options->effort.most > CV_MAX_SAMPLES)
        options->effort.most = CV_MAX_SAMPLES;
    if (options->effort.sample_seconds <= 0 || options->effort.least < 3 || options->effort.most < options->effort.least) {
        fputs(cv_usage, stderr);
        return -1;
    }
    return 0;
}
