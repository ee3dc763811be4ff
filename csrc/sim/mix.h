/* The finalizer of splitmix64: of each number another one, whose bits look random. */
#ifndef CV_MIX_H
#define CV_MIX_H

#include <stdint.h>

static inline uint64_t cv_mixed(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

#endif
