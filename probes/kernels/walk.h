/* The loops that kernels are made of. Each macro defines one kernel; the body says what happens at one element.
 *
 * Assumption: the arena is larger than the working set by at least 8 KiB, because a walk always makes whole turns of its loop.
 */
#ifndef CV_WALK_H
#define CV_WALK_H

#include "../probe.h"

#if defined(__x86_64__) || defined(__i386__)
#define CV_X86 1
#else
#define CV_X86 0
#endif

typedef long long cv_v16 __attribute__((vector_size(16)));
typedef long long cv_v32 __attribute__((vector_size(32)));
typedef long long cv_v64 __attribute__((vector_size(64)));

/* A reference whose address was computed from a loaded value ends in _BY. */
#ifdef CV_RECORDING /* recorded/: the same kernels once more, but references go to the recorder instead of to memory */
#include "../recorder.h"
#define CV_TARGET(name)
#define CV_SEEN(size, flags, address) cv_record((uintptr_t)(address), size, flags, __COUNTER__)
#define CV_LOAD(type, address) CV_SEEN(sizeof(type), 0, address)
#define CV_LOAD_BY(type, address) CV_SEEN(sizeof(type), CV_RECORD_DEPENDENT, address)
#define CV_STORE(type, address, value) ((void)(value), CV_SEEN(sizeof(type), CV_RECORD_STORE, address))
#define CV_STORE_BY(type, address, value) ((void)(value), CV_SEEN(sizeof(type), CV_RECORD_STORE | CV_RECORD_DEPENDENT, address))
#define CV_UPDATE(flags, address)                 \
    {                                             \
        const char *const q = address;            \
        CV_SEEN(8, flags, q);                     \
        CV_SEEN(8, (flags) | CV_RECORD_STORE, q); \
    }
#define CV_ENTRY(qualifiers, entry) (CV_SEEN(4, 0, entry), *(entry))
#else
#if CV_X86
#define CV_TARGET(name) __attribute__((target(name)))
#else
#define CV_TARGET(name)
#endif
#define CV_SEEN(size, flags, address)
#define CV_LOAD(type, address) ((void)*(volatile const type *)(address))
#define CV_LOAD_BY CV_LOAD
#define CV_STORE(type, address, value) (*(volatile type *)(address) = (value))
#define CV_STORE_BY CV_STORE
#define CV_UPDATE(flags, address)                                    \
    {                                                                \
        volatile uint64_t *const q = (volatile uint64_t *)(address); \
        *q = *q + 1;                                                 \
    }
#define CV_ENTRY(qualifiers, entry) (*(qualifiers uint32_t *)(entry))
#endif

#define CV_REPEAT8(body) body(0) body(1) body(2) body(3) body(4) body(5) body(6) body(7)
#define CV_REPEAT16(body) CV_REPEAT8(body) body(8) body(9) body(10) body(11) body(12) body(13) body(14) body(15)

/* Walks `bytes` in steps of `turn` bytes from where the last call stopped. `body` handles one turn at `p`; `made` references. */
#define CV_WALK(name, attributes, turn, made, bytes_walked, prepare, body)                                      \
    attributes uint64_t name(struct cv_state *state, uint64_t wanted)                                           \
    {                                                                                                           \
        const size_t walked = (bytes_walked) / (turn) * (turn), length = walked ? walked : (turn);              \
        size_t position = state->position < length ? state->position : 0;                                       \
        uint64_t done = 0;                                                                                      \
        prepare;                                                                                                \
        while (done < wanted) {                                                                                 \
            const uint64_t left = (length - position) / (turn), needed = (wanted - done + (made) - 1) / (made); \
            const uint64_t turns = left < needed ? left : needed;                                               \
            char *p = state->base + position;                                                                   \
            char *const end = p + turns * (turn);                                                               \
            for (; p < end; p += (turn)) {                                                                      \
                body                                                                                            \
            }                                                                                                   \
            position += turns * (turn);                                                                         \
            if (position >= length)                                                                             \
                position = 0;                                                                                   \
            done += turns * (made);                                                                             \
        }                                                                                                       \
        state->position = position;                                                                             \
        return done;                                                                                            \
    }

/* Sweeps the offset table; after each sweep all offsets are flipped, so that 1024 entries reach every word of the working set.
 * A generator in the loop would cost more than the load it feeds. `body(k)` sees the address of its element as AT(k). */
#define CV_AT(k) (base + 8 * (size_t)(CV_ENTRY(const, table + k) ^ flip))
#define CV_RANDOM(name, per_element, body)                                                           \
    uint64_t name(struct cv_state *state, uint64_t wanted)                                           \
    {                                                                                                \
        char *const base = state->base;                                                              \
        char *const hot = state->hot;                                                                \
        size_t position = state->position;                                                           \
        uint32_t flip = state->flip;                                                                 \
        uint64_t done = 0;                                                                           \
        (void)hot;                                                                                   \
        while (done < wanted) {                                                                      \
            const size_t left = (CV_OFFSETS - position) / 16;                                        \
            const uint64_t needed = (wanted - done + 16 * (per_element) - 1) / (16 * (per_element)); \
            const size_t turns = left < needed ? left : needed;                                      \
            const uint32_t *table = state->offsets + position;                                       \
            const uint32_t *const end = table + 16 * turns;                                          \
            for (; table < end; table += 16) {                                                       \
                CV_REPEAT16(body)                                                                    \
            }                                                                                        \
            done += 16 * (per_element) * turns;                                                      \
            position += 16 * turns;                                                                  \
            if (position == CV_OFFSETS) {                                                            \
                position = 0;                                                                        \
                state->random = state->random * 6364136223846793005u + 1442695040888963407u;         \
                flip = (uint32_t)(state->random >> 32) & state->flip_mask;                           \
            }                                                                                        \
        }                                                                                            \
        state->position = position;                                                                  \
        state->flip = flip;                                                                          \
        return done;                                                                                 \
    }

#endif
