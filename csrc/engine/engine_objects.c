/* Data objects: tells the reader what the blob noted (blob_objects.c), and reads the symbols of object files, of allocation functions and
 * of variables. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/cv_allocators.h"
#include "../include/cv_wire.h"
#include "elf_symbols.h"
#include "engine_control.h"

#define MOST_NAMES 1024
#define MOST_IMAGES 4096
#define USUAL_STACK (UINT64_C(8) << 20)

static struct cv_target *target;
static const char *allocators;
static int reports, follows; /* data objects; threads */
static const struct cv_blob_event *events;
static struct cv_blob_watched *watched;
static const char *names[MOST_NAMES];
static uint32_t n_names;

/* ---- object files ---- */

/* An object file in memory. */
struct image {
    char path[sizeof((struct cv_blob_mapping *)0)->path + 1];
    uint64_t code, code_end, offset; /* its mapping with code */
    uint64_t low, high;              /* of all that it fills */
    uint64_t bias;                   /* from a symbol's value to its address */
    uint64_t zeros, zeros_end;       /* beyond what the file holds */
};

static struct image images[MOST_IMAGES];
static uint32_t n_images;

static struct cv_elf open_file(const char *path)
{
    struct cv_elf file = {NULL, 0};
    struct stat status;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0 && !fstat(descriptor, &status) && status.st_size > 0) {
        void *at = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (at != MAP_FAILED)
            file = (struct cv_elf){at, (uint64_t)status.st_size};
    }
    if (descriptor >= 0)
        close(descriptor);
    if (file.bytes && !cv_elf_is(file)) {
        munmap((void *)(uintptr_t)file.bytes, file.size);
        file.bytes = NULL;
    }
    return file;
}

static void close_file(struct cv_elf file)
{
    if (file.bytes)
        munmap((void *)(uintptr_t)file.bytes, file.size);
}

/* Where the file lies in memory, from where its code does. 0: it cannot be known. */
static int locate(struct cv_elf file, struct image *image)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)file.bytes;
    const Elf64_Phdr *parts = head ? cv_elf_table(file, head->e_phoff, head->e_phnum, sizeof *parts) : NULL;
    uint64_t low = UINT64_MAX, high = 0;
    for (int i = 0; parts && i < head->e_phnum; i++) {
        const Elf64_Phdr *p = &parts[i];
        if (p->p_type != PT_LOAD)
            continue;
        low = (p->p_vaddr & ~UINT64_C(4095)) < low ? p->p_vaddr & ~UINT64_C(4095) : low;
        high = p->p_vaddr + p->p_memsz > high ? p->p_vaddr + p->p_memsz : high;
        if (p->p_memsz > p->p_filesz) {
            image->zeros = p->p_vaddr + p->p_filesz;
            image->zeros_end = p->p_vaddr + p->p_memsz;
        }
    }
    const int found = cv_elf_bias(file, image->code, image->offset, &image->bias);
    image->low = image->bias + low;
    image->high = (image->bias + high + 4095) & ~UINT64_C(4095);
    image->zeros += image->zeros_end ? image->bias : 0;
    image->zeros_end += image->zeros_end ? image->bias : 0;
    return found;
}

/* Of a file whose symbols were put into another one, as Debian's packages have them. */
static struct cv_elf debug_file(struct cv_elf file)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)file.bytes;
    const Elf64_Shdr *sections = cv_elf_table(file, head->e_shoff, head->e_shnum, sizeof *sections);
    char path[256];
    for (int i = 0; sections && i < head->e_shnum; i++) {
        const uint8_t *note = sections[i].sh_type == SHT_NOTE ? cv_elf_table(file, sections[i].sh_offset, sections[i].sh_size, 1) : NULL;
        const uint64_t size = sections[i].sh_size;
        uint32_t words[3]; /* bytes of its name, of its text, its type */
        if (!note || size < 16)
            continue;
        memcpy(words, note, sizeof words);
        if (words[0] != 4 || memcmp(note + 12, "GNU", 4) || words[2] != NT_GNU_BUILD_ID || words[1] > 64 || words[1] > size - 16)
            continue;
        int n = snprintf(path, sizeof path, "/usr/lib/debug/.build-id/");
        for (uint32_t k = 0; k < words[1]; k++)
            n += snprintf(path + n, sizeof path - (size_t)n, k ? "%02x" : "%02x/", note[16 + k]);
        snprintf(path + n, sizeof path - (size_t)n, ".debug");
        return open_file(path);
    }
    return (struct cv_elf){NULL, 0};
}

