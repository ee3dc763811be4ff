/* How fast threads of a run are: their parts of cores and of bandwidth, and the lines that others write. */
#include "thread_run.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define EVERY UINT32_MAX
#define STEPS 40 /* of the search for how much slower memory is, at most */
#define PRECISE 1e-12
#define SLOWEST 1e6  /* ... at most */
#define ROUNDED 1e-9 /* of shares */

/* fmax and fmin are calls, which keep track of numbers that are none. */
static double larger(double one, double other) { return one > other ? one : other; }
static double smaller(double one, double other) { return one < other ? one : other; }

/* How many times slower threads are, in the mean, because others use their core: each has one of its own while there are enough. */
static double beside_siblings(const cv_threads *t)
{
    const cv_threads_machine *m = t->machine;
    return !m->pairs || t->busy <= m->pairs ? 1 : 1 + larger(m->sibling - 1, 0) * smaller(2.0 * (t->busy - m->pairs) / t->busy, 1);
}

/* Whether something runs on the other processor of a core. */
static bool has_sibling(const cv_threads *t, uint32_t processor)
{
    const cv_threads_machine *m = t->machine;
    if (!m->pairs)
        return false;
    uint32_t other = m->pinning == CV_THREADS_COMPACT ? processor ^ 1 : processor < m->pairs ? processor + m->pairs : processor - m->pairs;
    return other < m->cores && t->runners[other];
}

static void share_pinned(cv_threads *t)
{
    const cv_threads_machine *m = t->machine;
    memset(t->runners, 0, m->cores * sizeof *t->runners);
    t->busy = 0;
    for (uint32_t i = 0; i < t->n_runs; i++)
        t->busy += !t->runners[t->runs[i] % m->cores]++;
    for (uint32_t i = 0; i < t->n_runs; i++) {
        const uint32_t processor = t->runs[i] % m->cores;
        t->threads[t->runs[i]].share = 1.0 / t->runners[processor];
        t->threads[t->runs[i]].beside = has_sibling(t, processor) ? larger(m->sibling, 1) : 1;
    }
}

/* How many times longer a thread takes that waits so many times longer for the last level and for memory. */
static double waiting(const struct running *th, double near, double memory)
{
    return 1 - th->memory - th->near + th->memory * memory + th->near * near;
}

/* Gives cores to those that run. */
static void share_cores(cv_threads *t)
{
    const uint32_t cores = t->machine->cores;
    if (t->machine->pinning != CV_THREADS_FREE) {
        share_pinned(t);
        return;
    }
    t->busy = t->n_runs < cores ? t->n_runs : cores;
    const double share = t->n_runs > cores ? (double)cores / t->n_runs : 1, beside = beside_siblings(t);
    for (uint32_t i = 0; i < t->n_runs; i++) {
        t->threads[t->runs[i]].share = share;
        t->threads[t->runs[i]].beside = beside;
    }
}

/* Bytes a second that the threads of a complex (EVERY: of all) get from memory or the last level, if these are so many times slower;
 * `slope` becomes how much that changes with the times. */
static double used(const cv_threads *t, uint32_t complex, bool near, double slower, double *slope)
{
    double sum = 0, change = 0;
    for (uint32_t i = 0; i < t->n_runs; i++) {
        const struct running *th = &t->threads[t->runs[i]];
        const struct complex *own = &t->complexes[th->complex];
        if (complex != EVERY && complex != th->complex)
            continue;
        const double of_near = near ? slower : own->near, of_memory = near ? own->memory : larger(slower, own->memory);
        const double part = near ? th->near : slower >= own->memory ? th->memory : 0, inverse = 1 / waiting(th, of_near, of_memory);
        const double gets = th->share * (near ? th->near_demand : th->demand) * inverse;
        sum += gets;
        change -= gets * part * inverse;
    }
    *slope = change;
    return sum;
}

/* Bytes a second that so many busy cores can have; of more than are known as much as the most. */
static double capacity_of(const double *capacities, uint32_t known, uint32_t busy)
{
    return known && busy ? capacities[busy < known ? busy - 1 : known - 1] : INFINITY;
}

/* The least factor by which waiting grows so that all together get no more than there is: by Newton's steps, which come from below, else
 * by halves. */
