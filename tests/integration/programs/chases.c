/* Loops whose loads wait for each other, and loops whose loads do not. Each function's name says what it does. No compiler may drop or
 * merge anything. Argument: rounds. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define N 4096
#define KEEP __attribute__((noinline, noclone))

struct node {
    struct node *next, *left, *right;
    uint64_t key, payload[4];
};

static struct node *nodes, *tree;
static uint32_t index_of[N];
static uint64_t values[N];
static uint32_t chain_head[256], chain_next[N];
static volatile uint64_t sink;

static uint64_t random_state = 88172645463325252u;

static uint64_t draw(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

KEEP static void prepare(void)
{
    uint32_t order[N];
    nodes = aligned_alloc(64, N * sizeof *nodes);
    for (int i = 0; i < N; i++)
        order[i] = i;
    for (int i = N - 1; i > 0; i--) {
        int j = draw() % (i + 1);
        uint32_t swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    for (int i = 0; i < N; i++) {
        nodes[order[i]] = (struct node){.next = &nodes[order[(i + 1) % N]], .key = draw()};
        index_of[i] = order[i];
        values[i] = i;
    }
    for (int i = 0; i < N; i++) {
        struct node **at = &tree;
        while (*at)
            at = nodes[i].key < (*at)->key ? &(*at)->left : &(*at)->right;
        *at = &nodes[i];
        chain_next[i] = chain_head[nodes[i].key % 256];
        chain_head[nodes[i].key % 256] = i;
    }
}

KEEP static void walk_list(void)
{
    struct node *p = nodes;
    for (int i = 0; i < N; i++)
        p = p->next;
    sink = (uintptr_t)p;
}

/* The loop spans two blocks: what one loads is the other's address. */
KEEP static void walk_list_across_blocks(void)
{
    struct node *p = nodes;
    for (int i = 0; i < N; i++) {
        if (p->key & 1)
            sink = i;
        p = p->next;
    }
}

KEEP static void walk_four_lists(void)
{
    struct node *a = nodes, *b = nodes + 1, *c = nodes + 2, *d = nodes + 3;
    for (int i = 0; i < N; i++) {
        a = a->next;
        b = b->next;
        c = c->next;
        d = d->next;
    }
    sink = (uintptr_t)a ^ (uintptr_t)b ^ (uintptr_t)c ^ (uintptr_t)d;
}

KEEP static void gather(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < N; i++)
        sum += values[index_of[i]];
    sink = sum;
}

KEEP static void search_tree(void)
{
    for (int i = 0; i < 300; i++) {
        uint64_t key = draw();
        struct node *at = tree;
        while (at && at->key != key)
            at = key < at->key ? at->left : at->right;
        sink = at != 0;
    }
}

/* As the match finder of a compressor: chains of earlier places with the same hash, a comparison at each. */
KEEP static void follow_hash_chains(void)
{
    for (int i = 0; i < 256; i++) {
        uint32_t at = chain_head[i];
        while (at) {
            if (values[at] == (uint64_t)i)
                sink = at;
            at = chain_next[at];
        }
    }
}

KEEP static void stream(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < N; i++)
        sum += values[i];
    sink = sum;
}

KEEP static void forward(void)
{
    for (int i = 1; i < N; i++)
        values[i] = ((volatile uint64_t *)values)[i - 1] + i;
}

KEEP static void split(void)
{
    char *bytes = (char *)values;
    uint64_t sum = 0;
    for (int i = 0; i < N / 8 - 1; i++)
        sum += *(volatile uint64_t *)(bytes + 64 * i + 60);
    sink = sum;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    prepare();
    for (int round = 0; round < rounds; round++) {
        walk_list();
        walk_list_across_blocks();
        walk_four_lists();
        gather();
        search_tree();
        follow_hash_chains();
        stream();
        forward();
        split();
    }
    return 0;
}
