/* Which instruction set to use. */
#include "simd.h"

const cv_simd cv_simd_portable = {"portable", cv_pack_portable, cv_survey_portable, cv_select_portable, cv_lru_portable, cv_tally_portable, cv_charge_portable};

#if defined(__x86_64__)
const cv_simd cv_simd_avx2 = {"avx2", cv_pack_avx2, cv_survey_avx2, cv_select_avx2, cv_lru_avx2, cv_tally_avx2, cv_charge_avx2};
const cv_simd cv_simd_avx512 = {"avx512", cv_pack_avx512, cv_survey_avx512, cv_select_avx512, cv_lru_avx512, cv_tally_avx512, cv_charge_avx512};

static bool has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"); }

static bool has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#endif

const cv_simd *cv_simd_choose(void) {
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
