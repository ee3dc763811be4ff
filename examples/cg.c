/* Conjugate gradients on a sparse symmetric positive definite matrix: the 27-point stencil of a cube of SIDE^3 points, in compressed
 * sparse rows. Solves A x = b with a known solution, prints the residual and the error, and fails when it did not converge.
 *
 *   gcc -g -O2 -o cg examples/cg.c -lm && ./cg [SIDE]        (default 60: 216,000 rows, 5.6 million nonzeros)
 *
 * Time goes into the product of the matrix with a vector: two streams (values and columns) and one gather (the vector). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_SIDE 60
#define LARGEST_SIDE 400
#define LARGEST_TURNS 500
#define TOLERANCE 1e-10

struct matrix {
    int rows;
    int *start; /* rows + 1 offsets into column and value */
    int *column;
    double *value;
};

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory) {
        fprintf(stderr, "cg: not enough memory\n");
        exit(1);
    }
    return memory;
}

/* Adds row (x, y, z): 26 neighbors of weight -1, fewer at the border, and a diagonal that dominates them. */
static int add_row(struct matrix *a, int side, int x, int y, int z, int at)
{
    for (int dz = -1; dz <= 1; dz++)
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++) {
                int nx = x + dx, ny = y + dy, nz = z + dz;
                if (nx < 0 || ny < 0 || nz < 0 || nx >= side || ny >= side || nz >= side)
                    continue;
                a->column[at] = (nz * side + ny) * side + nx;
                a->value[at++] = dx || dy || dz ? -1.0 : 26.5;
            }
    return at;
}

static struct matrix stencil(int side)
{
    struct matrix a = {.rows = side * side * side};
    size_t most = (size_t)a.rows * 27;
    a.start = allocate((size_t)a.rows + 1, sizeof *a.start);
    a.column = allocate(most, sizeof *a.column);
    a.value = allocate(most, sizeof *a.value);
    int row = 0;
    for (int z = 0; z < side; z++)
        for (int y = 0; y < side; y++)
            for (int x = 0; x < side; x++, row++)
                a.start[row + 1] = add_row(&a, side, x, y, z, a.start[row]);
    return a;
}

__attribute__((noinline)) static void multiply(const struct matrix *a, const double *x, double *y)
{
    for (int row = 0; row < a->rows; row++) {
        double sum = 0;
        for (int k = a->start[row]; k < a->start[row + 1]; k++)
            sum += a->value[k] * x[a->column[k]];
        y[row] = sum;
    }
}

__attribute__((noinline)) static double dot(int n, const double *x, const double *y)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

__attribute__((noinline)) static void add_scaled(int n, double factor, const double *x, double *y)
{
    for (int i = 0; i < n; i++)
        y[i] += factor * x[i];
}

__attribute__((noinline)) static void scale_add(int n, double factor, const double *x, double *y)
{
    for (int i = 0; i < n; i++)
        y[i] = x[i] + factor * y[i];
}

/* Returns the number of turns, or -1 without convergence; x holds the guess and then the solution. */
static int solve(const struct matrix *a, const double *b, double *x, double *residual)
{
    int n = a->rows, turn;
    double *r = allocate(n, sizeof *r), *p = allocate(n, sizeof *p), *q = allocate(n, sizeof *q);
    multiply(a, x, q);
    for (int i = 0; i < n; i++)
        p[i] = r[i] = b[i] - q[i];
    double norm = dot(n, b, b), rho = dot(n, r, r);
    for (turn = 0; turn < LARGEST_TURNS && rho > TOLERANCE * TOLERANCE * norm; turn++) {
        multiply(a, p, q);
        double alpha = rho / dot(n, p, q), before = rho;
        add_scaled(n, alpha, p, x);
        add_scaled(n, -alpha, q, r);
        rho = dot(n, r, r);
        scale_add(n, rho / before, r, p);
    }
    *residual = sqrt(rho / norm);
    free(r), free(p), free(q);
    return *residual <= TOLERANCE ? turn : -1;
}

int main(int argc, char **argv)
{
    int side = argc > 1 ? atoi(argv[1]) : DEFAULT_SIDE;
    if (side < 2 || side > LARGEST_SIDE) {
        fprintf(stderr, "usage: cg [SIDE], 2 to %d\n", LARGEST_SIDE);
        return 2;
    }
    struct matrix a = stencil(side);
    double *solution = allocate(a.rows, sizeof *solution), *b = allocate(a.rows, sizeof *b), *x = allocate(a.rows, sizeof *x);
    for (int i = 0; i < a.rows; i++)
        solution[i] = 1.0 + (i % 7) / 7.0;
    multiply(&a, solution, b);

    double residual, worst = 0;
    int turns = solve(&a, b, x, &residual);
    for (int i = 0; i < a.rows; i++)
        worst = fmax(worst, fabs(x[i] - solution[i]));
    printf("rows %d nonzeros %d turns %d residual %.2e error %.2e\n", a.rows, a.start[a.rows], turns, residual, worst);
    if (turns < 0 || worst > 1e-6) {
        fprintf(stderr, "cg: not converged\n");
        return 1;
    }
    return 0;
}
