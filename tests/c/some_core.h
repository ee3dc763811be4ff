/* A core that uses every rule of the model, for tests that only walk. */
#ifndef SOME_CORE_H
#define SOME_CORE_H

#include "cv_core.h"

static const cv_core_params SOME_CORE = {6, 8,  8, 64, 1, 2, 2,  16, 4,  2, 1024, 4,  15, 128,  40, 48, 32, 18, 0x70, 0x180, 5,
                                         7, 1,  3, 5,  6, 0, 13, 32, 72, 4, 6,    12, 64, 0x30, 1,  1,  1,  1,  64,   8,     2,
                                         1, 32, 3, 0,  0, 0, 1,  4,  1,  2, 6,    1,  2,  9,    80, 90, 70, 2,  59,   1};

#endif
