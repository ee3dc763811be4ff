/* Stack distances with a Fenwick tree over time: each line's last touch is a mark, and the distance is the number of marks after it.
 *
 * Times are numbered anew, in order, when they run out, so that memory grows with the lines and not with the stream. */
#include "cv_stack.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY (UINT64_C(1) << 16)

struct cv_stack {
    uint32_t line_shift;
    uint64_t *line_at; /* by time 1 ..: line whose last touch it is */
    uint8_t *marked;   /* by time: there is one */
    uint32_t *tree;    /* Fenwick tree over the marks */
    uint64_t times;    /* capacity; a power of two */
    uint64_t now;      /* last time used */
    uint64_t *key;     /* hash table: line + 1, 0 where empty (line numbers are below 2^61) */
    uint32_t *time_of;
    uint64_t slots, lines;
    uint64_t *counts, distances; /* histogram, and its allocated length */
    uint64_t used;               /* of the histogram */
    uint64_t previous;           /* line + 1 of the last access */
};

cv_status cv_stack_new(uint32_t line_bytes, cv_stack **stack)
{
    if (line_bytes < 8 || line_bytes > 4096 || (line_bytes & (line_bytes - 1)))
        return CV_ERROR_ARGUMENT;
    cv_stack *s = calloc(1, sizeof *s);
    if (!s)
        return CV_ERROR_MEMORY;
    s->line_shift = (uint32_t)__builtin_ctz(line_bytes);
    *stack = s;
    return CV_OK;
}

void cv_stack_free(cv_stack *s)
{
    if (!s)
        return;
    free(s->line_at);
    free(s->marked);
    free(s->tree);
    free(s->key);
    free(s->time_of);
    free(s->counts);
    free(s);
}

static uint64_t slot_of(const cv_stack *s, uint64_t line)
{
    uint64_t slot = (line * UINT64_C(0x9e3779b97f4a7c15)) >> 20 & (s->slots - 1);
    while (s->key[slot] != 0 && s->key[slot] != line + 1)
        slot = (slot + 1) & (s->slots - 1);
    return slot;
}

/* Sums of a tree whose leaves are all set: node i covers its lowest set bit's worth of leaves. */
static void build_tree(cv_stack *s)
{
    memset(s->tree, 0, (s->times + 1) * sizeof *s->tree);
    for (uint64_t i = 1; i <= s->times; i++) {
        s->tree[i] += s->marked[i];
        uint64_t parent = i + (i & (~i + 1));
        if (parent <= s->times)
            s->tree[parent] += s->tree[i];
    }
}

/* Number the marks 1 .. lines in their order; room for as many more. */
static cv_status renumber(cv_stack *s)
{
    uint64_t times = s->times ? s->times : FIRST_CAPACITY, last = s->now;
    while (times < 2 * s->lines)
        times *= 2;
    if (times > UINT32_MAX / 2)
        return CV_ERROR_LIMIT;
    if (times != s->times) {
        uint64_t *line_at = realloc(s->line_at, (times + 1) * sizeof *line_at);
        s->line_at = line_at ? line_at : s->line_at;
        uint8_t *marked = realloc(s->marked, times + 1);
        s->marked = marked ? marked : s->marked;
        uint32_t *tree = realloc(s->tree, (times + 1) * sizeof *tree);
        s->tree = tree ? tree : s->tree;
        if (!line_at || !marked || !tree)
            return CV_ERROR_MEMORY;
    }
    uint64_t next = 0;
    for (uint64_t t = 1; t <= last; t++)
        if (s->marked[t]) {
            s->line_at[++next] = s->line_at[t];
            s->time_of[slot_of(s, s->line_at[next])] = (uint32_t)next;
        }
    memset(s->marked, 1, next + 1);
    memset(s->marked + next + 1, 0, times - next);
    s->times = times;
    s->now = next;
    build_tree(s);
    return CV_OK;
}

static cv_status grow_lines(cv_stack *s)
{
    cv_stack grown = *s;
    grown.slots = s->slots ? 2 * s->slots : FIRST_CAPACITY;
    grown.key = calloc(grown.slots, sizeof *grown.key);
    grown.time_of = calloc(grown.slots, sizeof *grown.time_of);
    if (!grown.key || !grown.time_of) {
        free(grown.key);
        free(grown.time_of);
        return CV_ERROR_MEMORY;
    }
    for (uint64_t i = 0; i < s->slots; i++)
        if (s->key[i]) {
            uint64_t slot = slot_of(&grown, s->key[i] - 1);
            grown.key[slot] = s->key[i];
            grown.time_of[slot] = s->time_of[i];
        }
    free(s->key);
    free(s->time_of);
    *s = grown;
    return CV_OK;
}

static cv_status grow_histogram(cv_stack *s, uint64_t distance)
{
    uint64_t wanted = s->distances ? s->distances : 1024;
    while (wanted <= distance)
        wanted *= 2;
    uint64_t *counts = realloc(s->counts, wanted * sizeof *counts);
    if (!counts)
        return CV_ERROR_MEMORY;
    memset(counts + s->distances, 0, (wanted - s->distances) * sizeof *counts);
    s->counts = counts;
    s->distances = wanted;
    return CV_OK;
}

static cv_status count(cv_stack *s, uint64_t distance)
{
    if (distance >= s->distances && grow_histogram(s, distance) != CV_OK)
        return CV_ERROR_MEMORY;
    s->counts[distance]++;
    s->used = distance >= s->used ? distance + 1 : s->used;
    return CV_OK;
}

static void add(cv_stack *s, uint64_t time, uint32_t change)
{
    for (; time <= s->times; time += time & (~time + 1))
        s->tree[time] += change;
}

static uint64_t marks_up_to(const cv_stack *s, uint64_t time)
{
    uint64_t sum = 0;
    for (; time; time &= time - 1)
        sum += s->tree[time];
    return sum;
}

static cv_status touch(cv_stack *s, uint64_t line)
{
    if (line + 1 == s->previous)
        return count(s, 0);
    s->previous = line + 1;
    cv_status status = CV_OK;
    if (2 * (s->lines + 1) > s->slots)
        status = grow_lines(s);
    if (status == CV_OK && s->now == s->times)
        status = renumber(s);
    if (status != CV_OK)
        return status;
    uint64_t slot = slot_of(s, line), now = ++s->now;
    if (s->key[slot]) {
        uint64_t before = s->time_of[slot];
        status = count(s, s->lines - marks_up_to(s, before));
        s->marked[before] = 0;
        add(s, before, UINT32_MAX); /* minus one */
    } else {
        s->key[slot] = line + 1;
        s->lines++;
    }
    s->time_of[slot] = (uint32_t)now;
    s->line_at[now] = line;
    s->marked[now] = 1;
    add(s, now, 1);
    return status;
}

cv_status cv_stack_feed(cv_stack *s, const cv_refs *refs)
{
    for (size_t i = 0; i < refs->count; i++) {
        uint64_t first = refs->address[i], last = first + (refs->size && refs->size[i] ? refs->size[i] - 1 : 0);
        last = last >= first ? last : UINT64_MAX;
        for (uint64_t line = first >> s->line_shift; line <= last >> s->line_shift; line++) {
            cv_status status = touch(s, line);
            if (status != CV_OK)
                return status;
        }
    }
    return CV_OK;
}

uint64_t cv_stack_cold(const cv_stack *s) { return s->lines; }

uint64_t cv_stack_histogram(const cv_stack *s, const uint64_t **counts)
{
    *counts = s->counts;
    return s->used;
}
