/* Write combining: stores that leave a level wait in a buffer of lines, where later ones join them. A line leaves the buffer when it is
 * full, when it is about to be read, or, the oldest first, when another needs its place. What waits at the end of a stream was not sent
 * yet, as dirty lines were not. */
#include "detailed.h"

typedef struct {
    uint64_t line;
    uint32_t owner;     /* of the last store */
    uint64_t bytes[64]; /* a bit for each byte of the line */
} cv_entry;

struct cv_combiner {
    uint32_t used;
    cv_entry entries[]; /* the oldest first */
};

cv_status cv_combiner_new(cv_node *n)
{
    if (n->is.combining == 0)
        return CV_OK;
    if (n->is.combining > 64 || n->is.line_bytes > 4096)
        return CV_ERROR_ARGUMENT;
    n->combiner = calloc(1, sizeof *n->combiner + n->is.combining * sizeof(cv_entry));
    return n->combiner ? CV_OK : CV_ERROR_MEMORY;
}

void cv_combiner_free(cv_combiner *c) { free(c); }

static bool has(const cv_entry *e, uint64_t byte) { return e->bytes[byte / 64] >> (byte % 64) & 1; }

static uint64_t count_bytes(const cv_entry *e)
{
    uint64_t count = 0;
    for (int i = 0; i < 64; i++)
        count += (uint64_t)__builtin_popcountll(e->bytes[i]);
    return count;
}

/* Send the bytes from the first that was written to the last. */
static void release(cv_node *n, uint32_t index)
{
    cv_combiner *c = n->combiner;
    assert(index < c->used && c->used <= n->is.combining);
    cv_entry gone = c->entries[index];
    memmove(&c->entries[index], &c->entries[index + 1], (c->used - index - 1) * sizeof gone);
    c->used--;
    uint64_t first = 0, last = n->is.line_bytes - 1, start = gone.line << n->line_shift;
    while (!has(&gone, first))
        first++;
    while (!has(&gone, last))
        last--;
    cv_cause cause = {gone.owner, false, count_bytes(&gone) == last - first + 1};
    cv_send_store(n, (cv_bytes){start + first, start + last}, cause);
}

static uint32_t entry_of(const cv_combiner *c, uint64_t line)
{
    uint32_t index = 0;
    while (index < c->used && c->entries[index].line != line)
        index++;
    return index;
}

void cv_combine(cv_node *n, cv_bytes b, uint32_t owner)
{
    cv_combiner *c = n->combiner;
    uint64_t line = b.first >> n->line_shift, start = line << n->line_shift;
    if (entry_of(c, line) == c->used && c->used == n->is.combining)
        release(n, 0);
    uint32_t index = entry_of(c, line);
    if (index == c->used)
        c->entries[c->used++] = (cv_entry){.line = line};
    cv_entry *e = &c->entries[index];
    e->owner = owner;
    for (uint64_t byte = b.first - start; byte <= b.last - start; byte++)
        e->bytes[byte / 64] |= UINT64_C(1) << (byte % 64);
    if (count_bytes(e) == n->is.line_bytes)
        release(n, index);
}

void cv_combiner_release(cv_node *n, uint64_t line)
{
    uint32_t index = entry_of(n->combiner, line);
    if (index < n->combiner->used)
        release(n, index);
}
