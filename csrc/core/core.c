/* Making and freeing of the core model: everything the walk relies on is checked here. */
#include "core.h"

#define MOST_CLASSES 256

static int valid_params(const cv_core_params *p)
{
    const uint32_t ports = (UINT32_C(1) << CV_CORE_PORTS) - 1;
    const uint32_t least_one[] = {p->issue_width,  p->retire_width, p->fetch_width, p->scheduler,   p->load_buffer,  p->store_buffer,
                                  p->fill_buffers, p->line_bytes,   p->load_ports,  p->store_ports, p->string_bytes, p->target_ways};
    for (size_t i = 0; i < sizeof least_one / sizeof *least_one; i++)
        if (!least_one[i] || least_one[i] > ports)
            return 0;
    if (p->line_bytes & (p->line_bytes - 1))
        return 0;
    const uint32_t largest = 1u << 16;
    const uint32_t bounded[] = {p->reorder_buffer, p->queue,        p->scheduler,         p->load_buffer,      p->store_buffer,
                                p->fill_buffers,   p->near_targets, p->integer_registers, p->vector_registers, p->flag_registers};
    for (size_t i = 0; i < sizeof bounded / sizeof *bounded; i++)
        if (bounded[i] > largest)
            return 0;
    /* An instruction of 255 slots must fit. */
    return p->reorder_buffer && p->queue && p->penalty < largest && p->taken_cycles < largest && p->return_cycles < largest &&
           p->call_cycles < largest && p->far_taken_cycles < largest && p->override_cycles < largest && p->indirect_cycles < largest &&
           p->code_bytes <= 1u << 26 && p->code_line_cycles < largest && p->code_latency < largest && p->predicted_pairs <= PAIRS &&
           p->decoded_ops <= largest && (p->decode_width || !p->decoded_ops) && p->near_pages <= largest && p->page_cycles < largest;
}

static int valid_op(const cv_core_op *op, size_t n_classes)
{
    if (op->class_ >= n_classes || op->n_reads > CV_CORE_READS || op->n_addresses > CV_CORE_ADDRESSES || op->n_writes > CV_CORE_WRITES)
        return 0;
    for (int i = 0; i < op->n_reads; i++)
        if (op->reads[i] >= CV_CORE_REGISTERS)
            return 0;
    for (int i = 0; i < op->n_addresses; i++)
        if (op->addresses[i] >= CV_CORE_REGISTERS)
            return 0;
    for (int i = 0; i < op->n_writes; i++)
        if (op->writes[i] >= CV_CORE_REGISTERS)
            return 0;
    return 1;
}

static int valid_ops(const cv_core_class *classes, size_t n_classes, const cv_core_op *op, size_t ops)
{
    if (!n_classes || n_classes > MOST_CLASSES)
        return 0;
    for (size_t i = 0; i < n_classes; i++)
        if (classes[i].ports >> CV_CORE_PORTS || classes[i].also >> CV_CORE_PORTS || classes[i].busy > CALENDAR / 2 || classes[i].half > 1)
            return 0;
    for (size_t i = 0; i < ops; i++)
        if (!valid_op(&op[i], n_classes))
            return 0;
    return 1;
}

static int valid(const cv_core_params *params, const cv_core_class *classes, size_t n_classes, const cv_core_code *code)
{
    if (!valid_params(params) || code->ops > UINT32_MAX || code->first_op[0])
        return 0;
    for (size_t i = 0; i < code->segments; i++)
        if (code->first_op[i + 1] < code->first_op[i])
            return 0;
    return code->first_op[code->segments] == code->ops && valid_ops(classes, n_classes, code->op, code->ops);
}

static int copied(void **to, const void *from, size_t count, size_t size)
{
    *to = malloc(count * size + 1);
    if (*to && count)
        memcpy(*to, from, count * size);
    return *to != NULL;
}

static int copy_all(cv_core *c, const cv_core_class *classes, const cv_core_code *code)
{
    return copied((void **)&c->classes, classes, c->n_classes, sizeof *classes) &&
           copied((void **)&c->first_op, code->first_op, c->segments + 1, sizeof *code->first_op) &&
           copied((void **)&c->address, code->address, c->segments, sizeof *code->address) &&
           copied((void **)&c->next_address, code->next_address, c->segments, sizeof *code->next_address) &&
           copied((void **)&c->op, code->op, c->ops, sizeof *code->op) &&
           copied((void **)&c->site_op, code->site_op, c->sites, sizeof *code->site_op) &&
           copied((void **)&c->site_bytes, code->site_bytes, c->sites, sizeof *code->site_bytes) &&
           copied((void **)&c->site_store, code->site_store, c->sites, sizeof *code->site_store) && (c->odd = calloc(MOST_CLASSES, 1)) &&
           (c->went = calloc(c->segments + 1, sizeof *c->went)) && (c->cycles = calloc(c->ops + 1, sizeof *c->cycles)) &&
           (c->executions = calloc(c->ops + 1, sizeof *c->executions)) && (c->taken_of = calloc(c->ops + 1, sizeof *c->taken_of));
}

