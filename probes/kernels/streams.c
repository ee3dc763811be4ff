/* Loads from several places at once: eight unit-stride streams, and one stream of lines among loads that always hit L1. */
#include "kernels.h"
#include "walk.h"

/* Two elements of each of eight equal parts a turn. */
#define BODY_STREAM(k)               \
    CV_LOAD(uint64_t, p + k * part); \
    CV_LOAD(uint64_t, p + k * part + 8);
CV_WALK(CV_NAME(streams_8), , 16, 16, state->bytes / 8 / 64 * 64, const size_t part = state->bytes / 8 / 64 * 64, CV_REPEAT8(BODY_STREAM))

/* One new line, then three loads of hot data: how well a core hides line fetches behind work. */
#define BODY_HOT(k)                      \
    CV_LOAD(uint64_t, p + 64 * k);       \
    CV_LOAD(uint64_t, hot + 64 * k);     \
    CV_LOAD(uint64_t, hot + 64 * k + 8); \
    CV_LOAD(uint64_t, hot + 64 * k + 16);
CV_WALK(CV_NAME(stream_hot), , 512, 32, state->bytes, char *const hot = state->hot, CV_REPEAT8(BODY_HOT))
