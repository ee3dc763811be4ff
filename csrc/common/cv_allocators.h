/* Which functions hand out memory, by name. Both engines ask here. Freestanding; SPDX: MIT. */
#ifndef CV_ALLOCATORS_H
#define CV_ALLOCATORS_H

enum cv_allocator {
    CV_ALLOC_NONE,
    CV_ALLOC_SIZE,         /* (size) */
    CV_ALLOC_CALLOC,       /* (number, size) */
    CV_ALLOC_REALLOC,      /* (block, size) */
    CV_ALLOC_REALLOCARRAY, /* (block, number, size) */
    CV_ALLOC_ALIGNED,      /* (alignment, size) */
    CV_ALLOC_POSIX,        /* (result, alignment, size) */
    CV_ALLOC_FREE,         /* (block) */
    CV_ALLOC_MMAP,         /* the mapping itself is a system call: only who calls is wanted */
    CV_ALLOC_WRAPPER       /* calls one of the others for its caller */
};

struct cv_allocating_function {
    const char *name;
    enum cv_allocator kind;
};

static const struct cv_allocating_function cv_allocating_functions[] = {
    {"malloc", CV_ALLOC_SIZE},
    {"calloc", CV_ALLOC_CALLOC},
    {"realloc", CV_ALLOC_REALLOC},
    {"reallocarray", CV_ALLOC_REALLOCARRAY},
    {"memalign", CV_ALLOC_ALIGNED},
    {"aligned_alloc", CV_ALLOC_ALIGNED},
    {"posix_memalign", CV_ALLOC_POSIX},
    {"valloc", CV_ALLOC_SIZE},
    {"pvalloc", CV_ALLOC_SIZE},
    {"free", CV_ALLOC_FREE},
    {"cfree", CV_ALLOC_FREE},
    {"mmap", CV_ALLOC_MMAP},
    {"mmap64", CV_ALLOC_MMAP},
    {"mremap", CV_ALLOC_MMAP},
    /* These call one of the above for their caller, which is the place that is wanted. */
    {"strdup", CV_ALLOC_WRAPPER},
    {"strndup", CV_ALLOC_WRAPPER},
    {"asprintf", CV_ALLOC_WRAPPER},
    {"vasprintf", CV_ALLOC_WRAPPER},
    {"xmalloc", CV_ALLOC_WRAPPER},
    {"xcalloc", CV_ALLOC_WRAPPER},
    {"xrealloc", CV_ALLOC_WRAPPER},
    {"xstrdup", CV_ALLOC_WRAPPER},
    {"g_malloc", CV_ALLOC_WRAPPER},
    {"g_malloc0", CV_ALLOC_WRAPPER},
    {"g_realloc", CV_ALLOC_WRAPPER},
    {"g_strdup", CV_ALLOC_WRAPPER},
};

/* What follows `with` in a name that begins so; 0: it does not. */
static inline const char *cv_name_after(const char *name, const char *with)
{
    while (*with)
        if (*name++ != *with++)
            return 0;
    return name;
}

/* Is the name one of a list with commas between? */
static inline int cv_name_listed(const char *name, const char *list)
{
    while (list && *list) {
        const char *at = cv_name_after(list, name);
        if (at && (!*at || *at == ','))
            return 1;
        while (*list && *list != ',')
            list++;
        list += *list == ',';
    }
    return 0;
}

/* A C++ function, demangled or not, that is an operator. */
static inline enum cv_allocator cv_allocating_operator(const char *name, const char **shown)
{
    static const struct {
        const char *begin, *shown;
    } operators[] = {
        {"operator new[]", "new[]"},     {"operator new", "new"},       {"_Znam", "new[]"},   {"_Znwm", "new"},
        {"operator delete[]", "delete"}, {"operator delete", "delete"}, {"_ZdaPv", "delete"}, {"_ZdlPv", "delete"},
    };
    for (unsigned i = 0; i < sizeof operators / sizeof *operators; i++) {
        const char *after = cv_name_after(name, operators[i].begin);
        if (!after || (name[0] == 'o' && *after && *after != '('))
            continue;
        *shown = operators[i].shown;
        return operators[i].shown[0] == 'n' ? CV_ALLOC_SIZE : CV_ALLOC_FREE;
    }
    return CV_ALLOC_NONE;
}

/* What a function of this name is, and how it is to be called in what is shown; `further`: names with commas between of those that hand on
 * what an allocation function gave them. */
static inline enum cv_allocator cv_allocator_named(const char *name, const char *further, const char **shown)
{
    /* Names that the C library's symbol table has for one function. */
    static const char *const prefixes[] = {"__libc_", "__GI___libc_", "__GI___", "__GI_", "__"};
    *shown = name;
    const enum cv_allocator kind = cv_allocating_operator(name, shown);
    if (kind != CV_ALLOC_NONE)
        return kind;
    if (cv_name_listed(name, further))
        return CV_ALLOC_WRAPPER;
    const char *plain = 0;
    for (unsigned i = 0; !plain && i < sizeof prefixes / sizeof *prefixes; i++)
        plain = cv_name_after(name, prefixes[i]);
    plain = plain ? plain : name;
    for (unsigned i = 0; i < sizeof cv_allocating_functions / sizeof *cv_allocating_functions; i++) {
        const char *after = cv_name_after(plain, cv_allocating_functions[i].name);
        if (after && !*after) {
            *shown = cv_allocating_functions[i].name;
            return cv_allocating_functions[i].kind;
        }
    }
    return CV_ALLOC_NONE;
}

/* What a call asks for. */
struct cv_asked {
    unsigned long old; /* block of realloc; where posix_memalign leaves its result */
    unsigned long size;
};

/* A number that no memory holds is 0, as the function then gives nothing. */
static inline unsigned long cv_allocated_array(unsigned long number, unsigned long size)
{
    unsigned long all;
    return __builtin_mul_overflow(number, size, &all) ? 0 : all;
}

/* By the function's first three arguments. */
static inline struct cv_asked cv_allocation_asked(enum cv_allocator kind, unsigned long a, unsigned long b, unsigned long c)
{
    switch (kind) {
    case CV_ALLOC_SIZE: return (struct cv_asked){0, a};
    case CV_ALLOC_CALLOC: return (struct cv_asked){0, cv_allocated_array(a, b)};
    case CV_ALLOC_ALIGNED: return (struct cv_asked){0, b};
    case CV_ALLOC_REALLOC: return (struct cv_asked){a, b};
    case CV_ALLOC_REALLOCARRAY: return (struct cv_asked){a, cv_allocated_array(b, c)};
    case CV_ALLOC_POSIX: return (struct cv_asked){a, c};
    default: return (struct cv_asked){0, 0};
    }
}

#endif
