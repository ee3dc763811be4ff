/* Every kernel function; table.c describes them. */
#ifndef CV_KERNELS_H
#define CV_KERNELS_H

#include "../probe.h"

/* Kernels with memory are compiled twice: to run, and (recorded/) to tell their references. */
#ifdef CV_RECORDING
#define CV_NAME(name) cv_recorded_##name
#else
#define CV_NAME(name) cv_kernel_##name
#endif

#define CV_KERNEL(name) uint64_t cv_kernel_##name(struct cv_state *state, uint64_t wanted)
#define CV_MEMORY_KERNEL(name) \
    CV_KERNEL(name);           \
    uint64_t cv_recorded_##name(struct cv_state *state, uint64_t wanted)

CV_MEMORY_KERNEL(load);
CV_MEMORY_KERNEL(load_v16);
CV_MEMORY_KERNEL(load_v32);
CV_MEMORY_KERNEL(load_v64);
CV_MEMORY_KERNEL(stride_2);
CV_MEMORY_KERNEL(stride_4);
CV_MEMORY_KERNEL(stride_8);
CV_MEMORY_KERNEL(stride_16);
CV_MEMORY_KERNEL(stride_32);
CV_MEMORY_KERNEL(streams_8);
CV_MEMORY_KERNEL(stream_hot);
CV_MEMORY_KERNEL(store);
CV_MEMORY_KERNEL(store_v16);
CV_MEMORY_KERNEL(store_v32);
CV_MEMORY_KERNEL(store_v64);
CV_MEMORY_KERNEL(store_stride_8);
CV_MEMORY_KERNEL(copy);
CV_MEMORY_KERNEL(copy_v32);
CV_MEMORY_KERNEL(triad);
CV_MEMORY_KERNEL(update);
CV_MEMORY_KERNEL(random_load);
CV_MEMORY_KERNEL(random_store);
CV_MEMORY_KERNEL(random_update);
CV_MEMORY_KERNEL(random_hot_3);
CV_MEMORY_KERNEL(random_hot_15);
CV_MEMORY_KERNEL(gather);
CV_MEMORY_KERNEL(chase);
CV_MEMORY_KERNEL(chase_2);
CV_MEMORY_KERNEL(chase_4);
CV_MEMORY_KERNEL(chase_8);
CV_MEMORY_KERNEL(chase_restarted);

CV_KERNEL(add);
CV_KERNEL(add_v16);
CV_KERNEL(add_v32);
CV_KERNEL(add_v64);
CV_KERNEL(multiply);
CV_KERNEL(multiply_v16);
CV_KERNEL(multiply_v32);
CV_KERNEL(multiply_v64);
CV_KERNEL(fma);
CV_KERNEL(fma_v16);
CV_KERNEL(fma_v32);
CV_KERNEL(fma_v64);
CV_KERNEL(divide);
CV_KERNEL(divide_v16);
CV_KERNEL(divide_v32);
CV_KERNEL(divide_v64);
CV_KERNEL(add_latency);
CV_KERNEL(multiply_latency);
CV_KERNEL(fma_latency);
CV_KERNEL(branch);
CV_KERNEL(instruction);
CV_KERNEL(cycle);

#endif
