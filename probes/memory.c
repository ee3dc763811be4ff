#define _GNU_SOURCE
#include "memory.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "permutations.h"

#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif
#define HUGE_PAGE ((size_t)2 << 20)
#define SLACK ((size_t)64 << 10) /* kernels finish a turn of their loop and skew their arrays */
#define INDEX_BYTES ((size_t)32 << 20)

/* From the pool that the administrator reserved (vm.nr_hugepages); NULL where it is too small. */
static char *cv_map_reserved(size_t bytes)
{
    char *const base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | (21 << MAP_HUGE_SHIFT), -1, 0);
    return base == MAP_FAILED ? NULL : base;
}

static char *cv_map(size_t bytes, enum cv_pages pages)
{
    char *const reserved = pages == CV_PAGES_2M ? cv_map_reserved(bytes) : NULL;
    if (reserved)
        return reserved;
    char *const raw = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED)
        return NULL;
    const uintptr_t start = ((uintptr_t)raw + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
    char *const base = (char *)start;
    /* Return the ends, so that unmapping needs no second address. */
    if (base > raw)
        munmap(raw, (size_t)(base - raw));
    munmap(base + bytes, HUGE_PAGE - (size_t)(base - raw));
    if (pages != CV_PAGES_DEFAULT)
        madvise(base, bytes, pages == CV_PAGES_4K ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    return base;
}

static size_t cv_round_up(size_t bytes) { return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE; }

int cv_arena_open(struct cv_arena *arena, size_t bytes, enum cv_pages pages, uint64_t seed)
{
    const size_t permutation = bytes / CV_LINE * sizeof(uint32_t);
    memset(arena, 0, sizeof *arena);
    arena->bytes = cv_round_up(bytes + SLACK);
    arena->scratch_bytes = cv_round_up(permutation > INDEX_BYTES ? permutation : INDEX_BYTES);
    arena->random = seed * 0x9e3779b97f4a7c15u + 1;
    arena->base = cv_map(arena->bytes, pages);
    arena->scratch = (uint32_t *)cv_map(arena->scratch_bytes, pages);
    arena->hot = cv_map(HUGE_PAGE, CV_PAGES_4K);
    if (!arena->base || !arena->scratch || !arena->hot)
        return -1;
    arena->offsets = (uint32_t *)(arena->hot + CV_HOT_BYTES);
    memset(arena->hot, 1, CV_HOT_BYTES);
    return 0;
}

double cv_huge_share(const struct cv_arena *arena)
{
    FILE *const maps = fopen("/proc/self/smaps", "r");
    char line[256];
    unsigned long begin, end, kilobytes, resident = 0, huge = 0;
    int inside = 0;
    if (!maps)
        return -1;
    while (fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            inside = (char *)begin < arena->base + arena->bytes && (char *)end > arena->base;
        else if (inside && sscanf(line, "Rss: %lu", &kilobytes) == 1)
            resident += kilobytes;
        else if (inside && sscanf(line, "AnonHugePages: %lu", &kilobytes) == 1)
            huge += kilobytes;
        else if (inside && sscanf(line, "Private_Hugetlb: %lu", &kilobytes) == 1)
            huge += kilobytes, resident += kilobytes;
    }
    fclose(maps);
    return resident ? (double)huge / (double)resident : -1;
}

void cv_arena_close(struct cv_arena *arena)
{
    munmap(arena->base, arena->bytes);
    munmap(arena->scratch, arena->scratch_bytes);
    munmap(arena->hot, HUGE_PAGE);
}

static void cv_touch(struct cv_arena *arena, size_t bytes)
{
    if (bytes <= arena->touched)
        return;
    memset(arena->base + arena->touched, 1, bytes - arena->touched);
    arena->touched = bytes;
}

static void cv_prepare_chase(struct cv_arena *arena, enum cv_content content, struct cv_state *state)
{
    if (arena->content != content || arena->content_bytes != state->bytes) {
        if (content == CV_CHASE)
            cv_random_cycle(arena->base, state->bytes, arena->scratch, &arena->random);
        else
            cv_sequential_cycle(arena->base, state->bytes);
        arena->content = content;
        arena->content_bytes = state->bytes;
    }
    for (unsigned chain = 0; chain < CV_MAX_CHAINS; chain++)
        state->cursor[chain] = arena->base + cv_below(&arena->random, state->bytes / CV_LINE) * CV_LINE;
}

static void cv_prepare_offsets(struct cv_arena *arena, struct cv_state *state)
{
    const uint64_t words = state->bytes / 8;
    for (unsigned i = 0; i < CV_OFFSETS; i++)
        arena->offsets[i] = (uint32_t)cv_below(&arena->random, words);
    /* Flipping bits below the lowest set bit of the size permutes each such block of words within itself. */
    state->flip_mask = (uint32_t)((words & -words) - 1);
}

/* A quarter of the working set holds indices (up to INDEX_BYTES), the rest the data they point to. */
static void cv_prepare_indices(struct cv_arena *arena, struct cv_state *state)
{
    const size_t share = state->bytes / 4 < INDEX_BYTES ? state->bytes / 4 : INDEX_BYTES;
    const uint64_t words = (state->bytes - share) / 8;
    state->index_count = share / sizeof(uint32_t);
    for (size_t i = 0; i < state->index_count; i++)
        arena->scratch[i] = (uint32_t)cv_below(&arena->random, words);
}

void cv_prepare(struct cv_arena *arena, const struct cv_kernel *kernel, size_t bytes, struct cv_state *state)
{
    memset(state, 0, sizeof *state);
    state->base = arena->base;
    state->bytes = bytes;
    state->hot = arena->hot;
    state->offsets = arena->offsets;
    state->indices = arena->scratch;
    state->random = arena->random;
    if (!*kernel->pattern)
        return;
    cv_touch(arena, bytes + SLACK);
    if (kernel->content == CV_CHASE || kernel->content == CV_SEQUENTIAL)
        cv_prepare_chase(arena, kernel->content, state);
    else if (kernel->content == CV_OFFSET)
        cv_prepare_offsets(arena, state);
    else if (kernel->content == CV_INDEX)
        cv_prepare_indices(arena, state);
    if (kernel->writes)
        arena->content = CV_ANY;
}
