/* Programs whose references are the streams of tests/bench/streams.py. Usage: streams NAME REFERENCES */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS (8 << 20) /* 64 MiB */
#define N 1200
#define TILE 40
#define ROWS 200000
#define WIDTH 16

static double words[WORDS], sum;
static double a[N][N], b[N][N], c[N][N];
static double value[ROWS][WIDTH], x[ROWS], y[ROWS], p[ROWS], r[ROWS];
static int column[ROWS][WIDTH], pointer[ROWS + 1];

static unsigned long next(unsigned long *state) { return (*state = *state * 6364136223846793005ul + 1442695040888963407ul) >> 33; }

__attribute__((noinline)) static void stream(long count)
{
    for (long i = 0; i < count; i++)
        sum += words[i % WORDS];
}

__attribute__((noinline)) static void jump(long count)
{
    unsigned long state = 1;
    for (long i = 0; i < count; i++) {
        unsigned long drawn = next(&state);
        if (drawn % 5)
            sum += words[drawn % WORDS];
        else
            words[drawn % WORDS] = 1;
    }
}

__attribute__((noinline)) static void hot(long count)
{
    double *to = words + 2064, *one = words, *other = words + 1032;
    for (long i = 0; i < count / 4; i++)
        to[i % 1024] += one[i % 1024] * other[i % 1024];
}

__attribute__((noinline)) static void tile(int ii, int kk, int jj)
{
    for (int i = ii; i < ii + TILE; i++)
        for (int k = kk; k < kk + TILE; k++) {
            double s = a[i][k];
            for (int j = jj; j < jj + TILE; j++)
                c[i][j] += s * b[k][j];
        }
}

static void dgemm(long count)
{
    a[count % N][0] = b[count % N][0] = 1; /* or the compiler would know them */
    long left = count / (TILE * TILE * (1 + 3 * TILE));
    for (int jj = 0; left > 0; jj = (jj + TILE) % N)
        for (int kk = 0; kk < N; kk += TILE)
            for (int ii = 0; ii < N && left > 0; ii += TILE, left--)
                tile(ii, kk, jj);
}

__attribute__((noinline)) static void multiply(void)
{
    for (int i = 0; i < ROWS; i++) {
        double s = 0;
        for (int k = 0, first = pointer[i]; k < WIDTH; k++)
            s += value[i][first + k] * p[column[i][k]];
        y[i] = s;
    }
}

__attribute__((noinline)) static void update(void)
{
    for (int i = 0; i < ROWS; i++)
        sum += p[i] * y[i];
    for (int i = 0; i < ROWS; i++) {
        x[i] += 0.5 * p[i];
        r[i] -= 0.5 * y[i];
    }
    for (int i = 0; i < ROWS; i++)
        sum += r[i] * r[i];
    for (int i = 0; i < ROWS; i++)
        p[i] = r[i] + 0.5 * p[i];
}

static void cg(long count)
{
    unsigned long state = 7;
    value[count % ROWS][0] = 1;
    pointer[count % ROWS] = 0; /* or the compiler would know it */
    for (int i = 0; i < ROWS && count; i++)
        for (int k = 0; k < WIDTH; k++) {
            long near = i + (long)(next(&state) % 2001) - 1000, far = (long)(next(&state) % ROWS);
            column[i][k] = (int)(k < 4 ? far : near < 0 ? 0 : near < ROWS ? near : ROWS - 1);
        }
    for (long done = 0; done < count; done += ROWS * (2 + 3 * WIDTH + 12)) {
        multiply();
        update();
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(long);
    } streams[] = {{"stream", stream}, {"random", jump}, {"hot", hot}, {"dgemm", dgemm}, {"cg", cg}};
    long count = argc > 2 ? atol(argv[2]) : 0;
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (argc > 1 && strcmp(argv[1], streams[i].name) == 0)
            streams[i].run(count);
    printf("%g\n", sum);
    return 0;
}
