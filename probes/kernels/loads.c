/* Independent loads in address order: unit stride by width, and strides of 2 to 32 doubles. */
#include "kernels.h"
#include "walk.h"

#define LOADS(name, attributes, step) CV_WALK(CV_NAME(name), attributes, 16 * (step), 16, state->bytes, , CV_REPEAT16(BODY_##name))

#define BODY_load(k) CV_LOAD(uint64_t, p + 8 * k);
#define BODY_load_v16(k) CV_LOAD(cv_v16, p + 16 * k);
#define BODY_load_v32(k) CV_LOAD(cv_v32, p + 32 * k);
#define BODY_load_v64(k) CV_LOAD(cv_v64, p + 64 * k);
#define BODY_stride_2(k) CV_LOAD(uint64_t, p + 16 * k);
#define BODY_stride_4(k) CV_LOAD(uint64_t, p + 32 * k);
#define BODY_stride_8(k) CV_LOAD(uint64_t, p + 64 * k);
#define BODY_stride_16(k) CV_LOAD(uint64_t, p + 128 * k);
#define BODY_stride_32(k) CV_LOAD(uint64_t, p + 256 * k);

LOADS(load, , 8)
LOADS(load_v16, , 16)
LOADS(load_v32, CV_TARGET("avx2"), 32)
LOADS(load_v64, CV_TARGET("avx512f"), 64)
LOADS(stride_2, , 16)
LOADS(stride_4, , 32)
LOADS(stride_8, , 64)
LOADS(stride_16, , 128)
LOADS(stride_32, , 256)