static double least_slower(const cv_threads *t, uint32_t complex, bool near, double capacity)
{
    double slower = 1, low = 1, high = SLOWEST, slope;
    for (int i = 0; i < STEPS && capacity < INFINITY; i++) {
        const double more = used(t, complex, near, slower, &slope) - capacity;
        if (more <= 0 && i == 0)
            return 1;
        *(more > 0 ? &low : &high) = slower;
        double next = slower - more / slope;
        if (fabs(next - slower) <= PRECISE * slower)
            break;
        if (!(next > low && next < high))
            next = sqrt(low * high);
        slower = next;
    }
    return slower;
}

static uint32_t complexes_of(const cv_threads_machine *m) { return m->complexes > 1 ? m->complexes : 1; }

/* Cores of a complex that are busy. */
static uint32_t busy_of(const cv_threads *t, const struct complex *complex)
{
    const uint32_t n = complexes_of(t->machine), most = (t->machine->cores + n - 1) / n;
    return complex->runners < most ? complex->runners : most;
}

/* How much longer threads wait for the last level of their complex and for memory: through their complex, and of all. */
static void share_bandwidth(cv_threads *t)
{
    const cv_threads_machine *m = t->machine;
    const uint32_t n = complexes_of(m);
    for (uint32_t c = 0; c < n; c++) {
        const uint32_t busy = busy_of(t, &t->complexes[c]);
        t->complexes[c].near = least_slower(t, c, true, capacity_of(m->near_capacity, m->near_capacities, busy));
        t->complexes[c].memory = least_slower(t, c, false, capacity_of(m->complex_capacity, m->complex_capacities, busy));
    }
    const double slower = least_slower(t, EVERY, false, capacity_of(m->capacity, m->capacities, t->busy));
    for (uint32_t c = 0; c < n; c++)
        t->complexes[c].memory = larger(t->complexes[c].memory, slower);
}

static const cv_threads_touch *touch_of(const cv_threads *t, const struct running *th, uint32_t k)
{
    return &t->work->touches[th->touches + k];
}

/* Sums what those that run do to lines. */
static void sum_lines(cv_threads *t)
{
    for (uint32_t i = 0; i < t->n_runs; i++) {
        const struct running *th = &t->threads[t->runs[i]];
        for (uint32_t k = 0; k < th->n_touches; k++) {
            struct line_use *line = &t->lines[touch_of(t, th, k)->line];
            *line = (struct line_use){.lost = line->lost};
        }
    }
    for (uint32_t i = 0; i < t->n_runs; i++) {
        const struct running *th = &t->threads[t->runs[i]];
        for (uint32_t k = 0; k < th->n_touches; k++) {
            const cv_threads_touch *touch = touch_of(t, th, k);
            struct line_use *line = &t->lines[touch->line];
            line->runners++;
            line->touched += (touch->loads + touch->stores) * th->per_second;
            line->stored += touch->stores * th->per_second;
            line->atomics += touch->atomics * th->per_second;
        }
    }
}

/* How often a thread comes to a line in a second alone: what it loads and stores at once is one visit. */
static double plain_visits(const cv_threads_touch *touch) { return larger(touch->loads, touch->stores - touch->atomics); }

/* ... to all lines that others that run touch, too. */
static double visits_of(const cv_threads *t, const struct running *th)
{
    double sum = 0;
    for (uint32_t k = 0; k < th->n_touches; k++) {
        const cv_threads_touch *touch = touch_of(t, th, k);
        if (t->lines[touch->line].runners > 1)
            sum += plain_visits(touch) + touch->atomics;
    }
    return sum * th->per_second;
}

static void know_losses(const cv_threads_costs *c, bool atomic, struct loss *known)
{
    const double alone = atomic ? c->sum : c->counter, crowded = atomic ? c->crowded_atomic : c->crowded;
    const struct loss plain[] = {{3, c->shared_3}, {9, c->shared_9}, {27, c->shared_27}, {81, c->shared_81}, {243, c->shared_243}};
    const struct loss of_atomics[] = {{3, c->atomic_3}, {9, c->atomic_9}, {27, c->atomic_27}, {81, c->atomic_81}, {243, c->atomic_243}};
    known[0] = (struct loss){alone, larger(crowded - 1, 0) * alone};
    for (int i = 1; i < CV_THREAD_LOSSES; i++) {
        const struct loss *one = atomic ? &of_atomics[i - 1] : &plain[i - 1];
        known[i] = (struct loss){larger(one->after * c->step, known[i - 1].after), one->lost};
    }
}

