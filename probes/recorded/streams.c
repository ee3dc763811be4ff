#define CV_RECORDING
#include "../kernels/streams.c"
