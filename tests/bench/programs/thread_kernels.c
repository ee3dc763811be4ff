/* Small OpenMP programs, one binary: thread_kernels WHAT. Loops, locks, tasks, barriers, atomics, false sharing. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef double d;
static void *get(size_t n)
{
    void *p = aligned_alloc(64, (n + 63) / 64 * 64);
    return p;
}
static double triad(long n, int turns)
{
    d *a = get(n * 8), *b = get(n * 8), *c = get(n * 8);
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        a[i] = 0, b[i] = i, c[i] = 1;
    for (int t = 0; t < turns; t++)
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++)
            a[i] = b[i] + 1.5 * c[i];
    return a[n / 2];
}
static double dgemm(int n, int turns)
{
    d *a = get(8L * n * n), *b = get(8L * n * n), *c = get(8L * n * n);
    for (long i = 0; i < (long)n * n; i++)
        a[i] = i % 7, b[i] = i % 5, c[i] = 0;
    for (int t = 0; t < turns; t++)
#pragma omp parallel for schedule(static)
        for (int i = 0; i < n; i++)
            for (int k = 0; k < n; k++) {
                d x = a[(long)i * n + k];
                for (int j = 0; j < n; j++)
                    c[(long)i * n + j] += x * b[(long)k * n + j];
            }
    return c[n];
}
static double cg(long n, int turns)
{
    int per = 27;
    int *col = get(n * per * 4);
    d *val = get(n * per * 8), *x = get(n * 8), *r = get(n * 8), *p = get(n * 8), *q = get(n * 8);
    unsigned s = 1;
    for (long i = 0; i < n; i++)
        for (int k = 0; k < per; k++) {
            s = s * 1664525u + 1013904223u;
            long j = i + (long)(s >> 8) % 20001 - 10000;
            col[i * per + k] = k == 0 ? i : j < 0 ? 0 : j >= n ? n - 1 : j;
            val[i * per + k] = k == 0 ? 30 : -0.5;
        }
    for (long i = 0; i < n; i++)
        x[i] = 0, r[i] = p[i] = 1;
    d rr = n;
    for (int t = 0; t < turns; t++) {
        d pq = 0, rn = 0;
#pragma omp parallel for reduction(+ : pq) schedule(static)
        for (long i = 0; i < n; i++) {
            d sum = 0;
            for (int k = 0; k < per; k++)
                sum += val[i * per + k] * p[col[i * per + k]];
            q[i] = sum;
            pq += sum * p[i];
        }
        d alpha = rr / pq;
#pragma omp parallel for reduction(+ : rn) schedule(static)
        for (long i = 0; i < n; i++) {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
            rn += r[i] * r[i];
        }
        d beta = rn / rr;
        rr = rn;
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++)
            p[i] = r[i] + beta * p[i];
    }
    return rr;
}
static double lock_loop(long n, int inside, int outside)
{
    double total = 0;
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        double x = i;
        for (int k = 0; k < outside; k++)
            x = x * 1.0000001 + 0.5;
#pragma omp critical
        {
            for (int k = 0; k < inside; k++)
                total = total * 0.9999999 + x;
        }
    }
    return total;
}
/* Dependent products and sums: a time that no cache and no compiler changes. */
static double chain(double x, long turns)
{
    for (long k = 0; k < turns; k++)
        x = x * 0.99999 + 0.5;
    return x;
}
static double imbalance(int n, int dynamic)
{
    double total = 0;
    if (dynamic) {
#pragma omp parallel for schedule(dynamic, 8) reduction(+ : total)
        for (int i = 0; i < n; i++) {
            total += chain(i, i * 4);
        }
    } else {
#pragma omp parallel for schedule(static) reduction(+ : total)
        for (int i = 0; i < n; i++) {
            total += chain(i, i * 4);
        }
    }
    return total;
}
static double barriers(int turns, int work)
{
    double total = 0;
#pragma omp parallel reduction(+ : total)
    for (int t = 0; t < turns; t++) {
        total += chain(t, work);
#pragma omp barrier
    }
    return total;
}
static void merge_sort(int *a, int *b, long n)
{
    if (n <= 32) {
        for (long i = 1; i < n; i++) {
            int v = a[i];
            long j = i;
            for (; j > 0 && a[j - 1] > v; j--)
                a[j] = a[j - 1];
            a[j] = v;
        }
        return;
    }
    long h = n / 2;
    if (n > 100000) {
#pragma omp task
        merge_sort(a, b, h);
        merge_sort(a + h, b + h, n - h);
#pragma omp taskwait
    } else {
        merge_sort(a, b, h);
        merge_sort(a + h, b + h, n - h);
    }
    long i = 0, j = h, k = 0;
    while (i < h && j < n)
        b[k++] = a[j] < a[i] ? a[j++] : a[i++];
    while (i < h)
        b[k++] = a[i++];
    while (j < n)
        b[k++] = a[j++];
    memcpy(a, b, n * sizeof *a);
}
static double tasks(long n)
{
    int *a = get(n * 4), *b = get(n * 4);
    unsigned s = 1;
    for (long i = 0; i < n; i++)
        a[i] = (s = s * 1664525u + 1013904223u) >> 1;
#pragma omp parallel
#pragma omp single
    merge_sort(a, b, n);
    return a[n / 2];
}
static double amdahl(int n)
{
    double x = chain(1, 40000000), total = 0; /* serial */
#pragma omp parallel for reduction(+ : total) schedule(static)
    for (int i = 0; i < n; i++) {
        total += chain(i, 1000);
    }
    return total + x;
}
static double false_sharing(long n)
{
    static volatile long counter[128];
#pragma omp parallel
    {
        int me = omp_get_thread_num();
        for (long i = 0; i < n; i++)
            counter[me]++;
    }
    return counter[0];
}
static double atomics(long n)
{
    static long counter;
#pragma omp parallel for
    for (long i = 0; i < n; i++) {
#pragma omp atomic
        counter++;
    }
    return counter;
}
int main(int c, char **v)
{
    const char *w = c > 1 ? v[1] : "";
    double r = 0;
    if (!strcmp(w, "triad"))
        r = triad(8000000, 20);
    if (!strcmp(w, "triadl3"))
        r = triad(400000, 600);
    if (!strcmp(w, "dgemm"))
        r = dgemm(640, 2);
    if (!strcmp(w, "cg"))
        r = cg(200000, 20);
    if (!strcmp(w, "lock"))
        r = lock_loop(200000, 100, 400);
    if (!strcmp(w, "lockhot"))
        r = lock_loop(200000, 400, 100);
    if (!strcmp(w, "imbalance"))
        r = imbalance(8000, 0);
    if (!strcmp(w, "dynamic"))
        r = imbalance(8000, 1);
    if (!strcmp(w, "barriers"))
        r = barriers(20000, 2000);
    if (!strcmp(w, "tasks"))
        r = tasks(4000000);
    if (!strcmp(w, "amdahl"))
        r = amdahl(100000);
    if (!strcmp(w, "falsesharing"))
        r = false_sharing(50000000);
    if (!strcmp(w, "atomics"))
        r = atomics(10000000);
    printf("%s %g\n", w, r);
    return 0;
}
