/* Parser of .dim records (docs/formats/dim.md): one pass over text, straight into columns. It reads only the bytes it is given and
 * accepts nothing that it does not understand. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cv_replay.h"

enum { MAX_FIELDS = 10 };

typedef struct {
    const char *begin, *end;
} field;

static bool digit(char c) { return c >= '0' && c <= '9'; }

static bool parse_integer(field f, int64_t *value)
{
    const char *p = f.begin;
    bool negative = p < f.end && *p == '-';
    uint64_t sum = 0;
    p += negative;
    if (p == f.end || f.end - p > 18)
        return false;
    for (; p < f.end; p++) {
        if (!digit(*p))
            return false;
        sum = 10 * sum + (uint64_t)(*p - '0');
    }
    *value = negative ? -(int64_t)sum : (int64_t)sum;
    return true;
}

/* Event types and values are unsigned 64-bit in the format; what does not fit in a signed one wraps, as in other readers. */
static bool parse_unsigned(field f, int64_t *value)
{
    uint64_t sum = 0;
    const char *p = f.begin;
    if (p < f.end && *p == '-')
        return parse_integer(f, value);
    if (p == f.end || f.end - p > 20)
        return false;
    for (; p < f.end; p++) {
        uint64_t d = (uint64_t)(*p - '0');
        if (!digit(*p) || sum > (UINT64_MAX - d) / 10)
            return false;
        sum = 10 * sum + d;
    }
    *value = (int64_t)sum;
    return true;
}

/* Decimal seconds. Up to 15 significant digits with a small exponent are exact in two doubles' quotient; the rest goes to strtod. */
static bool parse_seconds(field f, double *value)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    uint64_t digits = 0;
    int count = 0, fraction = 0;
    const char *p = f.begin;
    bool point = false;
    for (; p < f.end && (digit(*p) || (*p == '.' && !point)); p++) {
        if (*p == '.') {
            point = true;
            continue;
        }
        digits = 10 * digits + (uint64_t)(*p - '0');
        if (digits > 0 && ++count > 15)
            break;
        fraction += point;
    }
    if (p == f.end && f.end - f.begin > (point ? 1 : 0) && fraction <= 22) {
        *value = (double)digits / powers[fraction];
        return true;
    }
    char copy[64], *stop;
    size_t length = (size_t)(f.end - f.begin);
    if (length == 0 || length >= sizeof copy || !(digit(*f.begin) || *f.begin == '.'))
        return false;
    memcpy(copy, f.begin, length);
    copy[length] = '\0';
    for (size_t i = 0; i < length; i++)
        if (!digit(copy[i]) && copy[i] != '.' && copy[i] != 'e' && copy[i] != 'E' && copy[i] != '-' && copy[i] != '+')
            return false;
    *value = strtod(copy, &stop);
    return *stop == '\0' && isfinite(*value) && *value >= 0;
}

