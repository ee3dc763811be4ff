/* C += A B by fused multiply-adds of four lanes with a memory operand: exactly 2 N^3 floating-point operations. */
#include <immintrin.h>
#include <stdio.h>

#define N 32

static double a[N][N], b[N][N], c[N][N];

__attribute__((noinline)) static void dgemm(void)
{
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) {
            __m256d s = _mm256_broadcast_sd(&a[i][k]);
            for (int j = 0; j < N; j += 4)
                __asm__ volatile("vmovupd %0, %%ymm1\n\t"
                                 "vfmadd231pd %1, %2, %%ymm1\n\t"
                                 "vmovupd %%ymm1, %0"
                                 : "+m"(*(__m256d_u *)&c[i][j])
                                 : "m"(*(__m256d_u *)&b[k][j]), "x"(s)
                                 : "xmm1");
        }
}

int main(void)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            a[i][j] = 0.1 * (i + j);
            b[i][j] = 0.3 * (i - j) + 1e-9;
        }
    dgemm();
    double sum = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            sum += c[i][j] * (1 + i * j);
    printf("%.17g\n", sum);
    return 0;
}
