#include "intervals.h"

#include "grow.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

void cv_intervals_free(cv_intervals *map)
{
    free(map->nodes);
    memset(map, 0, sizeof *map);
}

/* Priorities that a file's writer cannot foresee: ranges placed in their order would make a chain of the tree. */
static uint32_t next_priority(cv_intervals *map)
{
    if (!map->random && getrandom(&map->random, sizeof map->random, 0) != sizeof map->random)
        map->random = (uint64_t)(uintptr_t)map->nodes ^ (uint64_t)clock();
    map->random = map->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(map->random >> 32);
}

/* Room for the pieces of one operation: a range cut in two and a new one. */
static cv_status reserve(cv_intervals *map)
{
    CV_RESERVE(map->nodes, map->capacity, map->count + 4);
    if (!map->count)
        map->nodes[map->count++] = (cv_interval){0};
    return map->count + 4 < UINT32_MAX ? CV_OK : CV_ERROR_LIMIT;
}

static uint32_t make(cv_intervals *map, uint64_t start, uint64_t length, uint32_t what)
{
    uint32_t node = map->spare;
    if (node)
        map->spare = map->nodes[node].right;
    else
        node = (uint32_t)map->count++;
    map->nodes[node] = (cv_interval){start, length, what, next_priority(map), 0, 0};
    return node;
}

/* Cut a tree into what begins before an address and the rest. */
static void split(cv_intervals *map, uint32_t tree, uint64_t address, uint32_t *low, uint32_t *high)
{
    if (!tree) {
        *low = *high = 0;
        return;
    }
    cv_interval *node = &map->nodes[tree];
    if (node->start < address) {
        split(map, node->right, address, &node->right, high);
        *low = tree;
    } else {
        split(map, node->left, address, low, &node->left);
        *high = tree;
    }
}

static uint32_t join(cv_intervals *map, uint32_t low, uint32_t high)
{
    if (!low || !high)
        return low ? low : high;
    cv_interval *a = &map->nodes[low], *b = &map->nodes[high];
    if (a->priority > b->priority) {
        a->right = join(map, a->right, high);
        return low;
    }
    b->left = join(map, low, b->left);
    return high;
}

static void release(cv_intervals *map, uint32_t tree, cv_interval_gone gone, void *context)
{
    if (!tree)
        return;
    cv_interval *node = &map->nodes[tree];
    release(map, node->left, gone, context);
    release(map, node->right, gone, context);
    gone(context, node->what, node->length);
    *node = (cv_interval){.right = map->spare};
    map->spare = tree;
}

static uint32_t last_of(const cv_intervals *map, uint32_t tree)
{
    while (tree && map->nodes[tree].right)
        tree = map->nodes[tree].right;
    return tree;
}

/* Shorten a node that reaches beyond `start`; what it has beyond `end` becomes a node of its own, or 0. */
static uint32_t cut(cv_intervals *map, uint32_t at, uint64_t start, uint64_t end)
{
    cv_interval node = map->nodes[at];
    uint64_t node_end = node.start + node.length;
    if (!at || node_end <= start)
        return 0;
    map->nodes[at].length = start - node.start;
    return node_end > end ? make(map, end, node_end - end, node.what) : 0;
}

/* Take [start, end) out: what lies before it and after it. */
static void take_out(cv_intervals *map, uint64_t start, uint64_t end, cv_interval_gone gone, void *context, uint32_t *before,
                     uint32_t *after)
{
    uint32_t within;
    split(map, map->root, start, before, after);
    split(map, *after, end, &within, after);
    uint32_t first = last_of(map, *before), last = last_of(map, within), rest = 0;
    if (first) {
        cv_interval was = map->nodes[first];
        rest = cut(map, first, start, end);
        uint64_t removed = was.length - map->nodes[first].length - (rest ? map->nodes[rest].length : 0);
        if (removed)
            gone(context, was.what, removed);
    }
    if (last) {
        uint64_t last_end = map->nodes[last].start + map->nodes[last].length;
        if (last_end > end) {
            rest = make(map, end, last_end - end, map->nodes[last].what);
            map->nodes[last].length = end - map->nodes[last].start;
        }
    }
    release(map, within, gone, context);
    *after = join(map, rest, *after);
}

cv_status cv_intervals_clear(cv_intervals *map, uint64_t start, uint64_t length, cv_interval_gone gone, void *context)
{
    uint32_t before, after;
    cv_status status = reserve(map);
    if (status || !length)
        return status;
    take_out(map, start, start + length, gone, context, &before, &after);
    map->root = join(map, before, after);
    return CV_OK;
}

cv_status cv_intervals_assign(cv_intervals *map, uint64_t start, uint64_t length, uint32_t what, cv_interval_gone gone, void *context)
{
    uint32_t before, after;
    cv_status status = reserve(map);
    if (status || !length)
        return status;
    take_out(map, start, start + length, gone, context, &before, &after);
    map->root = join(map, join(map, before, make(map, start, length, what)), after);
    return CV_OK;
}

void cv_intervals_around(const cv_intervals *map, uint64_t address, uint32_t *before, uint32_t *after)
{
    *before = *after = 0;
    for (uint32_t node = map->root; node;) {
        if (map->nodes[node].start <= address) {
            *before = node;
            node = map->nodes[node].right;
        } else {
            *after = node;
            node = map->nodes[node].left;
        }
    }
}
