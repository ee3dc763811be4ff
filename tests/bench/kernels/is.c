/* Ranks integer keys by counting, as in NPB IS. Usage: is [turns] */
#include <stdio.h>
#include <stdlib.h>

#define KEYS (1 << 20)
#define LARGEST (1 << 16)

static int key[KEYS], count[LARGEST], ordered[KEYS];

__attribute__((noinline)) static void rank_keys(int turn)
{
    key[turn % KEYS] = turn % LARGEST;
    for (int i = 0; i < LARGEST; i++)
        count[i] = 0;
    for (int i = 0; i < KEYS; i++)
        count[key[i]]++;
    for (int i = 1; i < LARGEST; i++)
        count[i] += count[i - 1];
    for (int i = KEYS - 1; i >= 0; i--)
        ordered[--count[key[i]]] = key[i];
}

int main(int argc, char **argv)
{
    int turns = argc > 1 ? atoi(argv[1]) : 4;
    unsigned state = 314159;
    for (int i = 0; i < KEYS; i++) {
        state = state * 1664525u + 1013904223u;
        key[i] = (state >> 17) + (state >> 18 & 0x7fff);
    }
    for (int turn = 0; turn < turns; turn++)
        rank_keys(turn);
    for (int i = 1; i < KEYS; i++)
        if (ordered[i - 1] > ordered[i])
            return 1;
    printf("%d\n", ordered[KEYS / 2]);
    return 0;
}
