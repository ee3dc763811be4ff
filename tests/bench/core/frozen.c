/* Functions for the proof: written before the model was run on any of them, and never used to change it. */
#include <math.h>

#include "functions.h"

static FUNCTION(complex_product)
{
    for (int i = 0; i < N; i += 2) {
        const double re = x[i] * y[i] - x[i + 1] * y[i + 1], im = x[i] * y[i + 1] + x[i + 1] * y[i];
        z[i] = re, z[i + 1] = im;
    }
    return z[9];
}
static FUNCTION(saxpy_single)
{
    TURNS h[i] = 0.5f * f[i] + g[i];
    return h[3];
}
static FUNCTION(smallest_index)
{
    int r = 0;
    for (int i = 1; i < N; i++)
        if (f[i] < f[r])
            r = i;
    return r;
}
static FUNCTION(moving_average)
{
    double r = 0;
    TURNS
    {
        r += 0.1 * (x[i] - r);
        z[i] = r;
    }
    return r;
}
static FUNCTION(histogram)
{
    memset(words, 0, 256 * sizeof *words);
    TURNS words[s[i]]++;
    return words[40];
}
static FUNCTION(transpose)
{
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++)
            z[16 * j + i] = x[16 * i + j];
    return z[8];
}
static FUNCTION(product_12)
{
    for (int i = 0; i < 12; i++)
        for (int j = 0; j < 12; j++) {
            double r = 0;
            for (int k = 0; k < 12; k++)
                r += x[12 * i + k] * y[12 * k + j];
            z[12 * i + j] = r;
        }
    return z[30];
}
static FUNCTION(five_points)
{
    for (int i = 1; i < 15; i++)
        for (int j = 1; j < 31; j++)
            z[32 * i + j] = 0.2 * (x[32 * i + j] + x[32 * i + j - 1] + x[32 * i + j + 1] + x[32 * i + j - 32] + x[32 * i + j + 32]);
    return z[100];
}
static FUNCTION(reciprocals)
{
    double r = 0;
    TURNS r += 1.0 / (x[i] + 1.5);
    return r;
}
static FUNCTION(norm)
{
    double r = 0;
    TURNS r += x[i] * x[i];
    return sqrt(r);
}
static FUNCTION(distances)
{
    TURNS z[i] = sqrt(x[i] * x[i] + y[i] * y[i]);
    return z[4];
}
static FUNCTION(heap_sift)
{
    for (int i = 0; i < 16; i++) {
        int at = 0;
        a[0] = (int)(fresh() & 0xffff);
        while (2 * at + 2 < 256) {
            int child = 2 * at + 1;
            if (a[child + 1] > a[child])
                child++;
            if (a[at] >= a[child])
                break;
            const int keep = a[at];
            a[at] = a[child], a[child] = keep;
            at = child;
        }
    }
    return a[0];
}
static FUNCTION(greatest_divisor)
{
    uint32_t r = 0;
    for (int i = 0; i < 16; i++) {
        uint32_t p = fresh() | 1, q = fresh() | 1;
        while (q) {
            const uint32_t rest = p % q;
            p = q, q = rest;
        }
        r += p;
    }
    return r;
}
static FUNCTION(string_hash)
{
    uint64_t r = 5381;
    TURNS r = r * 33 + s[i];
    return (double)r;
}
static FUNCTION(adler)
{
    uint32_t p = 1, q = 0;
    TURNS
    {
        p += s[i];
        q += p;
    }
    return (q % 65521) << 16 | p % 65521;
}
static FUNCTION(stack_machine)
{
    int64_t stack[16];
    int top = 0;
    stack[0] = 1;
    for (int i = 0; i < 256; i++) {
        const unsigned char op = t[i] & 3;
        if (op == 0 && top < 14)
            stack[top + 1] = i, top++;
        else if (op == 1 && top > 0)
            stack[top - 1] += stack[top], top--;
        else if (op == 2 && top > 0)
            stack[top - 1] ^= stack[top], top--;
        else
            stack[top] = -stack[top];
    }
    return (double)stack[top];
}
static __attribute__((noinline)) int hanoi(int n, int from, int to)
{
    return n == 0 ? from : hanoi(n - 1, from, 6 - from - to) + hanoi(n - 1, 6 - from - to, to) + to;
}
static FUNCTION(towers) { return hanoi(7, 1, 3); }
static FUNCTION(common_subsequence)
{
    int row[65] = {0};
    for (int i = 0; i < 16; i++) {
        int before = 0;
        for (int j = 1; j <= 64; j++) {
            const int keep = row[j];
            row[j] = s[i] == t[j] ? before + 1 : row[j] > row[j - 1] ? row[j] : row[j - 1];
            before = keep;
        }
    }
    return row[64];
}
static FUNCTION(insertion_sort)
{
    int v[24];
    for (int i = 0; i < 24; i++)
        v[i] = (int)fresh();
    for (int i = 1; i < 24; i++) {
        const int key = v[i];
        int j = i;
        for (; j > 0 && v[j - 1] > key; j--)
            v[j] = v[j - 1];
        v[j] = key;
    }
    return v[12];
}
static FUNCTION(bit_reverse)
{
    uint32_t r = 0;
    for (int i = 0; i < N; i++) {
        uint32_t v = (uint32_t)a[i];
        v = (v & 0x55555555) << 1 | (v >> 1 & 0x55555555);
        v = (v & 0x33333333) << 2 | (v >> 2 & 0x33333333);
        v = (v & 0x0f0f0f0f) << 4 | (v >> 4 & 0x0f0f0f0f);
        r ^= v;
    }
    return r;
}
static FUNCTION(encode_64)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned r = 0;
    for (int i = 0, o = 0; i + 2 < 360; i += 3, o += 4) {
        const unsigned v = (unsigned)s[i] << 16 | (unsigned)s[i + 1] << 8 | s[i + 2];
        t[o] = (unsigned char)digits[v >> 18], t[o + 1] = (unsigned char)digits[v >> 12 & 63];
        t[o + 2] = (unsigned char)digits[v >> 6 & 63], t[o + 3] = (unsigned char)digits[v & 63];
        r += t[o];
    }
    return r;
}
static FUNCTION(random_walk)
{
    int at = 0, highest = 0;
    for (int i = 0; i < 256; i++) {
        at += fresh() & 1 ? 1 : -1;
        if (at > highest)
            highest = at;
    }
    return highest;
}

/* clang-format off: ENTRY brings its comma */
const struct entry frozen[] = {ENTRY(complex_product) ENTRY(saxpy_single) ENTRY(smallest_index) ENTRY(moving_average) ENTRY(histogram)
                                   ENTRY(transpose) ENTRY(product_12) ENTRY(five_points) ENTRY(reciprocals) ENTRY(norm) ENTRY(distances)
                                       ENTRY(heap_sift) ENTRY(greatest_divisor) ENTRY(string_hash) ENTRY(adler) ENTRY(stack_machine)
                                           ENTRY(towers) ENTRY(common_subsequence) ENTRY(insertion_sort) ENTRY(bit_reverse) ENTRY(encode_64)
                                               ENTRY(random_walk){0, 0}};
/* clang-format on */
