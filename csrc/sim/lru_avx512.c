/* Exact LRU with AVX-512: a row of up to 64 tags is one to four vectors in recency order.
 *
 * Compare all tags at once; let m be the mask of the equal one. blsmsk(m) has the bits up to and including it (all bits when
 * nothing is equal): those places take the tag before them, the first takes the new one. Hit or miss, the same instructions.
 * Assumes write-back and write-allocate. */
#if defined(__x86_64__)
#pragma GCC target("avx2,bmi,bmi2,avx512f,avx512bw,avx512vl,avx512dq")
#include <immintrin.h>

#include "level.h"
#include "simd.h"

#define LANES 16
#define FLAG_TO_DIRTY (LINE_BITS - 31) /* moves a record's flag to the place of a tag's dirty bit */

typedef struct {
    __m512i tags[CV_SIM_MAX_WAYS / LANES];
} row;

ALWAYS uint64_t find(const row *r, const int vectors, __m512i tag, uint64_t ways_mask) {
    const __m512i tag_bits = _mm512_set1_epi32((int)~DIRTY);
    uint64_t found = 0;
    for (int v = 0; v < vectors; v++) {
        __mmask16 valid = (__mmask16)(ways_mask >> (LANES * v));
        found |= (uint64_t)_mm512_mask_testn_epi32_mask(valid, _mm512_xor_si512(r->tags[v], tag), tag_bits) << (LANES * v);
    }
    return found;
}

/* Shift the places up to and including the found one back by one and put `tag` in front, with the dirty bit of the found one. The
 * row must be written by whole vectors only: loading a vector that a smaller store has just changed waits for that store. */
ALWAYS void move_to_front(uint32_t *tags, const row *r, const int vectors, __m512i tag, uint64_t found) {
    uint64_t moving = _blsmsk_u64(found);
    if (vectors == 1) {
        __m512i moved = _mm512_mask_alignr_epi32(r->tags[0], (__mmask16)moving, r->tags[0], tag, LANES - 1);
        /* Found word and new tag are equal but for the dirty bit. */
        _mm512_store_si512(tags, _mm512_or_si512(moved, _mm512_maskz_compress_epi32((__mmask16)found, r->tags[0])));
        return;
    }
    /* On a miss the place read does not matter. */
    uint32_t dirty = tags[_tzcnt_u64(found) & (LANES * (unsigned)vectors - 1)] & (found ? DIRTY : 0);
    tag = _mm512_or_si512(tag, _mm512_set1_epi32((int)dirty));
    for (int v = 0; v < vectors; v++) {
        __m512i before = v ? r->tags[v - 1] : tag;
        __mmask16 here = (__mmask16)(moving >> (LANES * v));
        _mm512_store_si512(tags + LANES * v, _mm512_mask_alignr_epi32(r->tags[v], here, r->tags[v], before, LANES - 1));
    }
}

ALWAYS void prefetch_row(const cv_level *l, uint64_t record, const int vectors, const bool power_of_two) {
    const uint32_t *tags = (const uint32_t *)l->rows + cv_place_of(l, record & LINE_MASK, power_of_two).set * (LANES * vectors);
    for (int v = 0; v < vectors; v++)
        _mm_prefetch((const char *)(tags + LANES * v), _MM_HINT_T0);
}

/* ahead: records to prefetch for; hits: branch on a hit, for streams that mostly hit. */
ALWAYS size_t run(cv_level *level, const uint64_t *in, size_t n, uint64_t *out, const int vectors, const bool first,
                  const bool power_of_two, const int ahead, const bool hits) {
    const cv_level l = *level; /* in registers: the records that are written could otherwise be its fields */
    const uint64_t *start = out, ways_mask = l.ways == 64 ? UINT64_MAX : (UINT64_C(1) << l.ways) - 1;
    for (size_t i = 0; i < n; i++) {
        if (ahead)
            prefetch_row(&l, in[i + (size_t)ahead], vectors, power_of_two);
        uint64_t record = in[i];
        uint64_t line = record & LINE_MASK;
        cv_place p = cv_place_of(&l, line, power_of_two);
        uint32_t *tags = (uint32_t *)l.rows + p.set * (uint64_t)(LANES * vectors);
        __m512i tag = _mm512_set1_epi32((int)((uint32_t)p.tag | ((uint32_t)(record >> FLAG_TO_DIRTY) & DIRTY)));
        row r;
        for (int v = 0; v < vectors; v++)
            r.tags[v] = _mm512_load_si512(tags + LANES * v);
        uint32_t victim = tags[l.ways - 1];
        uint64_t found = find(&r, vectors, tag, ways_mask);
        move_to_front(tags, &r, vectors, tag, found);
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

#define CHOICE(vectors)                                                                                                           \
    { first_##vectors, hits_##vectors, deeper_##vectors, first_any_##vectors, deeper_any_##vectors }
static const struct {
    cv_level_run first, hits, deeper, first_any, deeper_any;
} CHOICES[] = {CHOICE(1), CHOICE(2), CHOICE(4)};

void cv_lru_avx512(cv_level *l) {
    int c = l->ways <= LANES ? 0 : l->ways <= 2 * LANES ? 1 : 2;
    l->stride = LANES << c;
    if (l->power_of_two) {
        l->run = l->first ? CHOICES[c].first : CHOICES[c].deeper;
        l->run_hits = l->first ? CHOICES[c].hits : CHOICES[c].deeper;
    } else {
        l->run = l->run_hits = l->first ? CHOICES[c].first_any : CHOICES[c].deeper_any;
    }
}
#endif
