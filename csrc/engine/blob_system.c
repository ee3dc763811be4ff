/* System calls of the engine's own, reading the program's memory, and its mappings. */
#include "blob.h"

void *memset(void *to, int value, unsigned long n)
{
    void *at = to;
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(value) : "memory");
    return to;
}

void *memcpy(void *to, const void *from, unsigned long n)
{
    char *at = to;
    const char *source = from;
    for (; n >= 8 && n < 256; n -= 8, at += 8, source += 8)
        *(uint64_t __attribute__((may_alias, aligned(1))) *)at = *(const uint64_t __attribute__((may_alias, aligned(1))) *)source;
    if (n < 8) {
        while (n--)
            *at++ = *source++;
        return to;
    }
    __asm__ volatile("rep movsb" : "+D"(at), "+S"(source), "+c"(n) : : "memory");
    return to;
}

int64_t cv_system(int64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
    int64_t result;
    register uint64_t r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return result;
}

void cv_end_at(const char *message)
{
    uint64_t bytes = 0;
    while (message[bytes])
        bytes++;
    cv_system(SYS_write, 2, (uint64_t)message, bytes, 0, 0, 0);
    cv_system(SYS_exit_group, 134, 0, 0, 0, 0, 0);
    __builtin_trap();
}

void cv_lock(void)
{
    for (int turn = 0; __atomic_exchange_n(&SHARED->lock, 1, __ATOMIC_ACQUIRE); turn++)
        if (turn > 100)
            cv_system(SYS_yield, 0, 0, 0, 0, 0, 0);
        else
            __builtin_ia32_pause();
}

void cv_unlock(void)
{
    cv_assert(SHARED->lock == 1);
    __atomic_store_n(&SHARED->lock, 0, __ATOMIC_RELEASE);
}

static int copy(int64_t call, uint64_t there, uint64_t here, uint64_t bytes)
{
    const uint64_t local[2] = {here, bytes};
    const uint64_t split = (there | 4095) + 1, first = split - there < bytes ? split - there : bytes;
    const uint64_t remote[4] = {there, first, split, bytes - first};
    /* of this thread: the first one may have ended */
    const int64_t done =
        cv_system(call, (uint64_t)cv_system(SYS_gettid, 0, 0, 0, 0, 0, 0), (uint64_t)local, 1, (uint64_t)remote, first < bytes ? 2 : 1, 0);
    return done < 0 ? 0 : (int)done;
}

int cv_read(uint64_t from, void *to, uint64_t bytes) { return copy(SYS_readv, from, (uint64_t)to, bytes); }

int cv_write(uint64_t to, const void *from, uint64_t bytes) { return copy(SYS_writev, to, (uint64_t)from, bytes); }

/* ---- code ---- */

static uint64_t readable[1024]; /* pages, plus 1 */

void cv_forget_pages(void) { memset(readable, 0, sizeof readable); }

int cv_fetch(uint64_t address, uint8_t *code)
{
    const uint64_t first = address >> 12, last = (address + 14) >> 12;
    if (readable[first & 1023] == first + 1 && readable[last & 1023] == last + 1) {
        memcpy(code, (const void *)address, 15);
        return 15;
    }
    const int n = cv_read(address, code, 15);
    if (n > 0)
        readable[first & 1023] = first + 1;
    if (n == 15)
        readable[last & 1023] = last + 1;
    return n;
}

/* ---- mappings ---- */

#define MOST_CURRENT 4096

static struct current {
    uint64_t low, high, offset, inode;
    uint32_t mapping, flags; /* enum cv_blob_mapping_flag */
} current[MOST_CURRENT];
static int n_current;
static char text[4096];
typedef uint32_t __attribute__((may_alias, aligned(1))) unaligned_word;

void cv_forget_mappings(void)
{
    cv_forget_pages();
    n_current = 0;
}

static uint64_t number(const char **at, int base)
{
    uint64_t value = 0;
    for (;; (*at)++) {
        const char c = **at;
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
        if (digit >= base)
            return value;
        value = value * (uint64_t)base + (uint64_t)digit;
    }
}

