/* Levels on machines without AVX2. */
#include "simd.h"
#define TAG uint32_t
#define TAG_DIRTY UINT32_C(0x80000000)
#define NAME(x) portable_##x
#include "lru_scalar.h"

/* "Without branches" and "for hits" are the same here. */
void cv_lru_portable(cv_level *l) { portable_choose(l); }
