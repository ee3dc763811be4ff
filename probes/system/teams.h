/* What a parallel region takes: making a team of waiting threads, and the barrier at its end. */
#ifndef CV_TEAMS_H
#define CV_TEAMS_H

#include <stddef.h>

/* As `run` of struct cv_work; each returns 0 where there is no second CPU, or no runtime of OpenMP. */
size_t cv_thread_region(size_t times);     /* of two threads */
size_t cv_thread_region_all(size_t times); /* of one thread a CPU; 0 where that is two */

#endif
