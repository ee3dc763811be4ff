! OpenMP in Fortran: thread i does i + 1 parts of work a region.
program unequal
  use omp_lib
  implicit none
  integer :: r
  double precision :: total
  total = 0
  do r = 1, 10
     !$omp parallel reduction(+ : total)
     total = total + spin(300000 * (omp_get_thread_num() + 1))
     !$omp end parallel
  end do
  print '(f0.3)', total
contains
  double precision function spin(turns)
    integer, intent(in) :: turns
    integer :: i
    double precision :: x
    x = 1
    do i = 1, turns
       x = x * 0.99999d0 + 1d-9
    end do
    spin = x
  end function
end program
