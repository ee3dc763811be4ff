typedef struct cv_trace cv_trace;
typedef struct cv_collector cv_collector;
#define CV_WIRE_MAGIC ...
#define CV_WIRE_VERSION ...
#define CV_TRACE_HLL_REGISTERS ...
#define CV_BATCH_WINDOW ...
#define CV_BATCH_SETS ...
#define CV_PUMP_END ...
#define CV_PUMP_FULL ...
#define CV_PUMP_TIME ...
#define CV_PUMP_INTERRUPTED ...
struct cv_wire_module { uint64_t address; uint64_t size_bytes; uint64_t file_offset; ...; };
struct cv_wire_instruction { uint16_t offset; ...; };
struct cv_wire_site { int64_t displacement; ...; };
struct cv_wire_segment { uint64_t address; ...; };
typedef struct { uint32_t kind; uint32_t thread; uint64_t window; } cv_batch;
typedef cv_status (*cv_batch_sink)(void *context, const cv_refs *refs, const cv_batch *batch);
typedef struct {
    uint64_t words;
    uint64_t windows;
    uint64_t window_references;
    uint64_t set_references;
    uint64_t passed;
    uint64_t set_site_lost;
    uint32_t threads;
    uint32_t ended;
    uint32_t end_reason;
    int32_t end_code;
} cv_trace_totals;
typedef struct { uint64_t last; ...; } cv_site_features;
cv_trace *cv_trace_new(void);
void cv_trace_free(cv_trace *trace);
cv_status cv_trace_add_sink(cv_trace *trace, cv_batch_sink sink, void *context);
cv_status cv_trace_feed(cv_trace *trace, const void *bytes, size_t size);
cv_status cv_trace_define(cv_trace *trace, const void *bytes, size_t size);
cv_status cv_trace_replay(cv_trace *trace, const void *bytes, size_t size);
cv_status cv_trace_choose_phase(cv_trace *trace, uint32_t phase, uint32_t phases);
cv_status cv_trace_choose_range(cv_trace *trace, const char *path, uint64_t begin, uint64_t end);
typedef struct {
    const uint64_t *words;
    const uint64_t *starts;
    const uint64_t *ordinals;
    size_t word_count, record_count;
} cv_unpacked;
cv_status cv_trace_unpack(cv_trace *trace, const void *bytes, size_t size, uint64_t *before, cv_unpacked *unpacked);
cv_status cv_trace_flush(cv_trace *trace);
cv_status cv_trace_pump(cv_trace *trace, int fd, int milliseconds, int *state);
void cv_trace_record(cv_trace *trace, int on);
const uint8_t *cv_trace_recorded(const cv_trace *trace, int kind, size_t *size);
int cv_trace_chunk_full(const cv_trace *trace);
void cv_trace_taken(cv_trace *trace);
const char *cv_trace_error(const cv_trace *trace, uint64_t *position);
const cv_trace_totals *cv_trace_totals_of(const cv_trace *trace);
size_t cv_trace_modules(const cv_trace *trace, const struct cv_wire_module **modules);
const char *cv_trace_module_path(const cv_trace *trace, size_t module);
size_t cv_trace_segments(const cv_trace *trace, const struct cv_wire_segment **segments);
size_t cv_trace_instructions(const cv_trace *trace, const struct cv_wire_instruction **instructions);
size_t cv_trace_sites(const cv_trace *trace, const struct cv_wire_site **sites);
size_t cv_trace_code(const cv_trace *trace, const uint8_t **code);
size_t cv_trace_visits(const cv_trace *trace, uint64_t *visits, size_t capacity);
size_t cv_trace_features(const cv_trace *trace, const cv_site_features **features);
const uint8_t *cv_trace_distinct(const cv_trace *trace, size_t segment);
cv_collector *cv_collector_new(void);
void cv_collector_free(cv_collector *collector);
cv_status cv_collector_sink(void *collector, const cv_refs *refs, const cv_batch *batch);
size_t cv_collector_batches(const cv_collector *collector);
void cv_collector_batch(const cv_collector *collector, size_t index, cv_refs *refs, cv_batch *batch);
void cv_collector_clear(cv_collector *collector);
cv_status cv_trace_simulate(void *simulator, const cv_refs *refs, const cv_batch *batch);
cv_status cv_trace_simulate_sets(void *simulator, const cv_refs *refs, const cv_batch *batch);
uint32_t cv_crc32c(uint32_t crc, const void *bytes, size_t size);
