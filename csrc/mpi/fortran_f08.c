/* `use mpi_f08`: all functions of Open MPI, of MPICH those without a buffer. */
#define F(NAME) mpi_##NAME##_f08_
#include "fortran.c"
