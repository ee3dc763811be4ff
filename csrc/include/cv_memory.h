/* Memory that was freed, for processes that go on for long. */
#ifndef CV_MEMORY_H
#define CV_MEMORY_H

/* Gives pages that nobody uses back to the system: the C library keeps those of many threads. Takes milliseconds. */
void cv_give_back_memory(void);

#endif
