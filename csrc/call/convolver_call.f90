! Regions of a Fortran program that Convolver measures (docs/howto/call.md):
!
!     use convolver_call
!     call convolver_begin('product', ['N', 'P'], [real(n, 8), real(p, 8)])
!     call convolver_end('product')
!
! Names of parameters are padded to one length by the array constructor; trailing blanks are removed here.
module convolver_call
    use, intrinsic :: iso_c_binding
    implicit none
    private
    public :: convolver_begin, convolver_end, convolver_use

    interface
        integer(c_int) function begin_list(region, count, names, values) bind(c, name='convolver_begin_list')
            import
            character(kind=c_char), intent(in) :: region(*)
            integer(c_int), value :: count
            type(c_ptr), intent(in) :: names(*)
            real(c_double), intent(in) :: values(*)
        end function

        integer(c_int) function end_region(region) bind(c, name='convolver_end')
            import
            character(kind=c_char), intent(in) :: region(*)
        end function

        subroutine use_drivers(drivers) bind(c, name='convolver_use')
            import
            character(kind=c_char), intent(in) :: drivers(*)
        end subroutine
    end interface

contains

    subroutine convolver_begin(region, names, values)
        character(len=*), intent(in) :: region
        character(len=*), intent(in), optional :: names(:)
        real(c_double), intent(in), optional :: values(:)
        character(len=129), allocatable, target :: texts(:)
        type(c_ptr), allocatable :: pointers(:)
        real(c_double) :: none(1)
        integer(c_int) :: ignored
        integer :: i, count

        count = 0
        if (present(names)) count = size(names)
        allocate (texts(count), pointers(count))
        do i = 1, count
            texts(i) = trim(names(i))//c_null_char
            pointers(i) = c_loc(texts(i))
        end do
        if (present(values)) then
            ignored = begin_list(trim(region)//c_null_char, int(count, c_int), pointers, values)
        else
            none = 0
            ignored = begin_list(trim(region)//c_null_char, 0_c_int, pointers, none)
        end if
    end subroutine

    subroutine convolver_end(region)
        character(len=*), intent(in) :: region
        integer(c_int) :: ignored
        ignored = end_region(trim(region)//c_null_char)
    end subroutine

    subroutine convolver_use(drivers)
        character(len=*), intent(in) :: drivers
        call use_drivers(trim(drivers)//c_null_char)
    end subroutine
end module