/* An object file, and the one that has its symbols. */
struct files {
    struct cv_elf own, debug;
};

static void each_symbol(const struct files *files, struct image *image, cv_elf_taker *take)
{
    cv_elf_each_symbol(files->own, take, image);
    cv_elf_each_symbol(files->debug, take, image);
}

static void close_files(const struct files *files)
{
    close_file(files->own);
    close_file(files->debug);
}

/* ---- allocation functions ---- */

static uint32_t name_number(const char *name)
{
    uint32_t i = 0;
    while (i < n_names && strcmp(names[i], name))
        i++;
    if (i == n_names && n_names < MOST_NAMES)
        names[n_names++] = strdup(name);
    return i < n_names ? i : 0;
}

/* What a function of this name is, as the blob is to know it; 0: nothing. */
static uint32_t watched_kind(const char *name, const char **shown)
{
    const enum cv_allocator kind = reports ? cv_allocator_named(name, allocators, shown) : CV_ALLOC_NONE;
    const enum cv_function function = follows ? cv_function_named(name) : NOTHING;
    return kind != CV_ALLOC_NONE ? (uint32_t)kind : function != NOTHING ? CV_WATCHED_CALLS + (uint32_t)function : 0;
}

static void watch(void *image, const Elf64_Sym *symbol, const char *name)
{
    const char *shown = name;
    const uint32_t kind = ELF64_ST_TYPE(symbol->st_info) == STT_FUNC ? watched_kind(name, &shown) : 0;
    const uint64_t address = ((const struct image *)image)->bias + symbol->st_value, n = target->shared->watched;
    if (!kind || n == CV_MOST_WATCHED)
        return;
    for (uint64_t i = 0; i < n; i++)
        if (watched[i].address == address)
            return;
    watched[n] = (struct cv_blob_watched){address, kind, kind < CV_WATCHED_CALLS ? name_number(shown) : 0};
    __atomic_store_n(&target->shared->watched, n + 1, __ATOMIC_RELEASE);
}

static int make_image(struct image *image, const char *path, uint64_t at, uint64_t bytes, uint64_t offset, struct files *files)
{
    if (strlen(path) >= sizeof image->path)
        return 0;
    *image = (struct image){.code = at, .code_end = at + bytes, .offset = offset};
    strcpy(image->path, path);
    files->own = open_file(path);
    if (files->own.bytes)
        files->debug = debug_file(files->own);
    return files->own.bytes && locate(files->own, image);
}

static void watch_image(const char *path, uint64_t at, uint64_t bytes, uint64_t offset)
{
    struct image image;
    struct files files = {{NULL, 0}, {NULL, 0}};
    if (make_image(&image, path, at, bytes, offset, &files))
        each_symbol(&files, &image, watch);
    close_files(&files);
}

/* ---- names for people ---- */

static struct {
    struct cv_name_wanted **by_address;
    size_t n;
} in_image;

static void take_name(void *image, const Elf64_Sym *symbol, const char *name)
{
    const uint64_t from = ((const struct image *)image)->bias + symbol->st_value;
    const int type = ELF64_ST_TYPE(symbol->st_info);
    size_t low = 0, high = in_image.n;
    if (type != STT_FUNC && type != STT_OBJECT)
        return;
    while (low < high) { /* the first one that does not lie before */
        const size_t middle = (low + high) / 2;
        if (in_image.by_address[middle]->address < from)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < in_image.n && in_image.by_address[low]->address - from < symbol->st_size; low++)
        if (!in_image.by_address[low]->name && (type == STT_FUNC) == (in_image.by_address[low]->mapping != NULL))
            in_image.by_address[low]->name = strdup(name);
}