static int starts(const char *text_, const char *with)
{
    while (*with)
        if (*text_++ != *with++)
            return 0;
    return 1;
}

static const char made[] = "code that the program made itself";
static void (*take)(const struct current *, const char *, uint32_t);

/* One line of /proc/self/maps with code in it. */
static void take_line(const char *at, const char *end)
{
    struct current m = {0, 0, 0, 0, 0, 0};
    m.low = number(&at, 16);
    at++;
    m.high = number(&at, 16);
    at++;
    const int writable = at[1] == 'w', executable = at[2] == 'x', private = at[3] == 'p';
    if (!executable || (m.low >= CV_BLOB_BASE && m.low < CV_SHARED_BASE + CV_SHARED_BYTES))
        return;
    at += 5;
    m.offset = number(&at, 16);
    at++;
    number(&at, 16);
    at++;
    number(&at, 16);
    at++;
    m.inode = number(&at, 10);
    while (at < end && *at == ' ')
        at++;
    m.flags = (m.inode && private ? CV_MAPPING_FILE : 0) | (writable ? CV_MAPPING_WRITABLE : 0);
    if (starts(at, "[vdso]"))
        m.flags |= CV_MAPPING_FILE;
    if (cv_in_cache(m.low))
        return;
    take(&m, m.inode ? at : end, (uint32_t)(m.inode ? end - at : 0));
}

static int each_line(void (*line)(const char *, const char *))
{
    const int64_t file = cv_system(SYS_open, (uint64_t)"/proc/thread-self/maps", 0, 0, 0, 0, 0);
    if (file < 0)
        return 0;
    uint64_t have = 0;
    for (;;) {
        const int64_t n = cv_system(SYS_read, (uint64_t)file, (uint64_t)text + have, sizeof text - have, 0, 0, 0);
        if (n <= 0)
            break;
        have += (uint64_t)n;
        uint64_t begin = 0;
        for (uint64_t i = 0; i < have; i++)
            if (text[i] == '\n') {
                line(text + begin, text + i);
                begin = i + 1;
            }
        if (!begin && have == sizeof text)
            have = 0; /* a path that is too long */
        for (uint64_t i = begin; i < have; i++)
            text[i - begin] = text[i];
        have -= begin;
    }
    cv_system(SYS_close, (uint64_t)file, 0, 0, 0, 0, 0);
    return 1;
}

static int is_of_file(const struct current *m) { return m->inode && m->flags & CV_MAPPING_FILE && !(m->flags & CV_MAPPING_WRITABLE); }

static void close_or_open(struct current *m, int closed)
{
    if (!is_of_file(m) || closed == !!(m->flags & CV_MAPPING_CLOSED))
        return;
    cv_system(SYS_mprotect, m->low, m->high - m->low, closed ? 1 : 5, 0, 0, 0);
    cv_system(SYS_madvise, m->low, m->high - m->low, closed ? 16 : 17, 0, 0, 0); /* out of dumps: it stays a mapping of its own */
    m->flags ^= CV_MAPPING_CLOSED;
}

/* ---- restartable sequences: the kernel aborts them where they lie, never their copies ---- */

static int has_sequences; /* code that was seen until now */

/* Whether code has what the kernel wants before the instruction after an abort. As a constant that is loaded it is glibc's, for
 * registering. */
static int has_signature(int64_t file, const struct current *m)
{
    static uint8_t code[65536];
    const uint64_t size = m->high - m->low;
    for (uint64_t at = 0; at < size; at += sizeof code - 4) {
        const uint64_t most = size - at < sizeof code ? size - at : sizeof code;
        const int64_t n =
            file < 0 ? cv_read(m->low + at, code, most) : cv_system(SYS_pread, (uint64_t)file, (uint64_t)code, most, m->offset + at, 0, 0);
        if (n < 0 || (file < 0 && (uint64_t)n < most))
            return 1; /* nobody knows */
        for (int64_t i = 1; i + 4 <= n; i++)
            if (code[i] == (uint8_t)CV_SEQUENCES && *(const unaligned_word *)(code + i) == CV_SEQUENCES && (code[i - 1] & 0xf8) != 0xb8)
                return 1;
    }
    return 0;
}

