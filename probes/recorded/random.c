#define CV_RECORDING
#include "../kernels/random.c"
