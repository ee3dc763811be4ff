/* The links between nodes of a torus or a fat tree. A message takes all links of its route at once, when they are free and no message
 * that came before it wants one of them, and holds them as long as its node's links (circuit switching, first come first served on
 * every link; nothing waits while it holds a part of its route, so routes cannot lock each other out).
 *
 * Torus: dimension order, the shorter way round, upwards where both are equal (Dally, Seitz 1987). Fat tree: XGFT(n; m; w) of Oehring,
 * Ibel, Das, Kumar (1995), up to the first common switch by D-mod-k (Zahavi 2010), then down. */
#include "internal.h"

typedef struct {
    bool busy;
    uint32_t claims, stamp; /* messages that wait for it; the last scan in which an earlier message did */
} wire;

struct fabric {
    const cv_replay_network *net;
    wire *wires;
    uint32_t scan;
    fifo waiting;
};

typedef bool visitor(fabric *f, wire *w);

static bool torus(fabric *f, uint64_t at, uint64_t to, visitor *visit)
{
    const cv_replay_network *net = f->net;
    uint64_t stride = 1;
    for (uint32_t d = 0; d < net->topology_levels; d++) {
        uint64_t size = (uint64_t)net->topology_down[d], here = at / stride % size, there = to / stride % size;
        uint64_t ahead = (there + size - here) % size;
        bool back = 2 * ahead > size;
        for (uint64_t hops = back ? size - ahead : ahead; hops > 0; hops--) {
            if (!visit(f, &f->wires[(at * net->topology_levels + d) * 2 + back]))
                return false;
            uint64_t next = (here + (back ? size - 1 : 1)) % size;
            at = at + next * stride - here * stride;
            here = next;
        }
        stride *= size;
    }
    return true;
}

static bool fat_tree(fabric *f, uint64_t from, uint64_t to, visitor *visit)
{
    const cv_replay_network *net = f->net;
    uint64_t first[CV_REPLAY_TOPOLOGY_LEVELS], below[CV_REPLAY_TOPOLOGY_LEVELS], copies[CV_REPLAY_TOPOLOGY_LEVELS],
        parent[CV_REPLAY_TOPOLOGY_LEVELS], offset = 0, nodes = 1;
    uint32_t top = 0;
    for (uint32_t l = 0; l < net->topology_levels; l++)
        nodes *= (uint64_t)net->topology_down[l];
    /* below: nodes under a child of the level; copies: children with the same nodes; first: its first wire. */
    for (uint64_t under = 1, width = 1; top == 0 || from / under != to / under; top++) {
        uint64_t ups = (uint64_t)net->topology_up[top];
        first[top] = offset;
        below[top] = under;
        copies[top] = width;
        parent[top] = to / width % ups;
        offset += nodes / under * width * ups * 2;
        under *= (uint64_t)net->topology_down[top];
        width *= ups;
    }
    uint64_t copy = 0, copy_at[CV_REPLAY_TOPOLOGY_LEVELS];
    for (uint32_t l = 0; l < top; l++) {
        uint64_t child = from / below[l] * copies[l] + copy;
        copy_at[l] = copy;
        if (!visit(f, &f->wires[first[l] + (child * (uint64_t)net->topology_up[l] + parent[l]) * 2]))
            return false;
        copy += copies[l] * parent[l];
    }
    for (uint32_t l = top; l-- > 0;) {
        uint64_t child = to / below[l] * copies[l] + copy_at[l];
        if (!visit(f, &f->wires[first[l] + (child * (uint64_t)net->topology_up[l] + parent[l]) * 2 + 1]))
            return false;
    }
    return true;
}

static bool along(simulation *s, const message *m, visitor *visit)
{
    uint64_t from = node_of(s, m->source), to = node_of(s, m->destination);
    return (s->net->topology == CV_REPLAY_TORUS ? torus : fat_tree)(s->fabric, from, to, visit);
}

static bool is_open(fabric *f, wire *w) { return !w->busy && w->claims == 0; }

static bool is_next(fabric *f, wire *w) { return !w->busy && w->stamp != f->scan; }

static bool take(fabric *f, wire *w)
{
    w->busy = true;
    return true;
}

static bool leave(fabric *f, wire *w)
{
    w->busy = false;
    return true;
}

static bool claim(fabric *f, wire *w)
{
    w->claims++;
    return true;
}

static bool take_claimed(fabric *f, wire *w)
{
    w->claims--;
    w->busy = true;
    return true;
}

static bool stamp(fabric *f, wire *w)
{
    w->stamp = f->scan;
    return true;
}

bool cv_fabric_take(simulation *s, uint32_t id)
{
    message *m = &s->messages[id];
    if (along(s, m, is_open)) {
        along(s, m, take);
        m->has_route = true;
        return true;
    }
    along(s, m, claim);
    cv_fifo_append(s, &s->fabric->waiting, id);
    return false;
}

void cv_fabric_release(simulation *s, const message *done)
{
    fabric *f = s->fabric;
    along(s, done, leave);
    fifo waiting = f->waiting;
    f->waiting = (fifo){NONE, NONE, 0};
    f->scan++;
    for (uint32_t id; (id = cv_fifo_take(s, &waiting)) != NONE;) {
        message *m = &s->messages[id];
        if (along(s, m, is_next)) {
            along(s, m, take_claimed);
            m->has_route = true;
            cv_transfer_start(s, id);
        } else {
            along(s, m, stamp);
            cv_fifo_append(s, &f->waiting, id);
        }
    }
}

/* Returns the number of wires, 0 for a topology that cannot be or that is smaller than the machine. */
static uint64_t wires_of(const cv_replay_network *net)
{
    uint64_t nodes = 1, wires = 0, under = 1, width = 1;
    const uint64_t most = UINT32_MAX;
    if (net->topology_levels == 0 || net->topology_levels > CV_REPLAY_TOPOLOGY_LEVELS)
        return 0;
    for (uint32_t l = 0; l < net->topology_levels; l++)
        if (net->topology_down[l] < 1 || (nodes *= (uint64_t)net->topology_down[l]) > most)
            return 0;
    if (nodes < net->nodes)
        return 0;
    if (net->topology == CV_REPLAY_TORUS)
        return nodes * net->topology_levels * 2;
    for (uint32_t l = 0; l < net->topology_levels; l++) {
        if (net->topology_up[l] < 1 || (wires += nodes / under * width * (uint64_t)net->topology_up[l] * 2) > most)
            return 0;
        under *= (uint64_t)net->topology_down[l];
        if ((width *= (uint64_t)net->topology_up[l]) > most)
            return 0;
    }
    return wires;
}

bool cv_fabric_possible(const cv_replay_network *net)
{
    return net->topology == CV_REPLAY_FLAT || (net->topology <= CV_REPLAY_FAT_TREE && wires_of(net) > 0);
}

bool cv_fabric_build(simulation *s)
{
    if (s->net->topology == CV_REPLAY_FLAT)
        return true;
    s->fabric = calloc(1, sizeof *s->fabric);
    if (s->fabric == NULL)
        return false;
    *s->fabric = (fabric){.net = s->net, .waiting = {NONE, NONE, 0}};
    s->fabric->wires = calloc(wires_of(s->net), sizeof *s->fabric->wires);
    return s->fabric->wires != NULL;
}

void cv_fabric_clear(simulation *s)
{
    if (s->fabric)
        free(s->fabric->wires);
    free(s->fabric);
}
