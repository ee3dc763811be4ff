/* The memory that kernels walk through, and what must be written into it before they can. */
#ifndef CV_MEMORY_H
#define CV_MEMORY_H

#include "probe.h"

enum cv_pages {
    CV_PAGES_DEFAULT,
    CV_PAGES_4K,
    CV_PAGES_THP, /* huge pages are asked for; what comes is the kernel's choice */
    CV_PAGES_2M,  /* huge pages or nothing: from the reserved pool, else asked for and checked */
};

struct cv_arena {
    char *base; /* aligned to 2 MiB */
    size_t bytes, touched;
    uint32_t *scratch; /* permutation of a chase, or indices of a gather */
    size_t scratch_bytes;
    uint32_t *offsets;
    char *hot;
    enum cv_content content; /* what `content_bytes` of the arena hold now */
    size_t content_bytes;
    uint64_t random;
};

/* Reserves address space for working sets of up to `bytes`; pages are touched when first needed. Returns 0, or -1 with errno. */
int cv_arena_open(struct cv_arena *arena, size_t bytes, enum cv_pages pages, uint64_t seed);

/* The share of the touched working set that lies on huge pages, 0..1; < 0 where the kernel does not say. */
double cv_huge_share(const struct cv_arena *arena);

/* Gives the memory back. */
void cv_arena_close(struct cv_arena *arena);

/* Fills the arena as the kernel needs it and sets the state to its start. `bytes` must be a multiple of CV_LINE. */
void cv_prepare(struct cv_arena *arena, const struct cv_kernel *kernel, size_t bytes, struct cv_state *state);

#endif