static bool find_comm(const cv_dim_columns *c, int64_t id, int32_t *index)
{
    int32_t low = 0, high = c->communicators;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (c->comm_ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    *index = low;
    return low < c->communicators && c->comm_ids[low] == id;
}

static enum cv_dim_error message_fields(const field *f, int fields, cv_dim_columns *c, size_t i, bool send)
{
    int64_t v[6];
    if (fields != 8 && fields != 9)
        return CV_DIM_FIELDS;
    /* The partner's thread may be left out. */
    for (int k = 0, at = 3; k < 6; k++) {
        if (k == 1 && fields == 8)
            v[k] = -1;
        else if (!parse_integer(f[at++], &v[k]))
            return CV_DIM_NUMBER;
    }
    if (v[0] == -1)
        return CV_DIM_WILDCARD;
    if (v[0] < 0 || v[0] >= c->tasks)
        return CV_DIM_TASK;
    if (v[1] != -1 && v[1] != -2 && v[1] != 0)
        return CV_DIM_THREAD;
    if (v[2] < 0 || v[3] < INT32_MIN || v[3] > INT32_MAX)
        return CV_DIM_RANGE;
    if (!find_comm(c, v[4], &c->comm[i]))
        return CV_DIM_COMM;
    if (v[5] < 0 || v[5] > (send ? 3 : 2))
        return CV_DIM_SYNC;
    c->kind[i] = send ? CV_REPLAY_SEND : (uint8_t)(CV_REPLAY_RECV + v[5]);
    c->flags[i] = send ? (uint8_t)v[5] : 0;
    c->partner[i] = (int32_t)v[0];
    c->bytes[i] = v[2];
    c->tag[i] = (int32_t)v[3];
    return CV_DIM_OK;
}

static enum cv_dim_error collective_fields(const field *f, int fields, cv_dim_columns *c, size_t i)
{
    int64_t v[7] = {0, 0, 0, 0, 0, 0, CV_REPLAY_BLOCKING};
    if (fields != 9 && fields != 10)
        return CV_DIM_FIELDS;
    for (int k = 0; k < fields - 3; k++)
        if (!parse_integer(f[3 + k], &v[k]))
            return CV_DIM_NUMBER;
    if (v[0] < 0 || v[0] >= CV_OPS)
        return CV_DIM_OP;
    if (!find_comm(c, v[1], &c->comm[i]))
        return CV_DIM_COMM;
    bool reduce = v[0] == CV_OP_REDUCE;
    if (v[2] < 0 || (reduce && v[2] >= c->tasks))
        return CV_DIM_TASK;
    if (v[4] < 0 || v[5] < 0 || v[2] > INT32_MAX)
        return CV_DIM_RANGE;
    if (v[6] < 0 || v[6] > CV_REPLAY_ROOT_SYNC || (v[6] == CV_REPLAY_ROOT_SYNC && !reduce))
        return CV_DIM_SYNC;
    c->kind[i] = CV_REPLAY_COLLECTIVE;
    c->op[i] = (uint8_t)v[0];
    c->flags[i] = (uint8_t)v[6];
    c->partner[i] = (int32_t)v[2];
    c->bytes[i] = v[4];
    c->extra[i] = v[5];
    return CV_DIM_OK;
}

static enum cv_dim_error parse_line(const char *begin, const char *end, cv_dim_columns *c)
{
    field f[MAX_FIELDS + 1];
    int fields = 0;
    for (const char *p = begin; fields <= MAX_FIELDS; p++) {
        const char *stop = memchr(p, ':', (size_t)(end - p));
        f[fields++] = (field){p, stop ? stop : end};
        if (stop == NULL)
            break;
        p = stop;
    }
    int64_t kind, task, thread;
    size_t i = c->count;
    if (fields < 3 || fields > MAX_FIELDS)
        return CV_DIM_FIELDS;
    if (!parse_integer(f[0], &kind))
        return CV_DIM_KIND;
    if (!parse_integer(f[1], &task) || !parse_integer(f[2], &thread))
        return CV_DIM_NUMBER;
    if (task < 0 || task >= c->tasks)
        return CV_DIM_TASK;
    if (thread != 0)
        return CV_DIM_THREAD;
    c->task[i] = (int32_t)task;
    c->kind[i] = c->flags[i] = c->op[i] = 0;
    c->partner[i] = c->tag[i] = c->comm[i] = 0;
    c->bytes[i] = c->extra[i] = 0;
    c->seconds[i] = 0;
    switch (kind) {
    case 0: return CV_DIM_OK;
    case 1:
    case 11:
        c->kind[i] = kind == 1 ? CV_REPLAY_BURST : CV_REPLAY_GPU;
        if (fields != 4)
            return CV_DIM_FIELDS;
        return parse_seconds(f[3], &c->seconds[i]) ? CV_DIM_OK : CV_DIM_NUMBER;
    case 2: return message_fields(f, fields, c, i, true);
    case 3: return message_fields(f, fields, c, i, false);
    case 10: return collective_fields(f, fields, c, i);
    case 20:
        c->kind[i] = CV_REPLAY_EVENT;
        if (fields != 5)
            return CV_DIM_FIELDS;
        return parse_unsigned(f[3], &c->bytes[i]) && parse_unsigned(f[4], &c->extra[i]) ? CV_DIM_OK : CV_DIM_NUMBER;
    default: return CV_DIM_KIND;
    }
}

enum cv_dim_error cv_dim_parse(const char *text, size_t bytes, cv_dim_columns *columns, size_t *consumed, size_t *lines)
{
    size_t at = 0;
    *consumed = *lines = 0;
    while (at < bytes) {
        const char *newline = memchr(text + at, '\n', bytes - at);
        if (newline == NULL)
            break;
        const char *begin = text + at, *end = newline;
        if (end > begin && end[-1] == '\r')
            end--;
        if (end > begin && *begin != '#') {
            if (columns->count == columns->capacity)
                return CV_DIM_FULL;
            enum cv_dim_error error = parse_line(begin, end, columns);
            if (error != CV_DIM_OK)
                return error;
            columns->count++;
        }
        at = (size_t)(newline - text) + 1;
        *consumed = at;
        ++*lines;
    }
    return CV_DIM_OK;
}
