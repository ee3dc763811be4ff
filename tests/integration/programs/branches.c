/* Branches whose predictability is known; each function's name says what it does. Argument: rounds. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define N 2000
#define KEEP __attribute__((noinline, noclone))

static volatile uint64_t sink;
static uint8_t unsorted[N], sorted[N], program[64];
static uint64_t random_state = 88172645463325252u;

static uint64_t draw(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

/* An inner loop of ten turns. */
KEEP static void fixed_loop(void)
{
    for (int i = 0; i < N / 10; i++)
        for (int j = 0; j < 10; j++)
            sink = j;
}

KEEP static void above_half(const uint8_t *values)
{
    for (int i = 0; i < N; i++)
        if (values[i] >= 128)
            sink = i;
}

KEEP static void with_random_data(void)
{
    for (int i = 0; i < N; i++)
        unsorted[i] = draw() >> 33;
    above_half(unsorted);
}

/* The same source as above_half, a function of its own. */
KEEP static void above_half_sorted(const uint8_t *values)
{
    for (int i = 0; i < N; i++)
        if (values[i] >= 128)
            sink = i + 1;
}

/* An interpreter: a fixed program of 64 operations, dispatched through a table. */
KEEP static uint64_t interpret(void)
{
    static const void *const table[] = {&&add, &&shift, &&store, &&negate};
    uint64_t value = 1;
    int at = 0;
#define NEXT goto *table[program[at++ % 64]]
    NEXT;
add:
    value += at;
    if (at >= N)
        return value;
    NEXT;
shift:
    value = value << 1 | value >> 63;
    NEXT;
store:
    sink = value;
    NEXT;
negate:
    value = -value;
    NEXT;
}

KEEP static uint64_t nest(int depth) { return depth ? nest(depth - 1) + draw() : 0; }

KEEP static void copy_bytes(unsigned long count)
{
    void *from = unsorted, *to = sorted;
    __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(count) : : "memory");
}

static int compare(const void *a, const void *b) { return *(const uint8_t *)a - *(const uint8_t *)b; }

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < 64; i++)
        program[i] = draw() >> 20 & 3;
    program[63] = 0;
    with_random_data();
    copy_bytes(N);
    qsort(sorted, N, 1, compare);
    for (int round = 0; round < rounds; round++) {
        fixed_loop();
        with_random_data();
        above_half_sorted(sorted);
        sink = interpret();
        sink = nest(20);
        copy_bytes(100);
        qsort(sorted, N, 1, compare);
    }
    return 0;
}
