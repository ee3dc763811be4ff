/* Masked loads and stores: of each vector of four, the loop touches as many elements as its number modulo five. */
#include <immintrin.h>
#include <stdio.h>

static double from[400], to[400];

__attribute__((noinline)) static void copy(void)
{
    for (int i = 0; i < 100; i++) {
        __m256i mask = _mm256_cmpgt_epi64(_mm256_set1_epi64x(i % 5), _mm256_set_epi64x(3, 2, 1, 0));
        _mm256_maskstore_pd(to + 4 * i, mask, _mm256_maskload_pd(from + 4 * i, mask));
    }
}

int main(void)
{
    for (int i = 0; i < 400; i++)
        from[i] = i + 1;
    copy();
    double sum = 0;
    for (int i = 0; i < 400; i++)
        sum += to[i];
    printf("%g\n", sum);
    return 0;
}