static int register_files(cv_core *c)
{
    const uint32_t sizes[FILES] = {c->params.integer_registers, c->params.vector_registers, c->params.flag_registers};
    for (int i = 0; i < FILES; i++)
        if (sizes[i] && !queue_new(&c->buffers[FIRST_FILE + i], sizes[i]))
            return 0;
    for (size_t i = 0; i < c->ops; i++) { /* of files that suffice nothing takes an entry */
        const uint32_t flags = c->op[i].flags;
        c->taken_of[i] = (uint8_t)(flags & (CV_CORE_LOAD | CV_CORE_STORE));
        for (uint32_t k = 0; k < FILES; k++)
            c->taken_of[i] |= (uint8_t)((sizes[k] && flags & (uint32_t)CV_CORE_INTEGER_RESULT << k) << (FIRST_FILE + k));
    }
    return 1;
}

static int buffers(cv_core *c)
{
    const cv_core_params *const p = &c->params;
    return queue_new(&c->fetch_queue, p->queue) && queue_new(&c->reorder, p->reorder_buffer) &&
           queue_new(&c->buffers[LOAD_BUFFER], p->load_buffer) && queue_new(&c->buffers[STORE_BUFFER], p->store_buffer) &&
           queue_new(&c->fills, p->fill_buffers) && scheduler_new(&c->waiting, p->scheduler) &&
           near_new(&c->targets, p->near_targets, p->target_ways) && near_new(&c->code, p->code_bytes / p->line_bytes, CODE_WAYS) &&
           near_new(&c->decoded, p->decoded_ops / DECODED_SLOTS, CODE_WAYS) && near_new(&c->pages, p->near_pages, PAGE_WAYS) &&
           register_files(c);
}

cv_status cv_core_new(const cv_core_params *params, const cv_core_class *classes, size_t n_classes, const cv_core_code *code,
                      cv_core **core)
{
    if (!valid(params, classes, n_classes, code))
        return CV_ERROR_ARGUMENT;
    cv_core *c = calloc(1, sizeof *c);
    if (!c)
        return CV_ERROR_MEMORY;
    c->params = *params;
    c->line_shift = (uint32_t)__builtin_ctz(params->line_bytes);
    c->n_classes = n_classes;
    c->segments = code->segments;
    c->ops = code->ops;
    c->sites = code->sites;
    if (!copy_all(c, classes, code) || !buffers(c)) {
        cv_core_free(c);
        return CV_ERROR_MEMORY;
    }
    ports_clear(&c->ports);
    *core = c;
    return CV_OK;
}

void cv_core_free(cv_core *c)
{
    if (!c)
        return;
    /* clang-format off */
    void *const owned[] = {c->classes, c->odd, c->first_op, c->address, c->next_address, c->went, c->op, c->site_op, c->site_bytes,
                           c->site_store, c->site_owner, c->owner, c->causes, c->far, c->cycles, c->executions, c->fetch_queue.entry,
                           c->reorder.entry, c->fills.entry, c->waiting.entry, c->waiting.late,
                           c->taken_of, c->targets.key, c->code.key, c->decoded.key, c->pages.key};
    /* clang-format on */
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
    for (int i = 0; i < BUFFERS; i++)
        free(c->buffers[i].entry);
    free(c);
}

static int valid_shares(const cv_core *c, const cv_core_far_shares *given)
{
    if (given->levels > CV_CORE_LEVELS)
        return 0;
    for (size_t i = 0; i < c->sites; i++)
        if (given->owner[i] >= given->owners)
            return 0;
    for (size_t i = 0; i < given->owners * given->levels; i++)
        if (!(given->rates[i] >= 0 && given->rates[i] <= 1))
            return 0;
    return 1;
}

cv_status cv_core_levels(cv_core *c, const cv_core_far_shares *given)
{
    if (!valid_shares(c, given))
        return CV_ERROR_ARGUMENT;
    free(c->far), free(c->site_owner);
    c->site_owner = NULL;
    c->levels = 0;
    c->far = calloc(given->owners + 1, sizeof *c->far);
    if (!c->far || !copied((void **)&c->site_owner, given->owner, c->sites, sizeof *given->owner))
        return CV_ERROR_MEMORY;
    for (size_t i = 0; i < given->owners; i++) {
        far_lines *const one = &c->far[i];
        memcpy(one->rate, given->rates + i * given->levels, given->levels * sizeof *one->rate);
        memcpy(one->latency, given->latencies + i * given->levels, given->levels * sizeof *one->latency);
        one->walk = given->walks[i];
        for (uint32_t k = 0; k < given->levels; k++)
            one->due += one->rate[k] * (float)(one->walk + one->latency[k]);
    }
    c->levels = given->levels;
    c->far_owners = given->owners;
    return CV_OK;
}

cv_status cv_core_blame(cv_core *c, const uint32_t *owner, size_t owners)
{
    free(c->owner), free(c->causes);
    c->causes = calloc((owners + 1) * CV_CORE_CAUSES, sizeof *c->causes);
    c->owner = NULL;
    if (!c->causes || !copied((void **)&c->owner, owner, c->ops, sizeof *owner))
        return CV_ERROR_MEMORY;
    c->owners = owners;
    for (size_t i = 0; i < c->ops; i++)
        if (c->owner[i] > owners)
            c->owner[i] = (uint32_t)owners;
    return CV_OK;
}

const uint64_t *cv_core_causes(const cv_core *c) { return c->causes; }
const uint64_t *cv_core_cycles(const cv_core *c) { return c->cycles; }
const uint64_t *cv_core_executions(const cv_core *c) { return c->executions; }
uint64_t cv_core_instructions(const cv_core *c) { return c->walked; }
