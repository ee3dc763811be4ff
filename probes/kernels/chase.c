/* Dependent loads: the address of each comes from the one before. One to eight independent chains, and chains that restart. */
#include "kernels.h"
#include "walk.h"

/* The asm keeps each step a load of its own: without it two cursors that the compiler could prove equal would be merged. */
#define MOVE(c)      \
    c = *(void **)c; \
    __asm__ volatile("" : "+r"(c));
#define STEP(c)                         \
    CV_SEEN(8, CV_RECORD_DEPENDENT, c); \
    MOVE(c)
#define FIRST_STEP(c) \
    CV_SEEN(8, 0, c); \
    MOVE(c)

uint64_t CV_NAME(chase)(struct cv_state *state, uint64_t wanted)
{
    void *a = state->cursor[0];
    uint64_t done = 0;
    for (; done < wanted; done += 8) {
        STEP(a) STEP(a) STEP(a) STEP(a) STEP(a) STEP(a) STEP(a) STEP(a)
    }
    state->cursor[0] = a;
    return done;
}

uint64_t CV_NAME(chase_2)(struct cv_state *state, uint64_t wanted)
{
    void *a = state->cursor[0], *b = state->cursor[1];
    uint64_t done = 0;
    for (; done < wanted; done += 8) {
        STEP(a) STEP(b) STEP(a) STEP(b) STEP(a) STEP(b) STEP(a) STEP(b)
    }
    state->cursor[0] = a, state->cursor[1] = b;
    return done;
}

uint64_t CV_NAME(chase_4)(struct cv_state *state, uint64_t wanted)
{
    void *a = state->cursor[0], *b = state->cursor[1], *c = state->cursor[2], *d = state->cursor[3];
    uint64_t done = 0;
    for (; done < wanted; done += 8) {
        STEP(a) STEP(b) STEP(c) STEP(d) STEP(a) STEP(b) STEP(c) STEP(d)
    }
    state->cursor[0] = a, state->cursor[1] = b, state->cursor[2] = c, state->cursor[3] = d;
    return done;
}

uint64_t CV_NAME(chase_8)(struct cv_state *state, uint64_t wanted)
{
    void *a = state->cursor[0], *b = state->cursor[1], *c = state->cursor[2], *d = state->cursor[3];
    void *e = state->cursor[4], *f = state->cursor[5], *g = state->cursor[6], *h = state->cursor[7];
    uint64_t done = 0;
    for (; done < wanted; done += 8) {
        STEP(a) STEP(b) STEP(c) STEP(d) STEP(e) STEP(f) STEP(g) STEP(h)
    }
    state->cursor[0] = a, state->cursor[1] = b, state->cursor[2] = c, state->cursor[3] = d;
    state->cursor[4] = e, state->cursor[5] = f, state->cursor[6] = g, state->cursor[7] = h;
    return done;
}

/* Twelve dependent steps from a fresh random node, as a search makes them: how many searches overlap in the core's window. */
uint64_t CV_NAME(chase_restarted)(struct cv_state *state, uint64_t wanted)
{
    const size_t lines = state->bytes / CV_LINE;
    uint64_t done = 0;
    for (; done < wanted; done += 12) {
        state->random = state->random * 6364136223846793005u + 1442695040888963407u;
        void *a = state->base + (((state->random >> 33) * lines) >> 31) * CV_LINE;
        FIRST_STEP(a) STEP(a) STEP(a) STEP(a) STEP(a) STEP(a) STEP(a) STEP(a) STEP(a) STEP(a) STEP(a) STEP(a)
    }
    return done;
}
