/* Effective burst durations: module, rank and burst ratios. A ratio divides (2.0: twice as fast); 0 makes instantaneous; a negative
 * module ratio is a fixed duration, which the rank's ratio still divides. Modules nest: the innermost active one counts, and an
 * exit event (type, 0) closes the innermost module of its type. Values of a module type that are not listed nest too, without
 * effect. */
#include "internal.h"

typedef struct {
    int64_t type;
    double ratio;
} active_module;

static bool find(const cv_replay_module *modules, size_t count, int64_t type, int64_t value, double *ratio, bool *known_type)
{
    *known_type = false;
    for (size_t m = 0; m < count; m++)
        if (modules[m].type == type) {
            *known_type = true;
            if (modules[m].value == value) {
                *ratio = modules[m].ratio;
                return true;
            }
        }
    return false;
}

static void leave(active_module *stack, size_t *depth, int64_t type)
{
    for (size_t d = *depth; d-- > 0;)
        if (stack[d].type == type) {
            memmove(&stack[d], &stack[d + 1], (*depth - d - 1) * sizeof *stack);
            --*depth;
            return;
        }
}

static double divided(double seconds, double ratio) { return ratio == 0 ? 0 : seconds / ratio; }

static double effective(double recorded, double module_ratio, double rank_ratio, double burst_ratio)
{
    double seconds = module_ratio < 0 ? -module_ratio : divided(recorded, module_ratio);
    return divided(divided(seconds, burst_ratio), rank_ratio);
}

cv_status cv_replay_scale(cv_replay *replay, const double *rank_ratio, const double *burst_ratio, const cv_replay_module *modules,
                          size_t module_count)
{
    const cv_replay_trace *t = &replay->trace;
    active_module *stack = NULL;
    size_t depth, capacity = 0;
    uint32_t steps = 0;
    cv_status status = CV_ERROR_ARGUMENT;
    for (uint32_t rank = 0; rank < t->ranks; rank++) {
        double own = rank_ratio ? rank_ratio[rank] : 1.0;
        if (!(own >= 0))
            goto refused;
        depth = 0;
        for (int64_t i = t->first[rank]; i < t->first[rank + 1]; i++) {
            if ((status = cv_interrupt_look(&steps)))
                goto refused;
            status = CV_ERROR_ARGUMENT;
            double ratio, burst = burst_ratio ? burst_ratio[i] : 1.0;
            bool known;
            if (t->kind[i] == CV_REPLAY_BURST) {
                if (!(burst >= 0))
                    goto refused;
                replay->records[i].seconds = effective(t->seconds[i], depth ? stack[depth - 1].ratio : 1.0, own, burst);
            } else if (t->kind[i] == CV_REPLAY_EVENT && module_count) {
                if (t->extra[i] == 0) {
                    leave(stack, &depth, t->bytes[i]);
                    continue;
                }
                if (!find(modules, module_count, t->bytes[i], t->extra[i], &ratio, &known)) {
                    if (!known)
                        continue;
                    ratio = depth ? stack[depth - 1].ratio : 1.0;
                }
                if (!CV_ROOM(stack, capacity, depth)) {
                    status = CV_ERROR_MEMORY;
                    goto refused;
                }
                stack[depth++] = (active_module){t->bytes[i], ratio};
            }
        }
    }
    free(stack);
    return CV_OK;
refused:
    free(stack);
    return status;
}
