#include "cv_mark.h"

#include "convolver_markers.h"

void cv_mark_start(void) { CONVOLVER_START(); }

void cv_mark_stop(void) { CONVOLVER_STOP(); }
