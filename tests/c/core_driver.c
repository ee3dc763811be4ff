/* Random code and random paths through the core model, for the sanitizers: prints what was walked and how long it took. */
#include <stdio.h>
#include <stdlib.h>

#include "some_core.h"

#define SEGMENTS 40
#define OPS 400
#define SITES 200
#define VISITS 3000

static uint64_t state = 7;

static uint32_t below(uint32_t limit)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % limit;
}

static cv_core_op random_op(uint32_t classes)
{
    cv_core_op op = {.flags = (uint16_t)(below(4) ? below(128) : below(UINT16_MAX)),
                     .class_ = (uint8_t)below(classes),
                     .slots = (uint8_t)below(6),
                     .n_reads = (uint8_t)below(CV_CORE_READS + 1),
                     .n_addresses = (uint8_t)below(CV_CORE_ADDRESSES + 1),
                     .n_writes = (uint8_t)below(CV_CORE_WRITES + 1)};
    for (int i = 0; i < CV_CORE_READS; i++)
        op.reads[i] = (uint8_t)below(CV_CORE_REGISTERS);
    for (int i = 0; i < CV_CORE_ADDRESSES; i++)
        op.addresses[i] = (uint8_t)below(CV_CORE_REGISTERS);
    for (int i = 0; i < CV_CORE_WRITES; i++)
        op.writes[i] = (uint8_t)below(CV_CORE_REGISTERS);
    return op;
}

int main(void)
{
    const cv_core_class classes[] = {
        {0, 0, 0, 1, 0, 0, 0, 0}, {0xf, 1, 1, 1, 0, 0, 0, 2}, {0x3, 4, 2, 1, 1, 0, 0x10, 0}, {0x200, 20, 20, 9, 0, 1, 0, 0}};
    uint32_t first[SEGMENTS + 1];
    uint64_t address[SEGMENTS], next[SEGMENTS];
    cv_core_op op[OPS];
    uint16_t site_op[SITES], site_bytes[SITES];
    uint8_t site_store[SITES];
    for (uint32_t i = 0; i <= SEGMENTS; i++)
        first[i] = i * OPS / SEGMENTS;
    for (uint32_t i = 0; i < SEGMENTS; i++)
        address[i] = 64 * i, next[i] = 64 * i + 64;
    for (uint32_t i = 0; i < OPS; i++)
        op[i] = random_op(4);
    for (uint32_t i = 0; i < SITES; i++)
        site_op[i] = (uint16_t)(i * OPS / SITES % (OPS / SEGMENTS)), site_bytes[i] = (uint16_t)below(80), site_store[i] = below(2);
    const cv_core_code code = {SEGMENTS, OPS, SITES, first, address, next, op, site_op, site_bytes, site_store};
    cv_core *core = NULL;
    if (cv_core_new(&SOME_CORE, classes, 4, &code, &core) != CV_OK)
        return 1;
    float rates[SITES * 3];
    uint16_t latencies[SITES * 3], walks[SITES];
    uint32_t owner[SITES];
    for (uint32_t i = 0; i < SITES; i++)
        owner[i] = i, walks[i] = (uint16_t)below(300);
    for (int i = 0; i < SITES * 3; i++)
        rates[i] = (float)below(100) / 400, latencies[i] = (uint16_t)(15 << 2 * (i % 3));
    for (int turn = 0; turn < 4; turn++) {
        uint32_t segments[VISITS], reference[VISITS + 1], sites[VISITS * 5];
        uint64_t addresses[VISITS * 5];
        uint8_t flags[VISITS];
        reference[0] = 0;
        for (uint32_t i = 0; i < VISITS; i++) {
            segments[i] = below(3) || !i ? below(SEGMENTS) : segments[i - 1];
            flags[i] = below(20) ? (below(8) ? 0 : CV_VISIT_OVERRIDDEN) : CV_VISIT_MISPREDICTED;
            reference[i + 1] = reference[i];
            for (uint32_t k = 0; k < 5; k++, reference[i + 1]++) {
                sites[reference[i + 1]] = segments[i] * 5 + k;
                addresses[reference[i + 1]] = below(4) ? 0x1000 + below(512) : UINT64_MAX - below(100);
            }
        }
        const cv_path path = {.continues = turn & 1,
                              .following = turn ? CV_PATH_UNKNOWN : 0,
                              .visits = VISITS,
                              .references = reference[VISITS],
                              .warm_visits = 10,
                              .segments = segments,
                              .first_reference = reference,
                              .addresses = addresses,
                              .sites = sites};
        const cv_core_far_shares shares = {3, SITES, owner, rates, latencies, walks};
        const cv_core_far_shares beyond = {3, SITES - 1, owner, rates, latencies, walks};
        if (turn == 2 && (cv_core_levels(core, &beyond) != CV_ERROR_ARGUMENT || cv_core_levels(core, &shares) != CV_OK))
            return 2;
        if (cv_core_walk(core, &path, turn ? flags : NULL, NULL) != CV_OK)
            return 3;
    }
    uint64_t cycles = 0, executions = 0;
    for (int i = 0; i < OPS; i++)
        cycles += cv_core_cycles(core)[i], executions += cv_core_executions(core)[i];
    printf("%llu %llu %llu\n", (unsigned long long)cv_core_instructions(core), (unsigned long long)executions, (unsigned long long)cycles);
    const uint32_t wrong = SEGMENTS, none[2] = {0, 0};
    const cv_path outside = {.visits = 1, .segments = &wrong, .first_reference = none};
    if (cv_core_walk(core, &outside, NULL, NULL) != CV_ERROR_ARGUMENT)
        return 4;
    const uint32_t alone[] = {1, SEGMENTS - 1};
    if (cv_core_turn(core, alone, 2, 3, 5) != CV_OK || cv_core_turn(core, &wrong, 1, 0, 1) != CV_ERROR_ARGUMENT)
        return 6;
    cv_core_free(core);
    op[3].class_ = 4;
    return cv_core_new(&SOME_CORE, classes, 4, &code, &core) == CV_ERROR_ARGUMENT ? 0 : 5;
}
