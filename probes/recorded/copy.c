#define CV_RECORDING
#include "../kernels/copy.c"
