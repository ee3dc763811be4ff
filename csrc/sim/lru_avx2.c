/* Exact LRU with AVX2: a row of up to 64 tags is one to eight vectors of eight in recency order (lru_avx512.c explains the idea).
 * Without masked operations, the shifted row and the old one are blended by a compare of place numbers with the found place. */
#if defined(__x86_64__)
#pragma GCC target("avx2,bmi,bmi2")
#include <immintrin.h>

#include "level.h"
#include "simd.h"

#define LANES 8
#define FLAG_TO_DIRTY (LINE_BITS - 31) /* moves a record's flag to the place of a tag's dirty bit */

/* Bit mask of the equal tags among the ways. */
ALWAYS uint64_t find(const uint32_t *tags, const int vectors, uint32_t tag, uint64_t ways_mask) {
    const __m256i wanted = _mm256_set1_epi32((int)(tag << 1));
    uint64_t found = 0;
    for (int v = 0; v < vectors; v++) {
        __m256i have = _mm256_slli_epi32(_mm256_load_si256((const __m256i *)(tags + LANES * v)), 1);
        uint32_t equal = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(have, wanted)));
        found |= (uint64_t)equal << (LANES * v);
    }
    return found & ways_mask;
}

/* Shift places 0 .. last back by one and put `tag` in front. */
ALWAYS void move_to_front(uint32_t *tags, const int vectors, uint32_t tag, int last) {
    const __m256i rotate = _mm256_setr_epi32(7, 0, 1, 2, 3, 4, 5, 6);
    const __m256i end = _mm256_set1_epi32(last + 1);
    __m256i place = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), carried = _mm256_set1_epi32((int)tag);
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

ALWAYS size_t run(cv_level *level, const uint64_t *in, size_t n, uint64_t *out, const int vectors, const bool first,
                  const bool power_of_two, const int ahead, const bool hits) {
    const cv_level l = *level;
    const uint64_t *start = out, ways_mask = l.ways == 64 ? UINT64_MAX : (UINT64_C(1) << l.ways) - 1;
    for (size_t i = 0; i < n; i++) {
        if (ahead) {
            cv_place soon = cv_place_of(&l, in[i + (size_t)ahead] & LINE_MASK, power_of_two);
            for (int v = 0; v < vectors; v += 2)
                _mm_prefetch((const char *)((uint32_t *)l.rows + (soon.set * (uint64_t)vectors + (uint64_t)v) * LANES), _MM_HINT_T0);
        }
        uint64_t record = in[i];
        uint64_t line = record & LINE_MASK;
        cv_place p = cv_place_of(&l, line, power_of_two);
        uint32_t *tags = (uint32_t *)l.rows + p.set * (uint64_t)(LANES * vectors);
        uint32_t victim = tags[l.ways - 1];
        uint64_t found = find(tags, vectors, (uint32_t)p.tag, ways_mask);
        uint32_t written = (uint32_t)(record >> FLAG_TO_DIRTY) & DIRTY;
        int last = (int)_tzcnt_u64(found | UINT64_C(1) << (l.ways - 1));
        uint32_t dirty = tags[last] & (found ? DIRTY : 0);
        move_to_front(tags, vectors, (uint32_t)p.tag | written | dirty, last);
        if (hits && found)
            continue;
        uint64_t miss = found == 0;
        *out = first ? record & ~FLAG : record; /* without the flag where it counts */
        out += first ? miss : miss & ~(record >> LINE_BITS);
        *out = cv_write_back(&l, record, p.set, victim, power_of_two);
        out += miss & (victim >> 31);
    }
    return (size_t)(out - start);
}

#define AHEAD 24

/* One function for each combination of constants. */
#define RUN(vectors)                                                                                                              \
    static size_t first_##vectors(cv_level *l, const uint64_t *in, size_t n, uint64_t *out) {                                      \
        return run(l, in, n, out, vectors, true, true, 0, false);                                                                  \
    }                                                                                                                              \
    static size_t hits_##vectors(cv_level *l, const uint64_t *in, size_t n, uint64_t *out) {                                       \
        return run(l, in, n, out, vectors, true, true, 0, true);                                                                   \
    }                                                                                                                              \
    static size_t deeper_##vectors(cv_level *l, const uint64_t *in, size_t n, uint64_t *out) {                                     \
        return run(l, in, n, out, vectors, false, true, AHEAD, false);                                                             \
    }                                                                                                                              \
    static size_t first_any_##vectors(cv_level *l, const uint64_t *in, size_t n, uint64_t *out) {                                  \
        return run(l, in, n, out, vectors, true, false, 0, true);                                                                  \
    }                                                                                                                              \
    static size_t deeper_any_##vectors(cv_level *l, const uint64_t *in, size_t n, uint64_t *out) {                                 \
        return run(l, in, n, out, vectors, false, false, AHEAD, false);                                                            \
    }
RUN(1)
RUN(2)
RUN(4)
RUN(8)

#define CHOICE(vectors)                                                                                                           \
    { first_##vectors, hits_##vectors, deeper_##vectors, first_any_##vectors, deeper_any_##vectors }
static const struct {
    cv_level_run first, hits, deeper, first_any, deeper_any;
} CHOICES[] = {CHOICE(1), CHOICE(2), CHOICE(4), CHOICE(8)};

void cv_lru_avx2(cv_level *l) {
    int c = l->ways <= LANES ? 0 : l->ways <= 2 * LANES ? 1 : l->ways <= 4 * LANES ? 2 : 3;
    l->stride = LANES << c;
    if (l->power_of_two) {
        l->run = l->first ? CHOICES[c].first : CHOICES[c].deeper;
        l->run_hits = l->first ? CHOICES[c].hits : CHOICES[c].deeper;
    } else {
        l->run = l->run_hits = l->first ? CHOICES[c].first_any : CHOICES[c].deeper_any;
    }
}
#endif