void cv_threads_know_losses(cv_threads *t)
{
    for (int atomic = 0; atomic < 2; atomic++)
        know_losses(&t->machine->costs, atomic, t->losses[atomic]);
}

/* Together, no visit takes less than one of two that do nothing else. Where they lose more than after some work, the core alone reads what
 * it just stored under another name, which a line that others want does not allow: only a thread as fast as that loses so much, and one
 * that takes as long alone as the two together loses nothing. */
static double lost_after(const struct loss *known, double seconds)
{
    if (seconds < known[0].after)
        return known[0].lost * seconds / known[0].after;
    const double least = larger(known[0].after + known[0].lost - seconds, 0);
    int i = 1;
    while (i < CV_THREAD_LOSSES && known[i].after <= seconds)
        i++;
    if (i == CV_THREAD_LOSSES)
        return larger(known[CV_THREAD_LOSSES - 1].lost, least);
    const int renamed = i == 1 && known[0].lost > known[1].lost;
    const struct loss before = renamed ? (struct loss){known[0].after + known[0].lost, 0} : known[i - 1];
    if (seconds < before.after)
        return least;
    const double part = (seconds - before.after) / (known[i].after - before.after);
    return larger(before.lost + part * (known[i].lost - before.lost), least);
}

/* Seconds that a thread loses that comes to a line so often in a second alone, this being a part of its visits of all lines. Whoever was
 * at another line before finds none of them still there. Others take it away no more often than they touch it, and bring it back at the
 * cost of a handover. */
static double lost_to(const cv_threads *t, bool atomic, double often, double others, double part)
{
    const struct loss *known = t->losses[atomic];
    if (often <= 0 || others <= 0)
        return 0;
    const double each = part * lost_after(known, 1 / often) + (1 - part) * known[CV_THREAD_LOSSES - 1].lost;
    return smaller(often * each, others * larger(t->machine->costs.handover, each));
}

/* Seconds that a thread loses at one line in a second alone: its loads wait for those that store, its atomic operations for all that
 * touch the line. Stores wait in a buffer and cost it nothing. `present`: the part of the time in which others have a core; `visits`: of
 * all lines. */
static double lost_at(const cv_threads *t, const struct running *th, const cv_threads_touch *touch, double present, double visits)
{
    const struct line_use *line = &t->lines[touch->line];
    const double stored = present * (line->stored - touch->stores * th->per_second);
    const double touched = present * (line->touched - (touch->loads + touch->stores) * th->per_second);
    const double part = visits > 0 ? (plain_visits(touch) + touch->atomics) * th->per_second / visits : 1;
    return lost_to(t, false, touch->loads * th->per_second, stored, part) +
           lost_to(t, true, touch->atomics * th->per_second, touched, part);
}

/* The part of a second for which a line is held by the atomic operations of a thread and of others in a second of each alone: one after
 * another, each for half of what it takes with two threads. */
static double held_by_atomics(const cv_threads *t, const struct running *th, const cv_threads_touch *touch, double present)
{
    const cv_threads_costs *c = &t->machine->costs;
    const double own = touch->atomics * th->per_second, others = present * (t->lines[touch->line].atomics - own);
    return others > ROUNDED * own ? (own + others) * c->sum * c->crowded_atomic / 2 : 0;
}

/* How many times slower a thread is while those that touch its lines, too, have a core for a part of the time. More than two that count
 * in a line take no longer, as stores wait in buffers until the line is there, and then all are done; atomic operations do. */
static double slowed_by(const cv_threads *t, const struct running *th, double present)
{
    const double visits = visits_of(t, th);
    double lost = 0, held = 0;
    for (uint32_t k = 0; k < th->n_touches; k++) {
        const cv_threads_touch *touch = touch_of(t, th, k);
        lost += lost_at(t, th, touch, present, visits);
        held = larger(held, held_by_atomics(t, th, touch, present));
    }
    return larger(1 + lost, held);
}

/* ... in the mean over who has the other cores meanwhile: `slots` of `others`, each as likely, of which `alike` touch its lines. Times
 * are shared, so speeds are averaged, not what is lost. */
