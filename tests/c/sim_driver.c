/* Drives the simulator through its edges under the sanitizers: prints the totals of one deterministic stream. */
#include "cv_sim.h"

#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 9000, SIMS = 5 };

static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static const cv_sim_level LEVELS[] = {{64, 12, 64, 0, 1, 0, 0, 0}, {1024, 16, 64, 0, 1, 0, 0, 0}, {53, 20, 64, 0, 0, 3, 2, 0},
                                      {1, 1, 8, 0, 0, 0, 0, 0},    {3, 64, 4096, 0, 0, 0, 0, 0},  {100, 33, 4096, 0, 0, 0, 0, 0},
                                      {64, 8, 64, 1, 0, 0, 0, 0},  {16, 64, 64, 2, 0, 0, 0, 0},   {7, 64, 64, 3, 0, 0, 0, 0},
                                      {9, 5, 64, 4, 0, 0, 0, 0},   {11, 3, 64, 5, 0, 0, 0, 0},    {65, 4, 64, 6, 0, 0, 0, 0},
                                      {5, 7, 64, 7, 0, 0, 0, 0},   {512, 7, 64, 2, 0, 0, 0, 1}};
static const uint32_t N_LEVELS[] = {3, 1, 2, 8};
static const uint64_t BASES[] = {0, 1 << 20, UINT64_C(0x7f0000000000), UINT64_C(0x7ffc00000000), UINT64_MAX - 70000};

static void check(cv_status status, const char *what)
{
    if (status != CV_OK) {
        fprintf(stderr, "%s: %s\n", what, cv_status_message(status));
        exit(1);
    }
}

/* Every batch lies in memory of exactly its own size, so that a read beyond its end is seen. */
static void feed(cv_sim *const *sims, uint64_t *state, size_t count)
{
    uint64_t *address = malloc(count * sizeof *address);
    uint32_t *owner = malloc(count * sizeof *owner);
    uint16_t *size = malloc(count * sizeof *size);
    uint8_t *write = malloc(count);
    for (size_t i = 0; i < count; i++) {
        uint64_t r = next(state);
        address[i] = BASES[r % 5] + (r >> 8) % (i % 3 ? 4096 : 65536);
        owner[i] = (uint32_t)(r >> 40) % 3000;
        size[i] = (r >> 58) ? 8 : (uint16_t)(r >> 32);
        write[i] = (r >> 30) & 1;
    }
    cv_refs all = {address, owner, size, write, count}, bare = {address, NULL, NULL, NULL, count};
    cv_refs short_ones = {address, owner, NULL, write, count};
    for (int i = 0; i < SIMS; i++) {
        cv_sim_burst(sims[i], count);
        check(cv_sim_thread(sims[i], (uint32_t)(count % 3)), "thread");
        check(cv_sim_feed(sims[i], &all), "feed");
        check(cv_sim_feed(sims[i], &bare), "feed");
        if (i > 2)
            check(cv_sim_feed(sims[i], &short_ones), "feed");
    }
    free(address);
    free(owner);
    free(size);
    free(write);
}

static void print_totals(const cv_sim *sim, uint32_t groups, uint32_t hierarchies)
{
    uint64_t owners = cv_sim_owners(sim) * groups, *counts = malloc(3 * owners * sizeof *counts);
    for (uint32_t h = 0; h < hierarchies; h++)
        for (uint32_t k = 0; k < N_LEVELS[h]; k++) {
            check(cv_sim_counts(sim, h, k, counts, counts + owners, counts + 2 * owners), "counts");
            uint64_t sum[3] = {0, 0, 0};
            for (uint64_t i = 0; i < 3 * owners; i++)
                sum[i / owners] += counts[i];
            printf("%u %u %llu %llu %llu\n", h, k, (unsigned long long)sum[0], (unsigned long long)sum[1], (unsigned long long)sum[2]);
        }
    free(counts);
}

/* All of it; two hierarchies by groups of sets and of bursts, and the same on some of the sets. */
static void make(cv_sim **sims)
{
    for (int i = 0; i < SIMS; i++)
        check(cv_sim_new(LEVELS, N_LEVELS, i ? 2 : 4, &sims[i]), "new");
    check(cv_sim_group(sims[1], 9), "group");
    check(cv_sim_group_bursts(sims[2]), "group");
    check(cv_sim_select(sims[3], 7, 3), "select");
    check(cv_sim_group(sims[3], 9), "group");
    check(cv_sim_select(sims[4], 3, 1), "select");
    check(cv_sim_group_bursts(sims[4]), "group");
}

int main(void)
{
    cv_sim *sim = NULL, *sims[SIMS];
    const cv_sim_level impossible[] = {{64, 65, 64, 0, 0, 0, 0, 0}, {64, 8, 48, 0, 0, 0, 0, 0}, {0, 8, 64, 0, 0, 0, 0, 0},
                                       {8, 3, 64, 3, 0, 0, 0, 0},   {8, 4, 64, 8, 0, 0, 0, 0},  {8, 4, 64, 0, 0, 0, 0, 1}};
    const cv_sim_level below[] = {{64, 12, 64, 0, 0, 0, 0, 0}, {64, 12, 64, 0, 1, 0, 0, 0}};
    const uint32_t one = 1, two = 2;
    for (int i = 0; i < 6; i++)
        if (cv_sim_new(&impossible[i], &one, 1, &sim) != CV_ERROR_ARGUMENT)
            return 2;
    if (cv_sim_new(below, &two, 1, &sim) != CV_ERROR_ARGUMENT)
        return 2;
    make(sims);
    uint64_t state = 1;
    const size_t sizes[] = {1, 7, 8, 9, 63, 8191, 8192, 8193, COUNT};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        feed(sims, &state, sizes[i]);
    if (cv_sim_counts(sims[0], 4, 0, NULL, NULL, NULL) != CV_ERROR_ARGUMENT || cv_sim_group_bursts(sims[0]) != CV_ERROR_ARGUMENT)
        return 3;
    if (cv_sim_thread(sims[0], CV_SIM_MAX_THREADS) != CV_ERROR_LIMIT)
        return 4;
    for (int i = 0; i < SIMS; i++) {
        print_totals(sims[i], i ? CV_SIM_GROUPS : 1, i ? 2 : 4);
        cv_sim_free(sims[i]);
    }
    cv_sim_free(NULL);
    return 0;
}
