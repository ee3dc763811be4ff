/* Transfers: a message takes an out-link at its source, an in-link at its destination and then a bus, each first come first
 * served, and holds all three for bytes / bandwidth. Between nodes a message that holds only its out-link (and waits for an in-link)
 * can lose it to one that could start at once, and then waits at the head of the queue. Within a node the links are per task. */
#include <math.h>

#include "internal.h"

static void hold(simulation *s, port *p, uint32_t id)
{
    message *m = &s->messages[id];
    m->has_out = true;
    m->newer = NONE;
    m->older = p->last_holder;
    if (p->last_holder == NONE)
        p->holders = id;
    else
        s->messages[p->last_holder].newer = id;
    p->last_holder = id;
}

static void let_go(simulation *s, port *p, uint32_t id)
{
    message *m = &s->messages[id];
    m->has_out = false;
    *(m->older == NONE ? &p->holders : &s->messages[m->older].newer) = m->newer;
    *(m->newer == NONE ? &p->last_holder : &s->messages[m->newer].older) = m->older;
}

static uint32_t victim(const simulation *s, const port *p)
{
    uint32_t id = p->holders;
    while (id != NONE && !s->messages[id].waits_in)
        id = s->messages[id].newer;
    return id;
}

static port *port_of(simulation *s, const message *m, uint32_t rank)
{
    return m->inside ? &s->task_ports[rank] : &s->node_ports[node_of(s, rank)];
}

static port *source_port(simulation *s, const message *m) { return port_of(s, m, m->source); }

static port *destination_port(simulation *s, const message *m) { return port_of(s, m, m->destination); }

static bus *bus_of(simulation *s, const message *m) { return m->inside ? &s->node_buses[node_of(s, m->source)] : &s->machine_bus; }

/* Takes the out-link from a message that only waits; it stays in the holders' list at its place when `heir` inherits it. */
static void rob(simulation *s, port *p, uint32_t heir)
{
    uint32_t robbed = victim(s, p);
    message *m = &s->messages[robbed];
    cv_fifo_remove(s, &destination_port(s, m)->want_in, robbed);
    m->waits_in = false;
    if (heir == NONE) {
        let_go(s, p, robbed);
    } else {
        message *h = &s->messages[heir];
        h->has_out = true;
        h->older = m->older;
        h->newer = m->newer;
        *(m->older == NONE ? &p->holders : &s->messages[m->older].newer) = heir;
        *(m->newer == NONE ? &p->last_holder : &s->messages[m->newer].older) = heir;
        m->has_out = false;
    }
    cv_fifo_prepend(s, &p->want_out, robbed);
}

static bool take_in(port *p)
{
    int32_t *tokens = p->half ? &p->free : &p->free_in;
    return *tokens > 0 && (*tokens)--;
}

static bool node_links(simulation *s, uint32_t id)
{
    message *m = &s->messages[id];
    port *a = source_port(s, m), *b = destination_port(s, m);
    bool robs = false;
    if (!a->infinite && !m->has_out) {
        if (a->free > 0) {
            a->free--;
            hold(s, a, id);
        } else if (victim(s, a) != NONE) {
            robs = true;
        } else {
            cv_fifo_append(s, &a->want_out, id);
            return false;
        }
    }
    if (!b->infinite && !m->has_in) {
        bool taken = take_in(b);
        if (!taken && !(b->half && victim(s, b) != NONE)) {
            m->waits_in = !robs;
            cv_fifo_append(s, robs ? &a->want_out : &b->want_in, id);
            return false;
        }
        if (robs)
            rob(s, a, id);
        if (!taken)
            rob(s, b, NONE);
        m->has_in = true;
    } else if (robs) {
        rob(s, a, id);
    }
    return true;
}

static bool task_links(simulation *s, uint32_t id)
{
    message *m = &s->messages[id];
    port *a = source_port(s, m), *b = destination_port(s, m);
    if (m->source == m->destination || a->infinite)
        return true;
    /* Half-duplex links are taken in task order, so that two messages never wait for each other. */
    bool in_first = a->half && m->source > m->destination;
    for (int step = 0; step < 2; step++) {
        if ((step == 0) == in_first) {
            if (!m->has_in && !(m->has_in = take_in(b))) {
                cv_fifo_append(s, &b->want_in, id);
                return false;
            }
        } else if (!m->has_out) {
            if (a->free <= 0) {
                cv_fifo_append(s, &a->want_out, id);
                return false;
            }
            a->free--;
            m->has_out = true;
        }
    }
    return true;
}

void cv_transfer_start(simulation *s, uint32_t id)
{
    message *m = &s->messages[id];
    double rate = m->inside ? s->net->bytes_per_second_intra[node_of(s, m->source)] : s->net->bytes_per_second;
    double travel = rate == 0 ? 0 : (double)m->bytes / rate;
    double wire = m->inside ? 0 : s->net->wire_latency, held = m->inside ? travel : fmax(travel, s->net->gap);
    if (s->net->cost_points && !m->reduce) {
        travel = held = cv_message_cost(s, s->net->cost_transfer, m->bytes);
        wire = 0;
    }
    m->physical_send = s->now;
    if (wire == 0 && held == travel) {
        schedule(s, s->now + travel, EVENT_END, id);
    } else {
        m->uses++;
        schedule(s, s->now + held, EVENT_RELEASE, id);
        schedule(s, s->now + travel + wire, EVENT_ARRIVAL, id);
    }
}

