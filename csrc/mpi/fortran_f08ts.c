/* `use mpi_f08` with buffers described as in TS 29113: MPICH. */
#define F(NAME) mpi_##NAME##_f08ts_
#include "fortran.c"
