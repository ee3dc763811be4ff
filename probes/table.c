/* The kernel table: the one place that knows what each kernel does. */
#include <string.h>

#include "kernels/walk.h"
#include "probe.h"

#if CV_X86
static int cv_has_fma(void) { return __builtin_cpu_supports("fma"); }
static int cv_has_avx2(void) { return __builtin_cpu_supports("avx2"); }
static int cv_has_avx2_fma(void) { return cv_has_avx2() && cv_has_fma(); }
static int cv_has_avx512(void) { return __builtin_cpu_supports("avx512f"); }
#else
/* GCC lowers wider vectors to several instructions elsewhere: they would not be one reference each. */
static int cv_has_avx2(void) { return 0; }
static int cv_has_avx2_fma(void) { return 0; }
static int cv_has_avx512(void) { return 0; }
#if defined(__aarch64__)
#define cv_has_fma NULL
#else
static int cv_has_fma(void) { return 0; }
#endif
#endif

/* Columns of MEMORY_AS after the name, the functions', pattern and operation: width, stride, chains, advance, per iteration, flops,
 * content, writes, supported. */
#define MEMORY(id, ...) MEMORY_AS(id, id, __VA_ARGS__)
#define LOAD(id, width, cpu) MEMORY(id, "unit", "load", width, 0, 1, width, 16, 0, CV_ANY, 0, cpu)
#define STORE(id, width, cpu) MEMORY(id, "unit", "store", width, 0, 1, width, 16, 0, CV_ANY, 1, cpu)
#define STRIDE(id, stride) MEMORY(id, "stride", "load", 8, stride, 1, stride, 16, 0, CV_ANY, 0, NULL)
#define CHASE(id, count) MEMORY(id, "chase", "load", 8, 0, count, CV_LINE, 8, 0, CV_CHASE, 0, NULL)
#define RANDOM(id, operation, per_turn, advance, writes) \
    MEMORY(id, "random", operation, 8, 0, 1, advance, per_turn, 0, CV_OFFSET, writes, NULL)
#define FLOATING(id, operation, width, flops, cpu) REGISTERS(id, operation, width, 12, flops, cpu)
#define CHAIN(id, flops, per_turn, cpu) REGISTERS(id, #id, 8, per_turn, flops, cpu)

