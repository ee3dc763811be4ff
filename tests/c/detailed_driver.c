/* Drives the detailed engine under the sanitizers: hierarchies drawn from a seed, most of them possible, some not. Prints for each made
 * one its totals; the laws are checked here, since nobody else sees what a level holds. */
#include "cv_detailed.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 600, COUNT = 1500, OWNERS = 40 };

static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t pick(uint64_t *state, uint64_t end) { return next(state) % end; }

static cv_detailed_level draw_level(uint64_t *s)
{
    uint64_t line = UINT64_C(16) << pick(s, 4);
    cv_detailed_level l = {.sets = 1 + pick(s, 20), .line_bytes = line, .sector_bytes = line >> pick(s, 2), .seed = pick(s, 3)};
    l.ways = pick(s, 50) ? 1 + (uint32_t)pick(s, 8) : 64 + (uint32_t)pick(s, 2);
    l.policy = (uint32_t)pick(s, 8);
    l.inclusion = pick(s, 3) ? 0 : (uint32_t)pick(s, 4);
    l.write_through = pick(s, 4) == 0;
    l.no_allocate = pick(s, 4) == 0;
    l.combining = pick(s, 3) ? 0 : (uint32_t)pick(s, 4);
    l.index = pick(s, 2) ? 0 : (uint32_t)pick(s, 4);
    l.slices = l.index == CV_INDEX_INTEL_SLICES ? 4 : 1;
    l.sets *= l.slices;
    l.prefetcher = pick(s, 2) ? 0 : (uint32_t)pick(s, 4);
    l.degree = 1 + (uint32_t)pick(s, 4);
    l.entries = 1 + (uint32_t)pick(s, 8);
    l.classify = pick(s, 2) == 0;
    return l;
}

/* Every batch lies in memory of exactly its own size, so that a read beyond its end is seen. */
static cv_status feed(cv_detailed *d, uint32_t core, uint64_t *s, size_t count)
{
    static const uint64_t bases[] = {0, 4096, UINT64_C(0x7f0000000000), UINT64_MAX - 6000};
    uint64_t *address = malloc(count * sizeof *address);
    uint32_t *owner = malloc(count * sizeof *owner);
    uint16_t *size = malloc(count * sizeof *size);
    uint8_t *write = malloc(count);
    for (size_t i = 0; i < count; i++) {
        uint64_t r = next(s);
        address[i] = bases[r % 4] + (i % 2 ? 8 * i : (r >> 8) % 6000);
        owner[i] = (uint32_t)(r >> 40) % OWNERS;
        size[i] = (r >> 58) ? 8 : (uint16_t)(1 + (r >> 32) % 300);
        write[i] = (r >> 30) & 1;
    }
    cv_refs refs = {address, owner, size, write, count};
    cv_status status = cv_detailed_feed(d, core, &refs);
    free(address);
    free(owner);
    free(size);
    free(write);
    return status;
}

static void check(const cv_detailed *d, uint32_t n_levels, uint32_t groups)
{
    uint64_t count = cv_detailed_owners(d) * groups * CV_DETAILED_COUNTS, *rows = malloc(count * sizeof *rows), above = 0;
    for (uint32_t k = 0; k < n_levels; k++) {
        uint64_t sum[CV_DETAILED_COUNTS] = {0};
        if (cv_detailed_counts(d, k, rows) != CV_OK)
            exit(3);
        for (uint64_t i = 0; i < count; i++)
            sum[i % CV_DETAILED_COUNTS] += rows[i];
        if (sum[CV_COUNT_EVICTIONS] > sum[CV_COUNT_FILLS] || (k && sum[CV_COUNT_ACCESSES] != above) ||
            sum[CV_COUNT_MISSES] > sum[CV_COUNT_ACCESSES])
            exit(4);
        above = sum[CV_COUNT_FETCHES] + sum[CV_COUNT_WRITES_THROUGH];
        printf("%u %llu %llu\n", k, (unsigned long long)sum[CV_COUNT_ACCESSES], (unsigned long long)sum[CV_COUNT_MISSES]);
    }
    free(rows);
}

static void try_one(uint64_t *s)
{
    cv_detailed_level levels[4], tlbs[2] = {{.sets = 4, .line_bytes = 4096, .sector_bytes = 4096, .ways = 4, .slices = 1},
                                            {.sets = 1, .line_bytes = 1 << 30, .sector_bytes = 1 << 30, .ways = 16, .slices = 1}};
    uint32_t n_levels = 1 + (uint32_t)pick(s, 4), cores = 1 + (uint32_t)pick(s, 3), n_tlbs = (uint32_t)pick(s, 3);
    for (uint32_t k = 0; k < n_levels; k++) {
        levels[k] = draw_level(s);
        levels[k].shared = k + 1 == n_levels;
    }
    cv_detailed *d = NULL;
    cv_status status = cv_detailed_new(levels, n_levels, tlbs, n_tlbs, cores, (uint32_t)pick(s, 5), &d);
    if (status == CV_ERROR_ARGUMENT)
        return;
    if (status != CV_OK || cv_detailed_feed(d, cores, &(cv_refs){0}) != CV_ERROR_ARGUMENT)
        exit(2);
    uint32_t groups = pick(s, 2) ? 1 : CV_SIM_GROUPS;
    if (groups > 1 && cv_detailed_group_bursts(d) != CV_OK)
        exit(7);
    for (uint32_t core = 0; core < cores; core++) {
        cv_detailed_burst(d, pick(s, 100));
        if (feed(d, core, s, COUNT) != CV_OK)
            exit(5);
    }
    check(d, n_levels, groups);
    if (cv_detailed_limit_owners(d, 1) != CV_OK || feed(d, 0, s, 100) != CV_ERROR_LIMIT)
        exit(6);
    cv_detailed_free(d);
}

int main(void)
{
    uint64_t state = 1;
    for (int round = 0; round < ROUNDS; round++)
        try_one(&state);
    cv_detailed_free(NULL);
    return 0;
}
