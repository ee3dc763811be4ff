/* Independent stores in address order. Ordinary stores: lines are fetched before they are written. */
#include "kernels.h"
#include "walk.h"

#define STORES(name, attributes, step, prepare) \
    CV_WALK(CV_NAME(name), attributes, 16 * (step), 16, state->bytes, prepare, CV_REPEAT16(BODY_##name))

#define BODY_store(k) CV_STORE(uint64_t, p + 8 * k, one);
#define BODY_store_v16(k) CV_STORE(cv_v16, p + 16 * k, one);
#define BODY_store_v32(k) CV_STORE(cv_v32, p + 32 * k, one);
#define BODY_store_v64(k) CV_STORE(cv_v64, p + 64 * k, one);
#define BODY_store_stride_8(k) CV_STORE(uint64_t, p + 64 * k, one);

STORES(store, , 8, const uint64_t one = 1)
STORES(store_v16, , 16, const cv_v16 one = {1})
STORES(store_v32, CV_TARGET("avx2"), 32, const cv_v32 one = {1})
STORES(store_v64, CV_TARGET("avx512f"), 64, const cv_v64 one = {1})
STORES(store_stride_8, , 64, const uint64_t one = 1)
