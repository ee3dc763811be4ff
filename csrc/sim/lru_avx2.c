/* Exact LRU with AVX2: a row of up to 64 tags is one to eight vectors of eight in recency order (lru_avx512.c explains the idea).
 * Without masked operations, the shifted row and the old one are blended by a compare of place numbers with the found place. */
#if defined(__x86_64__)
#pragma GCC target("avx2,bmi,bmi2")
#include <immintrin.h>

#include "level.h"
#include "simd.h"

#define LANES 8
#define AHEAD 24
#define VECTORS(X) X(1) X(2) X(4) X(8)
#define FLAG_TO_DIRTY (LINE_BITS - 31) /* moves a record's flag to the place of a tag's dirty bit */

ALWAYS uint32_t word_of(const cv_level *l, uint64_t record)
{
    return (uint32_t)((record & LINE_MASK) >> l->shift) | ((uint32_t)(record >> FLAG_TO_DIRTY) & DIRTY);
}

ALWAYS uint64_t written_back(const cv_level *l, uint64_t record, uint32_t victim) { return cv_write_back(l, record, 0, victim, true); }

/* Bit mask of the equal tags among the ways. */
ALWAYS uint64_t find(const uint32_t *tags, const int vectors, uint32_t tag, uint64_t ways_mask)
{
    const __m256i wanted = _mm256_set1_epi32((int)(tag << 1));
    uint64_t found = 0;
    for (int v = 0; v < vectors; v++) {
        __m256i have = _mm256_slli_epi32(_mm256_load_si256((const __m256i *)(tags + LANES * v)), 1);
        uint32_t equal = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(have, wanted)));
        found |= (uint64_t)equal << (LANES * v);
    }
    return found & ways_mask;
}

/* Shift places 0 .. last back by one and put `word` in front. */
ALWAYS void move_to_front(uint32_t *tags, const int vectors, uint32_t word, int last)
{
    const __m256i rotate = _mm256_setr_epi32(7, 0, 1, 2, 3, 4, 5, 6);
    const __m256i end = _mm256_set1_epi32(last + 1);
    __m256i place = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), carried = _mm256_set1_epi32((int)word);
    for (int v = 0; v < vectors; v++) {
        __m256i old = _mm256_load_si256((const __m256i *)(tags + LANES * v));
        __m256i rotated = _mm256_permutevar8x32_epi32(old, rotate);
        __m256i shifted = _mm256_blend_epi32(rotated, carried, 1);
        __m256i moves = _mm256_cmpgt_epi32(end, place);
        _mm256_store_si256((__m256i *)(tags + LANES * v), _mm256_blendv_epi8(old, shifted, moves));
        carried = rotated;
        place = _mm256_add_epi32(place, _mm256_set1_epi32(LANES));
    }
}

ALWAYS uint64_t touch(uint32_t *tags, const int vectors, uint32_t word, uint32_t ways, uint64_t ways_mask)
{
    uint64_t found = find(tags, vectors, word, ways_mask);
    int last = (int)_tzcnt_u64(found | UINT64_C(1) << (ways - 1));
    uint32_t dirty = tags[last] & (found ? DIRTY : 0);
    move_to_front(tags, vectors, word | dirty, last);
    return found;
}

#include "lru_vector.h"

void cv_lru_avx2(cv_level *l) { choose(l); }
#endif
