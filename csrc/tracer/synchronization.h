/* SPDX-License-Identifier: GPL-2.0-or-later
 * Following threads (../threads/thread_calls.h) in Valgrind. */
#ifndef CV_SYNCHRONIZATION_H
#define CV_SYNCHRONIZATION_H

#include "tracer.h"

/* ---- synchronization.c ---- */

extern ULong cv_return_awaited; /* stack pointer after the return of the innermost function of this thread that is followed */

/* ---- thread_entries.c ---- */

extern Bool cv_translations_stale; /* others are needed */

#endif
