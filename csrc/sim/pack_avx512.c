/* Front of the simulator with AVX-512. */
#if defined(__x86_64__)
#pragma GCC target("avx2,bmi,bmi2,popcnt,avx512f,avx512bw,avx512vl,avx512dq")
#include <immintrin.h>

#include "pack.h"
#include "select.h"
#include "survey.h"
#include "tally_few.h"

ALWAYS uint32_t differing8(const cv_pack_job *job, size_t i, unsigned lag)
{
    __m512i now = _mm512_loadu_si512(job->address + i), before = _mm512_loadu_si512(job->address + i - lag);
    __m512i other_line = _mm512_set1_epi64((long long)(UINT64_MAX << job->line_shift));
    __mmask8 moved = _mm512_test_epi64_mask(_mm512_xor_si512(now, before), other_line);
    __m128i writes = _mm_loadl_epi64((const __m128i *)(job->write + i));
    __m128i written = _mm_loadl_epi64((const __m128i *)(job->write + i - lag));
    __m128i first = _mm_andnot_si128(written, writes);
    return (uint32_t)moved | (uint32_t)_mm_test_epi8_mask(first, first);
}

/* Dense lines of eight lines: without a branch for the direct regions and the two most recent others. */
ALWAYS __m512i translate8(cv_pack_job *job, __m512i line)
{
    const cv_regions *r = job->regions;
    __m512i region = _mm512_srli_epi64(line, REGION_BITS);
    __mmask8 direct = _mm512_cmplt_epu64_mask(region, _mm512_set1_epi64(REGIONS_DIRECT));
    __mmask8 zero = _mm512_cmpeq_epi64_mask(region, _mm512_set1_epi64((long long)r->recent[0]));
    __mmask8 one = _mm512_cmpeq_epi64_mask(region, _mm512_set1_epi64((long long)r->recent[1]));
    if (__builtin_expect((direct | zero | one) != 0xff, 0)) {
        uint64_t lines[8];
        _mm512_storeu_si512(lines, line);
        for (int j = 0; j < 8; j++) {
            cv_status status = cv_regions_translate(job->regions, lines[j], &lines[j]);
            if (status != CV_OK)
                job->status = status;
        }
        return _mm512_and_si512(_mm512_loadu_si512(lines), _mm512_set1_epi64(LINE_MASK));
    }
    line = _mm512_mask_xor_epi64(line, zero, line, _mm512_set1_epi64((long long)r->change[0]));
    return _mm512_mask_xor_epi64(line, one, line, _mm512_set1_epi64((long long)r->change[1]));
}

ALWAYS uint64_t *emit8(cv_pack_job *job, size_t i, uint32_t keep, uint64_t *out)
{
    __m512i line = _mm512_srl_epi64(_mm512_loadu_si512(job->address + i), _mm_cvtsi32_si128((int)job->line_shift));
    if (_mm512_cmpge_epu64_mask(line, _mm512_set1_epi64((long long)(REGIONS_DIRECT << REGION_BITS))))
        line = translate8(job, line);
    __m512i label = _mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)(job->label + i)));
    __m512i record = _mm512_or_si512(line, _mm512_slli_epi64(label, LABEL_SHIFT));
    __m128i writes = _mm_loadl_epi64((const __m128i *)(job->write + i));
    __mmask8 written = (__mmask8)_mm_test_epi8_mask(writes, writes);
    record = _mm512_mask_or_epi64(record, written, record, _mm512_set1_epi64((long long)FLAG));
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi64((__mmask8)keep, record));
    return out + __builtin_popcount(keep);
}

ALWAYS uint32_t *places16(uint32_t *place, const uint64_t *address, uint32_t i, cv_selection selection)
{
    const __m512i mask = _mm512_set1_epi64((long long)selection.mask), value = _mm512_set1_epi64((long long)selection.value);
    uint32_t low = _mm512_cmpeq_epi64_mask(_mm512_and_si512(_mm512_loadu_si512(address + i), mask), value);
    uint32_t high = _mm512_cmpeq_epi64_mask(_mm512_and_si512(_mm512_loadu_si512(address + i + 8), mask), value);
    const __m512i within = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i all = _mm512_add_epi32(_mm512_set1_epi32((int)i), within);
    _mm512_storeu_si512(place, _mm512_maskz_compress_epi32((__mmask16)(low | high << 8), all));
    return place + __builtin_popcount(low | high << 8);
}

ALWAYS bool append8(cv_lines *lines, const cv_refs *refs, size_t i, cv_selection selection)
{
    const __m512i mask = _mm512_set1_epi64((long long)selection.mask), value = _mm512_set1_epi64((long long)selection.value);
    __m512i address = _mm512_loadu_si512(refs->address + i);
    __mmask8 wanted = _mm512_cmpeq_epi64_mask(_mm512_and_si512(address, mask), value);
    _mm512_storeu_si512(lines->address + lines->count, _mm512_maskz_compress_epi64(wanted, address));
    __m256i owner = _mm256_loadu_si256((const __m256i *)(refs->owner + i));
    _mm256_storeu_si256((__m256i *)(lines->owner + lines->count), _mm256_maskz_compress_epi32(wanted, owner));
    uint64_t write, bytes = _pdep_u64(wanted, UINT64_C(0x0101010101010101)) * 0xff;
    memcpy(&write, refs->write + i, sizeof write);
    write = _pext_u64(write, bytes);
    memcpy(lines->write + lines->count, &write, sizeof write);
    lines->count += (size_t)__builtin_popcount(wanted);
    return true;
}

ALWAYS uint64_t equal64(const uint16_t *number, uint16_t wanted)
{
    const __m512i all = _mm512_set1_epi16((short)wanted);
    uint64_t low = _mm512_cmpeq_epi16_mask(_mm512_load_si512(number), all);
    uint64_t high = _mm512_cmpeq_epi16_mask(_mm512_load_si512(number + 32), all);
    return low | high << 32;
}

#define PATH(name) cv_##name##_avx512
#include "pack_path.h"
#endif
