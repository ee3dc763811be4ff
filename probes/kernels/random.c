/* Independent references in random order. The loads of the offset table always hit L1 and are not counted as references. */
#include "kernels.h"
#include "walk.h"

#define BODY_LOAD(k) CV_LOAD_BY(uint64_t, CV_AT(k));
CV_RANDOM(CV_NAME(random_load), 1, BODY_LOAD)

#define BODY_STORE(k) CV_STORE_BY(uint64_t, CV_AT(k), 1);
CV_RANDOM(CV_NAME(random_store), 1, BODY_STORE)

#define BODY_UPDATE(k) CV_UPDATE(CV_RECORD_DEPENDENT, CV_AT(k))
CV_RANDOM(CV_NAME(random_update), 2, BODY_UPDATE)

/* One random load among three or fifteen that hit L1: fewer of the random ones fit into the out-of-order window. */
#define BODY_HOT_3(k)                    \
    CV_LOAD_BY(uint64_t, CV_AT(k));      \
    CV_LOAD(uint64_t, hot + 64 * k);     \
    CV_LOAD(uint64_t, hot + 64 * k + 8); \
    CV_LOAD(uint64_t, hot + 64 * k + 16);
CV_RANDOM(CV_NAME(random_hot_3), 4, BODY_HOT_3)

#define HOT(j)                           \
    CV_LOAD(uint64_t, hot_line + 8 * j); \
    CV_LOAD(uint64_t, hot_line + 1024 + 8 * j);
#define BODY_HOT_15(k)                                                                     \
    {                                                                                      \
        char *const hot_line = hot + 64 * k;                                               \
        CV_LOAD_BY(uint64_t, CV_AT(k));                                                    \
        HOT(0) HOT(1) HOT(2) HOT(3) HOT(4) HOT(5) HOT(6) CV_LOAD(uint64_t, hot_line + 56); \
    }
CV_RANDOM(CV_NAME(random_hot_15), 16, BODY_HOT_15)

/* Indices read in order, data at random, as in a sparse matrix; both count as references, both belong to the working set. */
uint64_t CV_NAME(gather)(struct cv_state *state, uint64_t wanted)
{
    char *const base = state->base;
    size_t position = state->position;
    uint64_t done = 0;
    for (; done < wanted; done += 16) {
        const uint32_t *const table = state->indices + position;
#define BODY_GATHER(k) CV_LOAD_BY(uint64_t, base + 8 * (size_t)CV_ENTRY(volatile const, table + k));
        CV_REPEAT8(BODY_GATHER)
        position += 8;
        if (position + 8 > state->index_count)
            position = 0;
    }
    state->position = position;
    return done;
}
