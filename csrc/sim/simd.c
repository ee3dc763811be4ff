/* Which instruction set to use. */
#include "simd.h"

#define TABLE(path)                                                                                     \
    const cv_simd cv_simd_##path = {#path,         cv_pack_##path,  cv_survey_##path, cv_select_##path, \
                                    cv_lru_##path, cv_tally_##path, cv_charge_##path};
TABLE(portable)
#if defined(__x86_64__)
TABLE(avx2)
TABLE(avx512)

static bool has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"); }

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq");
}
#endif

const cv_simd *cv_simd_choose(void)
{
    const cv_simd *best = &cv_simd_portable;
#if defined(__x86_64__)
    const char *asked = getenv("CONVOLVER_SIMD");
    if (!asked)
        asked = "";
    if (has_avx2() && strcmp(asked, "portable") != 0)
        best = &cv_simd_avx2;
    if (has_avx512() && strcmp(asked, "portable") != 0 && strcmp(asked, "avx2") != 0)
        best = &cv_simd_avx512;
#endif
    return best;
}
