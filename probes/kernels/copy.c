/* Streams that read and write: copy (two arrays), triad (three arrays), update (one array, load and store of each element).
 *
 * The arrays share the working set. Each next array is moved by two lines, because arrays whose addresses agree in their low 12
 * bits make loads wait for unrelated stores.
 */
#include "kernels.h"
#include "walk.h"

#define SKEW 128u
#define ARRAY(parts) (state->bytes / (parts) / 64 * 64)

#define BODY_COPY(k)              \
    CV_LOAD(uint64_t, p + 8 * k); \
    CV_STORE(uint64_t, p + other + 8 * k, 1);
CV_WALK(CV_NAME(copy), , 64, 16, ARRAY(2), const size_t other = ARRAY(2) + SKEW, CV_REPEAT8(BODY_COPY))

#define BODY_COPY_V32(k)         \
    CV_LOAD(cv_v32, p + 32 * k); \
    CV_STORE(cv_v32, p + other + 32 * k, one);
CV_WALK(CV_NAME(copy_v32), CV_TARGET("avx2"), 256, 16, ARRAY(2), const size_t other = ARRAY(2) + SKEW;
        const cv_v32 one = {1}, CV_REPEAT8(BODY_COPY_V32))

#define BODY_TRIAD(k)                      \
    CV_LOAD(uint64_t, p + 8 * k);          \
    CV_LOAD(uint64_t, p + second + 8 * k); \
    CV_STORE(uint64_t, p + third + 8 * k, 1);
CV_WALK(CV_NAME(triad), , 64, 24, ARRAY(3), const size_t second = ARRAY(3) + SKEW; const size_t third = 2 * second, CV_REPEAT8(BODY_TRIAD))

#define BODY_UPDATE(k) CV_UPDATE(0, p + 8 * k)
CV_WALK(CV_NAME(update), , 64, 16, state->bytes, , CV_REPEAT8(BODY_UPDATE))