#define KERNELS                                                                                                    \
    LOAD(load, 8, NULL)                                                                                            \
    LOAD(load_v16, 16, NULL)                                                                                       \
    LOAD(load_v32, 32, cv_has_avx2)                                                                                \
    LOAD(load_v64, 64, cv_has_avx512)                                                                              \
    STRIDE(stride_2, 16)                                                                                           \
    STRIDE(stride_4, 32)                                                                                           \
    STRIDE(stride_8, 64)                                                                                           \
    STRIDE(stride_16, 128)                                                                                         \
    STRIDE(stride_32, 256)                                                                                         \
    MEMORY(streams_8, "streams", "load", 8, 0, 8, 8, 16, 0, CV_ANY, 0, NULL)                                       \
    MEMORY(stream_hot, "stream_hot", "load", 8, 0, 1, 16, 32, 0, CV_ANY, 0, NULL)                                  \
    STORE(store, 8, NULL)                                                                                          \
    STORE(store_v16, 16, NULL)                                                                                     \
    STORE(store_v32, 32, cv_has_avx2)                                                                              \
    STORE(store_v64, 64, cv_has_avx512)                                                                            \
    MEMORY(store_stride_8, "stride", "store", 8, 64, 1, 64, 16, 0, CV_ANY, 1, NULL)                                \
    MEMORY(copy, "unit", "copy", 8, 0, 1, 8, 16, 0, CV_ANY, 1, NULL)                                               \
    MEMORY(copy_v32, "unit", "copy", 32, 0, 1, 32, 16, 0, CV_ANY, 1, cv_has_avx2)                                  \
    MEMORY(triad, "unit", "triad", 8, 0, 1, 8, 24, 0, CV_ANY, 1, NULL)                                             \
    MEMORY(update, "unit", "update", 8, 0, 1, 4, 16, 0, CV_ANY, 1, NULL)                                           \
    RANDOM(random_load, "load", 16, 64, 0)                                                                         \
    RANDOM(random_store, "store", 16, 64, 1)                                                                       \
    RANDOM(random_update, "update", 32, 32, 1)                                                                     \
    MEMORY(random_hot_3, "random_hot", "load", 8, 0, 1, 16, 64, 0, CV_OFFSET, 0, NULL)                             \
    MEMORY(random_hot_15, "random_hot_15", "load", 8, 0, 1, 4, 256, 0, CV_OFFSET, 0, NULL)                         \
    MEMORY(gather, "gather", "load", 8, 0, 1, 32, 16, 0, CV_INDEX, 0, NULL)                                        \
    CHASE(chase, 1)                                                                                                \
    CHASE(chase_2, 2)                                                                                              \
    CHASE(chase_4, 4)                                                                                              \
    CHASE(chase_8, 8)                                                                                              \
    MEMORY(chase_restarted, "chase_restarted", "load", 8, 0, 1, CV_LINE, 12, 0, CV_CHASE, 0, NULL)                 \
    MEMORY_AS(chase_sequential, chase, "chase_sequential", "load", 8, 0, 1, CV_LINE, 8, 0, CV_SEQUENTIAL, 0, NULL) \
    FLOATING(add, "add", 8, 1, NULL)                                                                               \
    FLOATING(add_v16, "add", 16, 2, NULL)                                                                          \
    FLOATING(add_v32, "add", 32, 4, cv_has_avx2)                                                                   \
    FLOATING(add_v64, "add", 64, 8, cv_has_avx512)                                                                 \
    FLOATING(multiply, "multiply", 8, 1, NULL)                                                                     \
    FLOATING(multiply_v16, "multiply", 16, 2, NULL)                                                                \
    FLOATING(multiply_v32, "multiply", 32, 4, cv_has_avx2)                                                         \
    FLOATING(multiply_v64, "multiply", 64, 8, cv_has_avx512)                                                       \
    FLOATING(fma, "fma", 8, 2, cv_has_fma)                                                                         \
    FLOATING(fma_v16, "fma", 16, 4, cv_has_fma)                                                                    \
    FLOATING(fma_v32, "fma", 32, 8, cv_has_avx2_fma)                                                               \
    FLOATING(fma_v64, "fma", 64, 16, cv_has_avx512)                                                                \
    FLOATING(divide, "divide", 8, 1, NULL)                                                                         \
    FLOATING(divide_v16, "divide", 16, 2, NULL)                                                                    \
    FLOATING(divide_v32, "divide", 32, 4, cv_has_avx2)                                                             \
    FLOATING(divide_v64, "divide", 64, 8, cv_has_avx512)                                                           \
    CHAIN(add_latency, 1, 8, NULL)                                                                                 \
    CHAIN(multiply_latency, 1, 8, NULL)                                                                            \
    CHAIN(fma_latency, 2, 8, cv_has_fma)                                                                           \
    CHAIN(instruction, 0, 32, NULL)                                                                                \
    CHAIN(cycle, 0, 8, NULL)                                                                                       \
    CHAIN(branch, 0, 1, NULL)

/* Kernels with memory are compiled twice (kernels.h). */
#define KERNEL(name) uint64_t name(struct cv_state *state, uint64_t wanted)
#define MEMORY_AS(id, of, ...) \
    KERNEL(cv_kernel_##of);    \
    KERNEL(cv_recorded_##of);
#define REGISTERS(id, ...) KERNEL(cv_kernel_##id);
KERNELS
#undef MEMORY_AS
#undef REGISTERS

#define MEMORY_AS(id, of, pattern, operation, ...) {#id, pattern, operation, cv_kernel_##of, cv_recorded_##of, __VA_ARGS__},
#define REGISTERS(id, operation, width, per_turn, flops, cpu) \
    {#id, "", operation, cv_kernel_##id, NULL, width, 0, 1, 0, per_turn, flops, CV_ANY, 0, cpu},
const struct cv_kernel cv_kernels[] = {KERNELS};
const size_t cv_kernel_count = sizeof cv_kernels / sizeof *cv_kernels;

const struct cv_kernel *cv_find_kernel(const char *name)
{
    for (size_t i = 0; i < cv_kernel_count; i++)
        if (!strcmp(cv_kernels[i].name, name))
            return &cv_kernels[i];
    return NULL;
}