static int by_wanted_address(const void *a, const void *b)
{
    const uint64_t x = (*(struct cv_name_wanted *const *)a)->address, y = (*(struct cv_name_wanted *const *)b)->address;
    return x < y ? -1 : x > y;
}

/* Of what lies in one file; its symbols are read once. */
static void name_in(const struct cv_blob_mapping *mapping, struct cv_name_wanted *wanted, size_t n)
{
    struct image image;
    struct files files = {{NULL, 0}, {NULL, 0}};
    char path[sizeof mapping->path + 1] = "", beside[sizeof path + 24];
    memcpy(path, mapping->path, mapping->path_bytes);
    const char *last = strrchr(path, '/');
    const int known = make_image(&image, path, mapping->low, mapping->high - mapping->low, mapping->offset, &files);
    in_image.n = 0;
    for (size_t i = 0; known && i < n; i++)
        if (!wanted[i].name && (!wanted[i].mapping || wanted[i].mapping == mapping) && wanted[i].address >= image.low &&
            wanted[i].address < image.high)
            in_image.by_address[in_image.n++] = &wanted[i];
    qsort(in_image.by_address, in_image.n, sizeof *in_image.by_address, by_wanted_address);
    if (in_image.n)
        each_symbol(&files, &image, take_name);
    for (size_t i = 0; i < in_image.n; i++) {
        struct cv_name_wanted *one = in_image.by_address[i];
        snprintf(beside, sizeof beside, "%s+%#lx", last ? last + 1 : path, (unsigned long)(one->address - image.bias));
        if (!one->name && one->mapping)
            one->name = strdup(beside);
    }
    close_files(&files);
}

void cv_find_names(const struct cv_target *of, struct cv_name_wanted *wanted, size_t n)
{
    const struct cv_blob_mapping *mappings = (const struct cv_blob_mapping *)(of->memory + CV_OFF_MAPPINGS);
    in_image.by_address = malloc((n + 1) * sizeof *in_image.by_address);
    for (uint64_t m = 0; in_image.by_address && m < of->shared->mappings; m++) {
        int any = 0;
        for (size_t i = 0; i < n && !any; i++)
            any = !wanted[i].name && (!wanted[i].mapping || wanted[i].mapping == &mappings[m]);
        if (any && mappings[m].path_bytes)
            name_in(&mappings[m], wanted, n);
    }
    free(in_image.by_address);
}

/* ---- definitions ---- */

const struct cv_blob_mapping *cv_mapping_at(const struct cv_target *of, uint64_t address)
{
    const struct cv_blob_mapping *mappings = (const struct cv_blob_mapping *)(of->memory + CV_OFF_MAPPINGS);
    for (uint64_t i = of->shared->mappings; i-- > 0;)
        if (address >= mappings[i].low && address < mappings[i].high)
            return &mappings[i];
    return NULL;
}

static uint32_t module_of(uint64_t site, uint64_t *file_offset)
{
    const struct cv_blob_mapping *mapping = cv_mapping_at(target, site);
    if (!mapping)
        return CV_WIRE_NO_MODULE;
    *file_offset = mapping->path_bytes ? site - mapping->low + mapping->offset : site;
    return cv_wire_module(mapping);
}

#define WRITE_RECORD cv_wire_record
#define ZEROED(bytes) calloc(1, bytes)
#define FREE free
#define MODULE_OF module_of
#include "../common/object_records.h"

/* ---- variables ---- */

static int by_address(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static struct variable {
    uint64_t address, size;
    const char *name;
} *variables;
static size_t n_variables, variable_room;

static void take_variable(void *image, const Elf64_Sym *symbol, const char *name)
{
    const uint64_t bias = ((const struct image *)image)->bias;
    if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || !symbol->st_size || !name[0] || symbol->st_shndx >= SHN_LORESERVE)
        return;
    if (n_variables == variable_room)
        variables = realloc(variables, (variable_room = variable_room ? 2 * variable_room : 1024) * sizeof *variables);
    variables[n_variables++] = (struct variable){bias + symbol->st_value, symbol->st_size, name};
}

