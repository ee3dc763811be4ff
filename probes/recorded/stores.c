#define CV_RECORDING
#include "../kernels/stores.c"
