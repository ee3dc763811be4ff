/* SPDX-License-Identifier: GPL-2.0-or-later
 * Valgrind up to 3.23 emulates fused multiply-adds in software, one lane a call, at hundreds of cycles each. The linker's --wrap
 * sends those calls here, to one instruction of the host. build_tracer.py links these wrappers only where the host has FMA; the processor
 * is asked again at run time, since the tool may be built on another machine than it runs on. */
#include "tracer.h"

void __real_h_generic_calc_MAddF64(double *, double *, double *, double *);
void __real_h_generic_calc_MAddF32(float *, float *, float *, float *);
void __wrap_h_generic_calc_MAddF64(double *result, double *x, double *y, double *z);
void __wrap_h_generic_calc_MAddF32(float *result, float *x, float *y, float *z);

__attribute__((target("fma"))) static double fused64(double x, double y, double z) { return __builtin_fma(x, y, z); }

__attribute__((target("fma"))) static float fused32(float x, float y, float z) { return __builtin_fmaf(x, y, z); }

void __wrap_h_generic_calc_MAddF64(double *result, double *x, double *y, double *z)
{
    if (cv_host_has_fma())
        *result = fused64(*x, *y, *z);
    else
        __real_h_generic_calc_MAddF64(result, x, y, z);
}

void __wrap_h_generic_calc_MAddF32(float *result, float *x, float *y, float *z)
{
    if (cv_host_has_fma())
        *result = fused32(*x, *y, *z);
    else
        __real_h_generic_calc_MAddF32(result, x, y, z);
}