/* Of several names for one address the shortest: others have underscores before. */
static void tell_symbols(const struct files *files, struct image *image)
{
    struct cv_blob_mapping mapping = {.low = image->code, .high = image->code_end, .offset = image->offset};
    mapping.path_bytes = (uint32_t)strnlen(image->path, sizeof mapping.path);
    memcpy(mapping.path, image->path, mapping.path_bytes);
    const uint32_t module = cv_wire_module(&mapping);
    n_variables = 0;
    each_symbol(files, image, take_variable);
    qsort(variables, n_variables, sizeof *variables, by_address);
    for (size_t i = 0, next; i < n_variables; i = next) {
        size_t best = i;
        for (next = i + 1; next < n_variables && variables[next].address == variables[i].address; next++)
            if (strlen(variables[next].name) < strlen(variables[best].name))
                best = next;
        cv_object_symbol(module, variables[best].address, variables[best].size, variables[best].name);
    }
    cv_objects_loaded();
}

static void tell_image(const char *path, uint64_t at, uint64_t bytes, uint64_t offset)
{
    struct image image;
    struct files files = {{NULL, 0}, {NULL, 0}};
    if (make_image(&image, path, at, bytes, offset, &files)) {
        if (n_images < MOST_IMAGES)
            images[n_images++] = image;
        cv_object_place(cv_object(CV_WIRE_FILE, 0, path), image.zeros, image.zeros_end - image.zeros);
        tell_symbols(&files, &image);
    }
    close_files(&files);
}

/* ---- what is mapped when the program begins ---- */

static struct first {
    uint64_t low, high, offset;
    int code;
    char path[512];
} *firsts;
static size_t n_firsts;

static uint64_t stack_bytes(pid_t process)
{
    struct rlimit limit;
    if (prlimit(process, RLIMIT_STACK, NULL, &limit) || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > 4 * USUAL_STACK)
        return USUAL_STACK;
    return limit.rlim_cur;
}

int cv_objects_start(struct cv_target *chosen, const struct cv_options *options)
{
    char path[64], line[1024];
    target = chosen;
    allocators = options->allocators;
    reports = options->objects;
    follows = options->follows > 0;
    events = (const struct cv_blob_event *)(target->memory + CV_OFF_EVENTS);
    watched = (struct cv_blob_watched *)(target->memory + CV_OFF_WATCHED);
    snprintf(path, sizeof path, "/proc/%d/maps", target->pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        struct first one = {0};
        char rights[8] = "";
        if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %511[^\n]", &one.low, &one.high, rights, &one.offset, one.path) < 4 ||
            (one.low >= CV_BLOB_BASE && one.low < CV_SHARED_BASE + CV_SHARED_BYTES))
            continue;
        one.code = rights[2] == 'x';
        firsts = realloc(firsts, (n_firsts + 1) * sizeof *firsts);
        firsts[n_firsts++] = one;
        if (one.code && one.path[0] == '/')
            watch_image(one.path, one.low, one.high - one.low, one.offset);
    }
    if (file)
        fclose(file);
    if (!n_firsts)
        cv_say("the mappings of process %d could not be read", target->pid);
    return n_firsts ? 0 : -1;
}

void cv_objects_begin(void)
{
    for (size_t i = 0; i < n_firsts; i++) {
        const struct first *one = &firsts[i];
        const uint64_t bytes = !strcmp(one->path, "[stack]") ? stack_bytes(target->pid) : 0;
        if (one->path[0] == '/')
            cv_object_place(cv_object(CV_WIRE_FILE, 0, one->path), one->low, one->high - one->low);
        if (bytes)
            cv_object_place(cv_object_define(CV_WIRE_STACK, 0, 1, ""), one->high - bytes, bytes);
    }
    for (size_t i = 0; i < n_firsts; i++)
        if (firsts[i].code && firsts[i].path[0] == '/')
            tell_image(firsts[i].path, firsts[i].low, firsts[i].high - firsts[i].low, firsts[i].offset);
}

/* ---- what the blob noted ---- */

