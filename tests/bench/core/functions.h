/* What the two sets of functions share. Each works on a few KiB that stay in the first level, and returns something of its result. */
#ifndef FUNCTIONS_H
#define FUNCTIONS_H

#include <stdint.h>
#include <string.h>

#define N 512

typedef double (*function)(void);
struct entry {
    const char *name;
    function run;
};

extern double x[], y[], z[];
extern float f[], g[], h[];
extern int a[], b[], c[];
extern unsigned char s[], t[];
extern uint32_t words[];
extern uint64_t random_state;

/* Goes on from call to call, so that no predictor can learn what follows. */
static inline uint32_t fresh(void)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33);
}

#define FUNCTION(name) __attribute__((noinline, noclone)) double name(void)
#define ENTRY(name) {#name, name},
#define TURNS for (int i = 0; i < N; i++)

extern const struct entry looked_at[], frozen[];

#endif
