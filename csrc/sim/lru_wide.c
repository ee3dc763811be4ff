/* Levels whose tags do not fit in 31 bits: few sets and addresses all over the 64-bit space. Assumes write-back and
 * write-allocate, as all levels here. */
#define TAG uint64_t
#define TAG_DIRTY (UINT64_C(1) << 63)
#define NAME(x) wide_##x
#include "lru_scalar.h"

void cv_lru_wide(cv_level *l) { wide_choose(l); }