static const char *path_of(uint64_t number, const struct cv_blob_event *e)
{
    static char path[64 * sizeof *e];
    const uint64_t n = e->more < 63 ? e->more : 63;
    for (uint64_t i = 0; i < n; i++)
        memcpy(path + i * sizeof *e, &events[(number + 1 + i) % CV_EVENTS], sizeof *e);
    path[n * sizeof *e] = 0;
    return path;
}

void cv_objects_look(void)
{
    const uint64_t all = __atomic_load_n(&target->shared->events, __ATOMIC_ACQUIRE);
    uint64_t at = target->shared->looked_at;
    while (at < all) {
        const struct cv_blob_event *e = &events[at % CV_EVENTS];
        if (e->kind == CV_EVENT_FILE && e->name)
            watch_image(path_of(at, e), e->word[0], e->word[1], e->word[2]);
        at += 1 + (uint64_t)e->more;
    }
    __atomic_store_n(&target->shared->looked_at, at, __ATOMIC_RELEASE);
}

static void tell_file(const struct cv_blob_event *e, const char *path)
{
    if (path[0] != '/')
        return;
    cv_object_place(cv_object(CV_WIRE_FILE, 0, path), e->word[0], e->word[1]);
    if (!e->name)
        return;
    cv_objects_forget_sites();
    tell_image(path, e->word[0], e->word[1], e->word[2]);
}

static void tell_mapped(const struct cv_blob_event *e)
{
    for (uint32_t i = 0; i < n_images; i++)
        if (e->word[1] >= images[i].low && e->word[1] < images[i].high) { /* its zero-filled data */
            cv_object_place(cv_object(CV_WIRE_FILE, 0, images[i].path), e->word[1], e->word[2]);
            return;
        }
    cv_object_place(e->name == CV_MAPPED_BY_ALLOCATOR ? cv_object(CV_WIRE_ALLOCATOR, 0, "")
                                                      : cv_object(CV_WIRE_MAPPING, e->word[0], "mmap"),
                    e->word[1], e->word[2]);
}

static void unmap(uint64_t at, uint64_t bytes)
{
    for (uint32_t i = n_images; i-- > 0;)
        if (images[i].code - at < bytes)
            images[i] = images[--n_images];
    if (bytes)
        cv_object_event(CV_WIRE_UNMAPPED, at, bytes, 0, 2);
}

static void tell_event(uint64_t number, const struct cv_blob_event *e)
{
    const uint64_t *w = e->word;
    switch (e->kind) {
    case CV_EVENT_GIVEN: cv_object_place(cv_object(CV_WIRE_HEAP, w[0], names[e->name < n_names ? e->name : 0]), w[1], w[2]); break;
    case CV_EVENT_FREED: cv_object_event(CV_WIRE_FREED, w[0], 0, 0, 1); break;
    case CV_EVENT_MAPPED: tell_mapped(e); break;
    case CV_EVENT_FILE: tell_file(e, path_of(number, e)); break;
    case CV_EVENT_HEAP: cv_object_place(cv_object(CV_WIRE_ALLOCATOR, 0, ""), w[0], w[1]); break;
    case CV_EVENT_UNMAPPED: unmap(w[0], w[1]); break;
    case CV_EVENT_MOVED:
        if (w[2])
            cv_object_event(CV_WIRE_MOVED, w[0], w[1], w[2], 3);
        break;
    case CV_EVENT_STACK: cv_object_place(cv_object_define(CV_WIRE_STACK, 0, e->name, ""), w[0], w[1]); break;
    default: break;
    }
}

void cv_objects_tell(uint64_t until)
{
    const uint64_t all = __atomic_load_n(&target->shared->events, __ATOMIC_ACQUIRE);
    uint64_t at = target->shared->reported;
    while (at < until && at < all) {
        const struct cv_blob_event *e = &events[at % CV_EVENTS];
        const uint64_t next = at + 1 + (uint64_t)e->more;
        tell_event(at, e);
        at = next;
    }
    __atomic_store_n(&target->shared->reported, at, __ATOMIC_RELEASE);
}
