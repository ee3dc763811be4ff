/* Exact LRU with AVX-512: a row of up to 64 tags is one to four vectors in recency order.
 *
 * Compare all tags at once; let m be the mask of the equal one. blsmsk(m) has the bits up to and including it (all bits when
 * nothing is equal): those places take the tag before them, the first takes the new one. Hit or miss, the same instructions.
 * Tag and dirty bit are one field of a record for pext and pdep, which are fast on every processor with AVX-512. */
#if defined(__x86_64__)
#pragma GCC target("avx2,bmi,bmi2,avx512f,avx512bw,avx512vl,avx512dq")
#include <immintrin.h>

#include "level.h"
#include "simd.h"

#define LANES 16
#define AHEAD 24
#define VECTORS(X) X(1) X(2) X(4)

/* The bits of a record that make a word: the 31 of the tag, and the flag, which becomes the dirty bit. */
ALWAYS uint64_t word_bits(const cv_level *l) { return (uint64_t)(DIRTY - 1) << l->shift | FLAG; }

ALWAYS uint32_t word_of(const cv_level *l, uint64_t record) { return (uint32_t)_pext_u64(record, word_bits(l)); }

ALWAYS uint64_t written_back(const cv_level *l, uint64_t record, uint32_t victim)
{
    return (record & ~word_bits(l)) | _pdep_u64(victim, word_bits(l));
}

ALWAYS __mmask16 equal(const uint32_t *tags, __m512i tag, __mmask16 ways)
{
    __m512i differing = _mm512_xor_si512(_mm512_load_si512(tags), tag);
    return _mm512_mask_testn_epi32_mask(ways, differing, _mm512_set1_epi32((int)~DIRTY));
}

/* The row must be written by whole vectors only: loading a vector that a smaller store has just changed waits for that store. */
ALWAYS uint64_t touch(uint32_t *tags, const int vectors, uint32_t word, uint32_t ways, uint64_t ways_mask)
{
    __m512i tag = _mm512_set1_epi32((int)word);
    if (vectors == 1) {
        __m512i row = _mm512_load_si512(tags);
        __mmask16 place = equal(tags, tag, (__mmask16)ways_mask);
        uint32_t found = _cvtmask16_u32(place);
        __m512i moved = _mm512_mask_alignr_epi32(row, _cvtu32_mask16(_blsmsk_u32(found)), row, tag, LANES - 1);
        /* Found word and new tag are equal but for the dirty bit. */
        _mm512_store_si512(tags, _mm512_or_si512(moved, _mm512_maskz_compress_epi32(place, row)));
        return found;
    }
    uint64_t found = 0;
    __m512i row[CV_SIM_MAX_WAYS / LANES], before = tag;
    for (int v = 0; v < vectors; v++) {
        row[v] = _mm512_load_si512(tags + LANES * v);
        found |= (uint64_t)equal(tags + LANES * v, tag, (__mmask16)(ways_mask >> (LANES * v))) << (LANES * v);
    }
    /* On a miss the place read does not matter. */
    uint32_t dirty = tags[_tzcnt_u64(found) & (LANES * (unsigned)vectors - 1)] & (found ? DIRTY : 0);
    before = _mm512_or_si512(before, _mm512_set1_epi32((int)dirty));
    uint64_t moving = _blsmsk_u64(found);
    for (int v = 0; v < vectors; v++) {
        __mmask16 here = (__mmask16)(moving >> (LANES * v));
        _mm512_store_si512(tags + LANES * v, _mm512_mask_alignr_epi32(row[v], here, row[v], before, LANES - 1));
        before = row[v];
    }
    return found;
}

#include "lru_vector.h"

void cv_lru_avx512(cv_level *l) { choose(l); }
#endif