static int look_for_sequences(const struct current *m, const char *path, uint32_t path_bytes)
{
    char *const end = text + (path - text) + path_bytes, after = *end;
    *end = 0;
    const int64_t file = cv_system(SYS_open, (uint64_t)path, 02000000, 0, 0, 0, 0);
    *end = after;
    const int found = has_signature(file, m);
    if (file >= 0)
        cv_system(SYS_close, (uint64_t)file, 0, 0, 0, 0, 0);
    return found;
}

/* ---- those with code ---- */

static void add(const struct current *m, const char *path, uint32_t path_bytes)
{
    for (int i = 0; i < n_current; i++)
        if (current[i].low < m->high && m->low < current[i].high) {
            current[i].high = m->high > current[i].high ? m->high : current[i].high;
            return;
        }
    if (n_current == MOST_CURRENT || SHARED->mappings == CV_MOST_MAPPINGS)
        return;
    struct cv_blob_mapping *out = &MAPPINGS[SHARED->mappings];
    *out = (struct cv_blob_mapping){.low = m->low, .high = m->high, .offset = m->offset, .flags = m->flags};
    const uint32_t bytes = path_bytes < sizeof out->path ? path_bytes : 0;
    memcpy(out->path, path, bytes);
    out->path_bytes = bytes;
    current[n_current] = *m;
    current[n_current].mapping = (uint32_t)SHARED->mappings++;
    has_sequences |= m->inode && m->flags & CV_MAPPING_FILE && look_for_sequences(m, path, path_bytes);
    close_or_open(&current[n_current++], SHARED->outside && !SHARED->leave);
}

void cv_close_code(void)
{
    take = add;
    each_line(take_line);
    for (int i = 0; i < n_current; i++)
        close_or_open(&current[i], 1);
}

void cv_open_code(void)
{
    for (int i = 0; i < n_current; i++)
        close_or_open(&current[i], 0);
}

static const struct current *current_at(uint64_t address)
{
    for (int i = 0; i < n_current; i++)
        if (address >= current[i].low && address < current[i].high)
            return &current[i];
    return 0;
}

int cv_is_file(uint64_t address)
{
    const struct current *m = current_at(address);
    return m && is_of_file(m);
}

static int is_closed(uint64_t address)
{
    const struct current *m = current_at(address);
    return m && m->flags & CV_MAPPING_CLOSED;
}

int cv_mapping_of(uint64_t address, const char **why)
{
    for (int again = 0; again < 2; again++) {
        const struct current *m = current_at(address);
        if (m && has_sequences) {
            *why = "restartable sequences (rseq)";
            return -1;
        }
        /* A file's code that is writable now: its system calls must be seen, mprotect's first of all, which ends that. */
        const int same =
            m && m->flags & CV_MAPPING_FILE && (!(m->flags & CV_MAPPING_WRITABLE) || cv_calls_system(address & ~UINT64_C(4095)));
        if (m && !same) {
            *why = made;
            return -1;
        }
        if (m)
            return (int)m->mapping;
        take = add;
        if (!again && !each_line(take_line)) {
            *why = "/proc cannot be read";
            return -1;
        }
    }
    *why = "code at an address without a mapping";
    return -1;
}

/* ---- memory that nobody can write to: pointers in it are constants, until a system call of the program changes that ---- */

#define MOST_RANGES 2048

static struct range {
    uint64_t low, high, changes;
    uint64_t users[2]; /* addresses of the first and the last code that was translated with constants of it; 0: none was */
} ranges[MOST_RANGES];
static int n_ranges;

static void take_range(const char *at, const char *end)
{
    struct range r = {0, 0, 0, {0, 0}};
    (void)end;
    r.low = number(&at, 16);
    at++;
    r.high = number(&at, 16);
    r.changes = at[2] == 'w' || at[4] != 'p';
    for (int i = 0; i < n_ranges; i++)
        if (ranges[i].low < r.high && r.low < ranges[i].high) { /* it has grown */
            ranges[i].low = r.low;
            ranges[i].high = r.high;
            return;
        }
    if (n_ranges < MOST_RANGES)
        ranges[n_ranges++] = r;
}

