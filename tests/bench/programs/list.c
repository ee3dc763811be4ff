/* Walks a linked list whose nodes lie in random order in 32 MiB: every load waits for the one before.
 * Usage: list [nodes] [steps] */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define NODES (1 << 19)
#define STEPS 8000000

struct node {
    struct node *next;
    long value[7];
};

static uint64_t state = 1;

static uint64_t draw(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

int main(int argc, char **argv)
{
    const uint32_t count = argc > 1 ? (uint32_t)atol(argv[1]) : NODES;
    const long steps = argc > 2 ? atol(argv[2]) : STEPS;
    struct node *nodes = calloc(count, sizeof *nodes);
    uint32_t *order = malloc(sizeof *order * count);
    if (!nodes || !order)
        return 1;
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    for (uint32_t i = count - 1; i > 0; i--) { /* Sattolo: one cycle through all nodes */
        uint32_t j = (uint32_t)draw(i), other = order[i];
        order[i] = order[j];
        order[j] = other;
    }
    for (uint32_t i = 0; i < count; i++) {
        nodes[order[i]].next = &nodes[order[(i + 1) % count]];
        nodes[order[i]].value[0] = i & 3;
    }
    long sum = 0;
    const struct node *at = nodes;
    for (long step = 0; step < steps; step++) {
        sum += at->value[0];
        at = at->next;
    }
    printf("%ld\n", sum);
    return 0;
}
