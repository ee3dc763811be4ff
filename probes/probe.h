/* What the parts of the probe share: the state a kernel works on and the description of a kernel.
 *
 * A kernel is a function that makes at least `wanted` references and resumes where its last call stopped, so that the caches keep
 * their steady state from sample to sample. It returns the number of references (or, for kernels without memory, of
 * instructions) it really made. Every reference is one volatile access: the compiler can neither drop, merge nor vectorize it.
 */
#ifndef CV_PROBE_H
#define CV_PROBE_H

#include <stddef.h>
#include <stdint.h>

#define CV_LINE 64u /* bytes between the nodes of a chase; assumed, not measured */
#define CV_MAX_CHAINS 8u
#define CV_OFFSETS 1024u /* entries of the random kernels' offset table: 4 KiB, always in L1 */
#define CV_HOT_BYTES 8192u

/* What the arena must hold before a kernel can run on it. */
enum cv_content {
    CV_ANY,        /* reads or writes whatever is there */
    CV_CHASE,      /* one random cycle through all lines */
    CV_SEQUENTIAL, /* one cycle through all lines in address order */
    CV_OFFSET,     /* needs the offset table */
    CV_INDEX,      /* needs the index array */
};

struct cv_state {
    char *base;               /* the working set */
    size_t bytes;             /* its size */
    size_t position;          /* bytes or table entries, by kernel: where the next call resumes */
    uint32_t *offsets;        /* CV_OFFSETS random offsets, in units of 8 bytes */
    uint32_t flip, flip_mask; /* XORed to every offset; changes after each sweep of the table */
    uint64_t random;          /* state of the generator of `flip` */
    uint32_t *indices;        /* gather: indices in units of 8 bytes */
    size_t index_count;
    char *hot;                   /* CV_HOT_BYTES that stay in L1 */
    void *cursor[CV_MAX_CHAINS]; /* chases: the current node of each chain */
};

typedef uint64_t (*cv_kernel_fn)(struct cv_state *state, uint64_t wanted);

struct cv_kernel {
    const char *name;
    const char *pattern;   /* unit, stride, random, gather, chase, ...; "" for a kernel without memory */
    const char *operation; /* load, store, copy, update; add, multiply, ..., instruction */
    cv_kernel_fn run;
    cv_kernel_fn record;    /* tells the same references to the recorder; NULL for a kernel without memory */
    unsigned width_bytes;   /* of one reference or of the operand of one instruction */
    unsigned stride_bytes;  /* 0 unless strided */
    unsigned chains;        /* independent chases, 1 otherwise */
    unsigned advance_bytes; /* how far one reference walks through the working set; sets the length of a warm-up */
    unsigned per_iteration; /* references or instructions in one turn of the inner loop; a test counts them in the binary */
    unsigned flops;         /* of one instruction */
    enum cv_content content;
    int writes;             /* destroys the content */
    int (*supported)(void); /* NULL where every CPU of the architecture can run it */
};

extern const struct cv_kernel cv_kernels[];
extern const size_t cv_kernel_count;

/* Returns NULL for an unknown name. */
const struct cv_kernel *cv_find_kernel(const char *name);

#endif
