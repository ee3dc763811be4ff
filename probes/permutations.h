/* Random numbers and the cycles that chases follow. */
#ifndef CV_PERMUTATIONS_H
#define CV_PERMUTATIONS_H

#include <stddef.h>
#include <stdint.h>

/* Returns a number from 0 to limit - 1. */
uint64_t cv_below(uint64_t *random, uint64_t limit);

/* Writes into each line of `bytes` at `base` the address of the next one, in one cycle through all lines in random order
 * (Sattolo's algorithm). `scratch` has room for one uint32_t a line. */
void cv_random_cycle(char *base, size_t bytes, uint32_t *scratch, uint64_t *random);

/* The same in address order. */
void cv_sequential_cycle(char *base, size_t bytes);

#endif