void cv_transfer_request(simulation *s, uint32_t id)
{
    message *m = &s->messages[id];
    bus *b = bus_of(s, m);
    m->waits_in = false;
    if (!(m->inside ? task_links(s, id) : node_links(s, id)))
        return;
    if (b->capacity) {
        if (b->used >= b->capacity) {
            cv_fifo_append(s, &b->want, id);
            return;
        }
        b->used++;
        m->on_bus = true;
    }
    if (s->fabric == NULL || s->messages[id].inside || cv_fabric_take(s, id))
        cv_transfer_start(s, id);
}

static void wake(simulation *s, fifo *list)
{
    uint32_t id = cv_fifo_take(s, list);
    if (id != NONE)
        cv_transfer_request(s, id);
}

static void free_out_link(simulation *s, port *p, uint32_t id)
{
    if (s->messages[id].inside)
        s->messages[id].has_out = false;
    else
        let_go(s, p, id);
    p->free++;
    if (p->half)
        wake(s, &p->want_in);
    wake(s, &p->want_out);
}

static void free_in_link(simulation *s, port *p, uint32_t id)
{
    s->messages[id].has_in = false;
    if (p->half) {
        p->free++;
        wake(s, &p->want_out);
    } else {
        p->free_in++;
    }
    wake(s, &p->want_in);
}

/* Gives a free bus to who waits; all that are free to a collective at the head of the queue, which starts when it has all. */
static void feed(simulation *s, bus *b)
{
    uint32_t id = b->want.head & ~COLLECTIVE_BIT;
    if (!(b->want.head & COLLECTIVE_BIT)) {
        wake(s, &b->want);
        return;
    }
    s->collectives[id].buses += b->capacity - b->used;
    b->used = b->capacity;
    if (s->collectives[id].buses == b->capacity) {
        cv_fifo_take(s, &b->want);
        cv_collective_begin(s, id);
    }
}

void cv_transfer_release(simulation *s, uint32_t id)
{
    /* Waking others may move the message array: take copies. */
    message m = s->messages[id];
    bus *b = bus_of(s, &m);
    if (m.has_route) {
        s->messages[id].has_route = false;
        cv_fabric_release(s, &m);
    }
    if (m.has_out)
        free_out_link(s, source_port(s, &m), id);
    if (m.has_in)
        free_in_link(s, destination_port(s, &m), id);
    if (!m.on_bus)
        return;
    b->used--;
    if (b->want.head != NONE)
        feed(s, b);
}

void cv_bus_for_collective(simulation *s, uint32_t id)
{
    bus *b = &s->machine_bus;
    if (b->capacity && b->used) {
        s->collectives[id].buses = b->capacity - b->used;
        b->used = b->capacity;
        cv_fifo_append(s, &b->want, id | COLLECTIVE_BIT);
        return;
    }
    b->used = b->capacity;
    cv_collective_begin(s, id);
}

void cv_bus_after_collective(simulation *s)
{
    bus *b = &s->machine_bus;
    b->used = 0;
    for (uint32_t turns = b->want.count; turns > 0 && b->used < b->capacity && b->want.head != NONE; turns--)
        feed(s, b);
}

static const fifo EMPTY = {NONE, NONE, 0};

static void set_port(port *p, int32_t in, int32_t out)
{
    p->infinite = in == 0 && out == 0;
    p->half = !p->infinite && (in == 0 || out == 0);
    p->capacity = p->half ? in + out : out;
    p->free = p->capacity;
    p->free_in = p->half ? 0 : in;
    p->want_out = p->want_in = EMPTY;
    p->holders = p->last_holder = NONE;
}

bool cv_links_build(simulation *s)
{
    const cv_replay_network *net = s->net;
    uint32_t ranks = s->trace->trace.ranks;
    s->node_ports = calloc(net->nodes, sizeof *s->node_ports);
    s->node_buses = calloc(net->nodes, sizeof *s->node_buses);
    s->task_ports = calloc(ranks, sizeof *s->task_ports);
    if (s->node_ports == NULL || s->node_buses == NULL || s->task_ports == NULL)
        return false;
    s->machine_bus = (bus){net->buses, 0, EMPTY};
    for (uint32_t n = 0; n < net->nodes; n++) {
        set_port(&s->node_ports[n], net->in_inter[n], net->out_inter[n]);
        s->node_buses[n] = (bus){net->buses_intra[n], 0, EMPTY};
    }
    for (uint32_t r = 0; r < ranks; r++)
        set_port(&s->task_ports[r], net->in_intra[node_of(s, r)], net->out_intra[node_of(s, r)]);
    return true;
}
