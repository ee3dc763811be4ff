/* Marks of the part that the tracer records (convolver_markers.h), for code that is no C: convolver.marked calls them. */
#ifndef CV_MARK_H
#define CV_MARK_H

/* Lets a tracer that waits for a mark begin; nothing outside a tracer. */
void cv_mark_start(void);

/* Lets the tracer end. */
void cv_mark_stop(void);

#endif
