program ring
  implicit none
  include 'mpif.h'
  integer :: error, rank, size, request, status(MPI_STATUS_SIZE), i
  double precision :: a(100), b(100), total
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, size, error)
  a = rank
  do i = 1, 5
    call MPI_Irecv(b, 100, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, request, error)
    call MPI_Send(a, 100, MPI_DOUBLE_PRECISION, mod(rank + 1, size), 4, MPI_COMM_WORLD, error)
    call MPI_Wait(request, MPI_STATUS_IGNORE, error)
    call MPI_Allreduce(MPI_IN_PLACE, a, 100, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  end do
  call MPI_Reduce(b(1), total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, error)
  call MPI_Finalize(error)
end program
