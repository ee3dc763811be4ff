/* Invariants of freestanding code that the blob of the native engine and the tracer share. SPDX: MIT. */
#ifndef CV_ASSERT_H
#define CV_ASSERT_H

/* Checked in a build with asserts (CONVOLVER_ASSERTS=1). Where it does not hold, the program ends with a message. */
#ifdef NDEBUG
#define cv_assert(holds) ((void)0)
#else
#define cv_assert(holds) ((holds) ? (void)0 : cv_end_at("convolver: " __FILE__ ": not so: " #holds "\n"))
#endif

void cv_end_at(const char *message) __attribute__((noreturn)); /* an engine's: the whole process, with exit status 134 in the blob */

#endif
