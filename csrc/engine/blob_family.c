/* Children are traced, too, each in a trace of its own (--trace-children). A forked child takes memory of its own and begins anew; one that
 * shares its parent's memory (vfork, posix_spawn) is a guest in it until it becomes another program. Before an exec the controller is asked
 * to put the engine into the next program. Where that cannot be the process runs natively. */
#include "blob.h"

#define FAMILY ((struct cv_family *)CV_FAMILY_BASE)

#define FILE_SIZE 1 /* a limit of the process */
#define UNLIMITED UINT64_MAX
#define MOST_INHERITED 512 /* functions that synchronize */

static int is_alone(void) { return cv_system(SYS_kill, (uint64_t)FAMILY->controller, 0, 0, 0, 0, 0) == -3; }

static struct cv_family_request *free_request(void)
{
    const uint64_t moment[2] = {0, 1000000};
    while (!is_alone()) {
        for (int i = 0; i < CV_MOST_REQUESTS; i++) {
            uint32_t none = CV_REQUEST_FREE;
            if (__atomic_compare_exchange_n(&FAMILY->requests[i].state, &none, CV_REQUEST_TAKEN, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
                return &FAMILY->requests[i];
        }
        cv_system(SYS_nanosleep, (uint64_t)moment, 0, 0, 0, 0, 0);
    }
    return 0;
}

/* Asks the controller and waits for its answer; 0 where there is no controller any more. */
static int ask(uint32_t kind, int32_t file, uint64_t directory, uint64_t path)
{
    const uint64_t moment[2] = {0, 100000000};
    struct cv_family_request *r = free_request();
    if (!r)
        return 0;
    r->kind = kind;
    r->process = (int32_t)cv_system(SYS_getpid, 0, 0, 0, 0, 0, 0);
    r->thread = (int32_t)cv_system(SYS_gettid, 0, 0, 0, 0, 0, 0);
    r->parent = (int32_t)cv_system(SYS_getppid, 0, 0, 0, 0, 0, 0);
    r->file = file;
    r->directory = (int32_t)directory;
    r->answer = 0;
    r->path[0] = 0;
    if (path)
        r->path[cv_read(path, r->path, sizeof r->path - 1)] = 0;
    __atomic_store_n(&r->state, CV_REQUEST_ASKED, __ATOMIC_RELEASE);
    __atomic_fetch_add(&FAMILY->rung, 1, __ATOMIC_ACQ_REL);
    cv_system(SYS_futex, (uint64_t)&FAMILY->rung, 1, 1, 0, 0, 0);
    while (__atomic_load_n(&r->state, __ATOMIC_ACQUIRE) == CV_REQUEST_ASKED) {
        cv_system(SYS_futex, (uint64_t)&r->state, 0, CV_REQUEST_ASKED, (uint64_t)moment, 0, 0);
        if (is_alone())
            break;
    }
    const int answer = r->answer;
    __atomic_store_n(&r->state, CV_REQUEST_FREE, __ATOMIC_RELEASE);
    return answer;
}

static int64_t new_memory(void)
{
    uint64_t limit[2] = {0, 0};
    if (cv_system(SYS_prlimit, 0, FILE_SIZE, 0, (uint64_t)limit, 0, 0) || limit[0] != UNLIMITED)
        return -1; /* a file that is too long would kill */
    const int64_t file = cv_system(SYS_memfd, (uint64_t)"convolver-engine", 1, 0, 0, 0, 0);
    if (file < 0)
        return -1;
    if (!cv_system(SYS_truncate, (uint64_t)file, CV_SHARED_BYTES, 0, 0, 0, 0) &&
        cv_system(SYS_mmap, CV_SHARED_BASE, CV_SHARED_BYTES, 3, 0x4011, (uint64_t)file, 0) == (int64_t)CV_SHARED_BASE)
        return file;
    cv_system(SYS_close, (uint64_t)file, 0, 0, 0, 0, 0);
    return -1;
}

int cv_family_begins(struct cv_slot *slot, const uint64_t *alternate)
{
    static struct cv_blob_region regions[CV_MOST_REGIONS]; /* the stack may be small */
    static struct cv_blob_setup setup;
    static struct cv_blob_watched watched[MOST_INHERITED];
    struct cv_blob_watched *const list = (struct cv_blob_watched *)(CV_SHARED_BASE + CV_OFF_WATCHED);
    const uint64_t n = SHARED->regions, n_watched = SHARED->watched < MOST_INHERITED ? SHARED->watched : MOST_INHERITED;
    memcpy(watched, list, n_watched * sizeof *watched);
    memcpy(regions, SHARED->region, sizeof regions);
    memcpy(&setup, &SHARED->setup, sizeof setup);
    setup.inside = SHARED->inside;
    const int64_t file = new_memory();
    if (file < 0) {
        __atomic_fetch_add(&SHARED->untraced, 1, __ATOMIC_RELAXED); /* its parent's */
        cv_family_forks(-1);
        return 0;
    }
    cv_system(SYS_madvise, CV_SHARED_BASE, CV_SHARED_BYTES, 16, 0, 0, 0); /* out of dumps */
    for (uint64_t i = 0; i < n; i++)
        cv_system(SYS_munmap, regions[i].base, regions[i].end - regions[i].base, 0, 0, 0, 0);
    cv_forget_mappings();
    cv_forget_bursts();
    cv_begin_shared(SHARED, &setup);
    memcpy(list, watched, n_watched * sizeof *watched);
    SHARED->watched = n_watched;
    SHARED->family = SHARED->initialized = 1;
    SHARED->controller = (uint64_t)FAMILY->controller;
    SHARED->process = (uint64_t)cv_system(SYS_getpid, 0, 0, 0, 0, 0, 0);
    slot->alternate_stack = alternate[0];
    slot->alternate_flags = alternate[1];
    slot->alternate_size = alternate[2];
    const int traced = ask(CV_FAMILY_FORKED, (int32_t)file, 0, 0);
    cv_system(SYS_close, (uint64_t)file, 0, 0, 0, 0, 0);
    return traced;
}

int cv_family_exec(const struct cv_slot *slot, uint64_t directory, uint64_t path)
{
    const int traced = ask(CV_FAMILY_EXEC, -1, directory, path);
    if (!traced && slot->guest)
        __atomic_fetch_add(&SHARED->untraced, 1, __ATOMIC_RELAXED);
    else if (!traced)
        cv_say_why("a program started by exec that may not be traced", slot->target - 2);
    return traced;
}

void cv_family_failed(void) { ask(CV_FAMILY_FAILED, -1, 0, 0); }

void cv_family_forks(int more) { __atomic_fetch_add(&FAMILY->forks, (int64_t)more, __ATOMIC_ACQ_REL); }
