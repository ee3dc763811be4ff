/* Long calls look now and then whether they are to end. */
#ifndef CV_COMMON_INTERRUPT_H
#define CV_COMMON_INTERRUPT_H

#include <stdint.h>

#include "cv_status.h"

/* Asks whoever cv_ask_for_interrupts named, if the last question of this thread is some time ago: CV_ERROR_INTERRUPTED or CV_OK. */
cv_status cv_interrupt_due(void);

/* For loops whose steps take up to some microseconds. */
static inline cv_status cv_interrupt_look(uint32_t *steps) { return (++*steps & 0xfff) ? CV_OK : cv_interrupt_due(); }

#endif
