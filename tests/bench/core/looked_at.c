/* Functions that the model was developed with. */
#include <math.h>

#include "functions.h"

static FUNCTION(dot)
{
    double r = 0;
    TURNS r += x[i] * y[i];
    return r;
}
static FUNCTION(axpy)
{
    TURNS y[i] = 0.5 * x[i] + 0.25 * y[i];
    return y[3];
}
static FUNCTION(sum_integers)
{
    int r = 0;
    TURNS r += a[i];
    return r;
}
static FUNCTION(largest)
{
    double r = x[0];
    TURNS r = x[i] > r ? x[i] : r;
    return r;
}
static FUNCTION(polynomial)
{
    double r = 0;
    TURNS r = r * 0.5 + x[i];
    return r;
}
static FUNCTION(prefix_sum)
{
    for (int i = 1; i < N; i++)
        b[i] = b[i - 1] + a[i];
    return b[N - 1];
}
static FUNCTION(count_byte)
{
    int r = 0;
    TURNS r += s[i] == 'e';
    return r;
}
static FUNCTION(copy_words)
{
    TURNS c[i] = a[i];
    return c[5];
}
static FUNCTION(stencil)
{
    for (int i = 1; i < N - 1; i++)
        z[i] = (x[i - 1] + x[i] + x[i + 1]) * 0.333;
    return z[7];
}
static FUNCTION(divide_each)
{
    TURNS z[i] = 1.0 / (x[i] + 2.0);
    return z[2];
}
static FUNCTION(root_each)
{
    TURNS z[i] = sqrt(x[i] + 1.0);
    return z[2];
}
static FUNCTION(fnv_hash)
{
    uint32_t r = 2166136261u;
    TURNS r = (r ^ s[i]) * 16777619u;
    return r;
}
static FUNCTION(table_checksum)
{
    uint32_t r = ~0u;
    TURNS r = words[(r ^ s[i]) & 255] ^ r >> 8;
    return r;
}
static FUNCTION(matrix_vector)
{
    for (int i = 0; i < 16; i++) {
        double r = 0;
        for (int j = 0; j < 16; j++)
            r += x[16 * i + j] * y[j];
        z[i] = r;
    }
    return z[3];
}
static FUNCTION(binary_search)
{
    int r = 0;
    for (int i = 0; i < 32; i++) {
        const int key = (int)(fresh() % (4 * N));
        int low = 0, high = N;
        while (low < high) {
            const int middle = (low + high) / 2;
            if (c[middle] < key)
                low = middle + 1;
            else
                high = middle;
        }
        r += low;
    }
    return r;
}
static FUNCTION(bubble)
{
    int v[16], r = 0;
    for (int i = 0; i < 16; i++)
        v[i] = (int)fresh();
    for (int i = 15; i > 0; i--)
        for (int j = 0; j < i; j++)
            if (v[j] > v[j + 1]) {
                const int keep = v[j];
                v[j] = v[j + 1];
                v[j + 1] = keep;
                r++;
            }
    return r + v[3];
}
static FUNCTION(collatz)
{
    int r = 0;
    for (int i = 0; i < 8; i++)
        for (uint32_t v = (fresh() & 1023) + 2; v != 1; r++)
            v = v & 1 ? 3 * v + 1 : v / 2;
    return r;
}
static FUNCTION(interpreter)
{
    uint64_t r = 1;
    for (int i = 0; i < 256; i++)
        switch (s[i] & 7) {
        case 0: r += 3; break;
        case 1: r ^= r << 1; break;
        case 2: r -= 7; break;
        case 3: r *= 5; break;
        case 4: r = ~r; break;
        case 5: r = r >> 3 | r << 61; break;
        case 6: r += (uint64_t)a[i]; break;
        default: r |= 1; break;
        }
    return (double)r;
}
static __attribute__((noinline)) int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static FUNCTION(recursion) { return fib(12); }
static FUNCTION(list_walk)
{
    int at = 0, r = 0;
    TURNS
    {
        at = b[at] & (N - 1);
        r += at;
    }
    return r;
}

/* clang-format off: ENTRY brings its comma */
const struct entry looked_at[] = {ENTRY(dot) ENTRY(axpy) ENTRY(sum_integers) ENTRY(largest) ENTRY(polynomial) ENTRY(prefix_sum)
                                      ENTRY(count_byte) ENTRY(copy_words) ENTRY(stencil) ENTRY(divide_each) ENTRY(root_each) ENTRY(fnv_hash)
                                          ENTRY(table_checksum) ENTRY(matrix_vector) ENTRY(binary_search) ENTRY(bubble) ENTRY(collatz)
                                              ENTRY(interpreter) ENTRY(recursion) ENTRY(list_walk){0, 0}};
/* clang-format on */
