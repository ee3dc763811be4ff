/* What the limit of a target counts. Input: w waits, s spins, each twice the limit. */
#define LIMIT_SECONDS 1
#include "target.h"

#include <time.h>

static void take(const uint8_t *data, size_t size)
{
    if (size && data[0] == 'w')
        for (int i = 0; i < 200; i++)
            usleep(10000);
    else
        for (clock_t until = clock() + 2 * CLOCKS_PER_SEC; clock() < until;) {
        }
}
