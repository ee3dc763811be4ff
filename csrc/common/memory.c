#include "cv_memory.h"

#include <malloc.h>

void cv_give_back_memory(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}
