#define CV_RECORDING
#include "../kernels/loads.c"
