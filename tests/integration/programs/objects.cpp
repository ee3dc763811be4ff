// Blocks by new and new[] of two places, one of them with an alignment; an exception leaves an allocation function in between.
#include <new>

enum { N = 1000 };

struct alignas(64) Wide {
    long value[8];
};

static volatile long sink;

__attribute__((noinline)) static long *make_longs() { return new long[N]; }
__attribute__((noinline)) static Wide *make_wide() { return new Wide; }

__attribute__((noinline)) static void fill(long *to, long count)
{
    for (long i = 0; i < count; i++)
        to[i] = i;
}

int main()
{
    long *longs = make_longs();
    fill(longs, N);
    try {
        sink = *new char[static_cast<std::size_t>(sink - 1) / 4];
    } catch (const std::bad_alloc &) {
        sink = 1;
    }
    Wide *wide = make_wide();
    fill(wide->value, 8);
    delete wide;
    delete[] longs;
    return 0;
}