int cv_is_constant(uint64_t address, uint64_t user)
{
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < n_ranges; i++) {
            struct range *const r = &ranges[i];
            if (address < r->low || address + 8 > r->high)
                continue;
            if (r->changes)
                return 0;
            r->users[0] = r->users[1] && r->users[0] < user ? r->users[0] : user;
            r->users[1] = r->users[1] > user ? r->users[1] : user;
            return 1;
        }
        if (again || n_ranges == MOST_RANGES || !each_line(take_range))
            break;
    }
    return 0;
}

int cv_drop_constants(uint64_t low, uint64_t high, uint64_t *users)
{
    for (int i = 0; i < n_ranges;) {
        if (ranges[i].low >= high || low >= ranges[i].high) {
            i++;
            continue;
        }
        users[0] = ranges[i].users[0];
        users[1] = ranges[i].users[1];
        ranges[i] = ranges[--n_ranges];
        if (users[1])
            return 1;
    }
    return 0;
}

static uint64_t wanted, found[2];

static void find_range(const char *at, const char *end)
{
    (void)end;
    const uint64_t low = number(&at, 16);
    at++;
    const uint64_t high = number(&at, 16);
    if (wanted < low || wanted >= high)
        return;
    found[0] = low;
    found[1] = high;
}

int cv_range_of(uint64_t address, uint64_t *range)
{
    cv_lock();
    wanted = address;
    found[1] = 0;
    each_line(find_range);
    range[0] = found[0];
    range[1] = found[1];
    cv_unlock();
    return range[1] != 0;
}

int cv_is_made(uint64_t address)
{
    const char *why = 0;
    return cv_mapping_of(address, &why) < 0 && why == made;
}

static int64_t shown = -1;     /* descriptor */
static uint64_t shown_file[2]; /* device and number of the file of it */

static void show_line(const char *at, const char *end)
{
    char *begin = (char *)(uint64_t)at;
    const uint64_t low = number(&at, 16);
    if ((low >= CV_BLOB_BASE && low < CV_SHARED_BASE + CV_SHARED_BYTES) || cv_in_cache(low))
        return;
    at++;
    number(&at, 16);
    if (is_closed(low))
        begin[at + 3 - begin] = 'x';
    cv_system(SYS_write, (uint64_t)shown, (uint64_t)begin, (uint64_t)(end + 1 - begin), 0, 0, 0);
}

static int is_shown(int64_t file, uint64_t *of)
{
    uint64_t status[18];
    if (file < 0 || file != shown || cv_system(SYS_fstat, (uint64_t)file, (uint64_t)status, 0, 0, 0, 0))
        return 0;
    of[0] = status[0];
    of[1] = status[1];
    return 1;
}

int64_t cv_open_mappings(uint64_t path, uint64_t flags)
{
    static const char own[16] = "/proc/self/maps";
    char name[16];
    int same = cv_read(path, name, sizeof name) == (int)sizeof name;
    for (unsigned i = 0; same && i < sizeof own; i++)
        same = name[i] == own[i];
    if (!same)
        return -1;
    cv_lock();
    const int64_t file = shown = cv_system(SYS_memfd, (uint64_t)"maps", flags & 02000000 ? 1 : 0, 0, 0, 0, 0); /* O_CLOEXEC */
    is_shown(file, shown_file);
    cv_unlock();
    return file;
}

/* Bytes until the end of the last whole line (0: of the first one) within so many bytes of the file. */
static uint64_t lines_within(int64_t file, uint64_t at, uint64_t most, int first)
{
    const int64_t n = cv_system(SYS_pread, (uint64_t)file, (uint64_t)text, most, at, 0, 0);
    uint64_t end = 0;
    for (int64_t i = 0; i < n && !(first && end); i++)
        if (text[i] == '\n')
            end = (uint64_t)i + 1;
    return end;
}