static double slowed_in_turn(const cv_threads *t, const struct running *th, uint32_t others, uint32_t slots, uint32_t alike)
{
    const uint32_t least = alike + slots > others ? alike + slots - others : 0, most = alike < slots ? alike : slots;
    double weight = 1, weights = 0, speed = 0;
    for (uint32_t k = least; k <= most; k++) {
        weights += weight;
        speed += weight / slowed_by(t, th, (double)k / alike);
        weight *= (double)(alike - k) * (slots - k) / ((k + 1.0) * (others - alike - slots + k + 1.0));
    }
    return weights / speed;
}

static void slow_those_that_touch(cv_threads *t)
{
    if (!t->work->n_touches || t->busy < 2)
        return;
    sum_lines(t);
    for (uint32_t i = 0; i < t->n_runs; i++) {
        struct running *th = &t->threads[t->runs[i]];
        uint32_t alike = 0;
        for (uint32_t k = 0; k < th->n_touches; k++)
            if (t->lines[touch_of(t, th, k)->line].runners > alike + 1)
                alike = t->lines[touch_of(t, th, k)->line].runners - 1;
        if (alike)
            th->slowed = slowed_in_turn(t, th, t->n_runs - 1, t->busy - 1, alike);
    }
}

/* Counts what was lost at each line in so many seconds of a thread. */
void cv_threads_add_lost(cv_threads *t, const struct running *th, double seconds)
{
    const double present = (t->busy - 1.0) / (t->n_runs - 1.0), visits = visits_of(t, th);
    double whole = 0;
    for (uint32_t k = 0; k < th->n_touches; k++)
        whole += lost_at(t, th, touch_of(t, th, k), present, visits);
    for (uint32_t k = 0; k < th->n_touches && whole > 0; k++)
        t->lines[touch_of(t, th, k)->line].lost += seconds * lost_at(t, th, touch_of(t, th, k), present, visits) / whole;
}

/* Whether some that run have no core, bandwidth or line for themselves. */
static bool is_shared(cv_threads *t)
{
    const cv_threads_machine *m = t->machine;
    const uint32_t n = complexes_of(m);
    const bool limited = m->complex_capacities || m->near_capacities;
    uint32_t touches = 0;
    double asked = 0;
    for (uint32_t c = 0; c < n; c++)
        t->complexes[c] = (struct complex){.near = 1, .memory = 1};
    for (uint32_t i = 0; i < t->n_runs; i++) {
        const struct running *th = &t->threads[t->runs[i]];
        if (limited) {
            struct complex *own = &t->complexes[th->complex];
            own->runners++;
            own->asked += th->demand;
            own->asked_near += th->near_demand;
        }
        asked += th->demand;
        touches |= th->n_touches;
    }
    if (m->pinning != CV_THREADS_FREE || t->n_runs > m->cores || (m->pairs && t->n_runs > m->pairs) || (touches && t->n_runs > 1))
        return true;
    bool lack = asked > capacity_of(m->capacity, m->capacities, t->n_runs);
    for (uint32_t c = 0; c < n && !lack; c++) {
        const uint32_t busy = busy_of(t, &t->complexes[c]);
        lack = t->complexes[c].asked > capacity_of(m->complex_capacity, m->complex_capacities, busy) ||
               t->complexes[c].asked_near > capacity_of(m->near_capacity, m->near_capacities, busy);
    }
    return lack;
}

static void share(cv_threads *t)
{
    share_cores(t);
    share_bandwidth(t);
    for (uint32_t i = 0; i < t->n_runs; i++)
        t->threads[t->runs[i]].slowed = 1;
    slow_those_that_touch(t);
    for (uint32_t i = 0; i < t->n_runs; i++) {
        struct running *th = &t->threads[t->runs[i]];
        const struct complex *own = &t->complexes[th->complex];
        assert(th->state == RUNNING && th->memory >= 0 && th->near >= 0 && th->memory + th->near <= 1 + ROUNDED);
        th->rate = th->share / waiting(th, own->near, own->memory) / th->slowed / th->beside;
        assert(th->rate > 0 && th->rate <= 1 + ROUNDED);
    }
}

double cv_threads_set_speeds(cv_threads *t)
{
    double until = INFINITY;
    t->shared = is_shared(t);
    if (t->shared)
        share(t);
    for (uint32_t i = 0; i < t->n_runs; i++) {
        const struct running *th = &t->threads[t->runs[i]];
        until = smaller(until, t->shared ? th->left / th->rate : th->left);
    }
    for (uint32_t i = 0; i < t->n_sleeps; i++)
        until = smaller(until, t->threads[t->sleeps[i]].until - t->now);
    return larger(until, 0);
}
