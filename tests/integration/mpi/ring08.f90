! A ring with Isend and Irecv, an Allreduce and one message by wildcard, through `use mpi_f08`.
program ring08
  use mpi_f08
  implicit none
  integer :: rank, n, i, err
  real(8) :: a(100), b(100), s, t
  type(MPI_Request) :: q(2)
  type(MPI_Status) :: st
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, n)
  a = rank
  do i = 1, 5
    call MPI_Irecv(b, 100, MPI_DOUBLE_PRECISION, modulo(rank - 1, n), 1, MPI_COMM_WORLD, q(1))
    call MPI_Isend(a, 100, MPI_DOUBLE_PRECISION, modulo(rank + 1, n), 1, MPI_COMM_WORLD, q(2))
    call MPI_Waitall(2, q, MPI_STATUSES_IGNORE)
    s = sum(b)
    call MPI_Allreduce(s, t, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, err)
  end do
  if (rank == 0) call MPI_Send(a, 10, MPI_DOUBLE_PRECISION, 1, 7, MPI_COMM_WORLD)
  if (rank == 1) call MPI_Recv(b, 10, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, st)
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Finalize()
end program
