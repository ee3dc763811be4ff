#define CV_RECORDING
#include "../kernels/chase.c"
