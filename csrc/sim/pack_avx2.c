/* Front of the simulator with AVX2. */
#if defined(__x86_64__)
#pragma GCC target("avx2,bmi,bmi2,popcnt")
#include <immintrin.h>

#include "pack_plain.h"
#include "survey.h"
#include "tally_few.h"

ALWAYS uint32_t same4(const cv_pack_job *job, size_t i, unsigned lag)
{
    __m256i now = _mm256_loadu_si256((const __m256i *)(job->address + i));
    __m256i before = _mm256_loadu_si256((const __m256i *)(job->address + i - lag));
    __m256i changed = _mm256_srl_epi64(_mm256_xor_si256(now, before), _mm_cvtsi32_si128((int)job->line_shift));
    return (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(changed, _mm256_setzero_si256())));
}

ALWAYS uint32_t differing8(const cv_pack_job *job, size_t i, unsigned lag)
{
    __m128i now = _mm_loadl_epi64((const __m128i *)(job->write + i));
    __m128i before = _mm_loadl_epi64((const __m128i *)(job->write + i - lag));
    __m128i first = _mm_andnot_si128(before, now);
    uint32_t no_first_write = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(first, _mm_setzero_si128()));
    return 0xff & ~((same4(job, i, lag) | same4(job, i + 4, lag) << 4) & no_first_write);
}

ALWAYS uint32_t equal4(const uint64_t *address, __m256i mask, __m256i value)
{
    __m256i bits = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)address), mask);
    return (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(bits, value)));
}

ALWAYS uint32_t *places16(uint32_t *place, const uint64_t *address, uint32_t i, cv_selection selection)
{
    __m256i mask = _mm256_set1_epi64x((long long)selection.mask), value = _mm256_set1_epi64x((long long)selection.value);
    uint32_t found = 0;
    for (uint32_t j = 0; j < 16; j += 4)
        found |= equal4(address + i + j, mask, value) << j;
    for (; found; found &= found - 1)
        *place++ = i + (uint32_t)__builtin_ctz(found);
    return place;
}

ALWAYS uint32_t equal32(const uint16_t *number, __m256i all)
{
    __m256i low = _mm256_cmpeq_epi16(_mm256_load_si256((const __m256i *)number), all);
    __m256i high = _mm256_cmpeq_epi16(_mm256_load_si256((const __m256i *)(number + 16)), all);
    return (uint32_t)_mm256_movemask_epi8(_mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xd8));
}

ALWAYS uint64_t equal64(const uint16_t *number, uint16_t wanted)
{
    const __m256i all = _mm256_set1_epi16((short)wanted);
    return equal32(number, all) | (uint64_t)equal32(number + 32, all) << 32;
}

#define PATH(name) cv_##name##_avx2
#include "pack_path.h"
#endif