uint64_t cv_fill_mappings(int64_t file)
{
    uint64_t of[2], bytes = UINT64_MAX;
    cv_lock();
    if (is_shown(file, of) && of[0] == shown_file[0] && of[1] == shown_file[1]) {
        const int64_t at = cv_system(SYS_seek, (uint64_t)file, 0, 1, 0, 0, 0);
        if (!at) {
            cv_system(SYS_truncate, (uint64_t)file, 0, 0, 0, 0, 0);
            each_line(show_line);
            cv_system(SYS_seek, (uint64_t)file, 0, 0, 0, 0, 0);
        }
        char before = '\n';
        cv_system(SYS_pread, (uint64_t)file, (uint64_t)&before, 1, (uint64_t)at - 1, 0, 0);
        const uint64_t rest = before == '\n' ? 0 : lines_within(file, (uint64_t)at, sizeof text, 1);
        bytes = rest + lines_within(file, (uint64_t)at + rest, sizeof text - 1, 0);
    }
    cv_unlock();
    return bytes;
}

int cv_drop_mappings(uint64_t low, uint64_t high)
{
    int dropped = 0;
    for (int i = 0; i < n_current;)
        if (current[i].low < high && low < current[i].high) {
            close_or_open(&current[i], 0); /* what the program does not change stays executable */
            dropped += current[i].flags & CV_MAPPING_FILE;
            current[i] = current[--n_current];
        } else {
            i++;
        }
    return dropped;
}

/* The kernel maps pages of shared memory that are there by the 16, so each such group that a thread has is one fault. */
void cv_count_lookup_faults(void)
{
    enum { PAGES = CV_NATIVE * CV_LOOKUP_BYTES / 4096, GROUP = 16 };
    static uint64_t pages[PAGES];
    cv_lock();
    const int64_t file = cv_system(SYS_open, (uint64_t)"/proc/thread-self/pagemap", 0, 0, 0, 0, 0);
    for (uint64_t i = 1; file >= 0 && i < SHARED->slots; i++) {
        const uint64_t at = (cv_slot_at(i)->self + CV_SLOT_LOOKUP) / 4096 * 8;
        if (!cv_slot_at(i)->has_lookups ||
            cv_system(SYS_pread, (uint64_t)file, (uint64_t)pages, sizeof pages, at, 0, 0) != (int64_t)sizeof pages)
            continue;
        for (int page = 0, group = -1; page < PAGES; page++)
            if (pages[page] >> 63 && page / GROUP != group) {
                group = page / GROUP;
                SHARED->lookup_faults++;
            }
    }
    if (file >= 0)
        cv_system(SYS_close, (uint64_t)file, 0, 0, 0, 0, 0);
    cv_unlock();
}

static uint8_t seen[MOST_CURRENT];

static void compare(const struct current *m, const char *path, uint32_t path_bytes)
{
    (void)path;
    (void)path_bytes;
    for (int i = 0; i < n_current; i++)
        if (current[i].low >= m->low && current[i].high <= m->high && current[i].inode == m->inode && current[i].flags == m->flags &&
            current[i].offset - m->offset == current[i].low - m->low)
            seen[i] = 1;
}

void cv_check_mappings(void)
{
    cv_lock();
    memset(seen, 0, sizeof seen);
    take = compare;
    const int ok = each_line(take_line);
    uint64_t gone[32][2];
    int n = 0;
    for (int i = 0; i < n_current && n < 32; i++)
        if (!ok || !seen[i]) {
            gone[n][0] = current[i].low;
            gone[n++][1] = current[i].high;
        }
    cv_unlock();
    for (int i = 0; i < n; i++)
        cv_forget(gone[i][0], gone[i][1]);
}

void cv_say_why(const char *why, uint64_t address)
{
    const uint64_t i = __atomic_fetch_add(&SHARED->reasons, 1, __ATOMIC_ACQ_REL);
    if (i >= CV_MOST_REASONS)
        return;
    struct cv_blob_reason *reason = &SHARED->reason[i];
    reason->address = address;
    for (uint64_t k = 0; why[k] && k + 1 < sizeof reason->text; k++)
        reason->text[k] = why[k];
}
