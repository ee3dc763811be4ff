/* Walks a linked list whose nodes lie in random order in 32 MiB: every load waits for the one before. */
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

int main(void)
{
    struct node *nodes = calloc(NODES, sizeof *nodes);
    uint32_t *order = malloc(sizeof *order * NODES);
    if (!nodes || !order)
        return 1;
    for (uint32_t i = 0; i < NODES; i++)
        order[i] = i;
    for (uint32_t i = NODES - 1; i > 0; i--) { /* Sattolo: one cycle through all nodes */
        uint32_t j = (uint32_t)draw(i), other = order[i];
        order[i] = order[j];
        order[j] = other;
    }
    for (uint32_t i = 0; i < NODES; i++) {
        nodes[order[i]].next = &nodes[order[(i + 1) % NODES]];
        nodes[order[i]].value[0] = i & 3;
    }
    long sum = 0;
    const struct node *at = nodes;
    for (long step = 0; step < STEPS; step++) {
        sum += at->value[0];
        at = at->next;
    }
    printf("%ld\n", sum);
    return 0;
}
