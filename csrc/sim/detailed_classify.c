/* Misses by cause (M. D. Hill, 1987): compulsory where the level was never asked for the sector before; conflict where a fully
 * associative LRU cache of the same capacity, asked for the same lines, would have had the line; capacity otherwise. */
#include "detailed.h"

/* A line that was seen; in the shadow cache while `held`, there in order of use. */
typedef struct {
    uint64_t line, sectors;
    uint32_t newer, older;
    bool held;
} cv_seen;

struct cv_shadow {
    cv_seen *seen;     /* number 0 is the list's two ends */
    uint32_t *table;   /* line -> number, open addressing, 0: empty */
    uint64_t capacity; /* of the table, a power of two */
    uint64_t room;     /* of `seen` */
    uint64_t used, held, lines;
};

cv_status cv_shadow_new(cv_node *n)
{
    if (!n->is.classify)
        return CV_OK;
    cv_shadow *s = n->shadow = calloc(1, sizeof *s);
    if (!s)
        return CV_ERROR_MEMORY;
    s->capacity = 1024;
    s->room = s->capacity / 2;
    s->used = 1;
    s->lines = n->is.sets * n->is.ways;
    s->seen = calloc(s->room, sizeof *s->seen);
    s->table = calloc(s->capacity, sizeof *s->table);
    return s->seen && s->table ? CV_OK : CV_ERROR_MEMORY;
}

void cv_shadow_free(cv_shadow *s)
{
    if (!s)
        return;
    free(s->seen);
    free(s->table);
    free(s);
}

static uint64_t place(const cv_shadow *s, uint64_t line)
{
    uint64_t at = (line * UINT64_C(0x9e3779b97f4a7c15)) >> 20;
    for (at &= s->capacity - 1; s->table[at] && s->seen[s->table[at]].line != line;)
        at = (at + 1) & (s->capacity - 1);
    return at;
}

static bool grow(cv_shadow *s)
{
    cv_seen *seen = realloc(s->seen, 2 * s->room * sizeof *seen);
    if (!seen)
        return false;
    s->seen = seen;
    uint32_t *table = s->room < UINT32_MAX / 4 ? calloc(2 * s->capacity, sizeof *table) : NULL;
    if (!table)
        return false;
    free(s->table);
    s->table = table;
    s->capacity *= 2;
    s->room *= 2;
    for (uint32_t i = 1; i < s->used; i++)
        table[place(s, seen[i].line)] = i;
    return true;
}

static void unlink_seen(cv_shadow *s, uint32_t number)
{
    cv_seen *own = &s->seen[number];
    s->seen[own->newer].older = own->older;
    s->seen[own->older].newer = own->newer;
    own->held = false;
    s->held--;
}

static void make_newest(cv_shadow *s, uint32_t number)
{
    cv_seen *own = &s->seen[number], *ends = &s->seen[0];
    own->newer = 0;
    own->older = ends->older;
    s->seen[ends->older].newer = number;
    ends->older = number;
    own->held = true;
    s->held++;
}

enum cv_detailed_count cv_shadow_touch(cv_node *n, uint64_t line, uint64_t sectors)
{
    cv_shadow *s = n->shadow;
    if (s->used == s->room && !grow(s)) {
        n->of->out_of_memory = true;
        return CV_COUNT_COMPULSORY;
    }
    uint64_t at = place(s, line);
    if (!s->table[at]) {
        s->seen[s->used] = (cv_seen){line, 0, 0, 0, false};
        s->table[at] = (uint32_t)s->used++;
    }
    uint32_t number = s->table[at];
    cv_seen *own = &s->seen[number];
    enum cv_detailed_count cause = sectors & ~own->sectors ? CV_COUNT_COMPULSORY : own->held ? CV_COUNT_CONFLICT : CV_COUNT_CAPACITY;
    own->sectors |= sectors;
    if (own->held)
        unlink_seen(s, number);
    make_newest(s, number);
    if (s->held > s->lines)
        unlink_seen(s, s->seen[0].newer);
    return cause;
}
