typedef struct {
    uint64_t sets;
    uint64_t line_bytes;
    uint64_t sector_bytes;
    uint64_t seed;
    uint32_t ways;
    uint32_t policy;
    uint32_t inclusion;
    uint32_t write_through;
    uint32_t no_allocate;
    uint32_t combining;
    uint32_t index;
    uint32_t slices;
    uint32_t prefetcher;
    uint32_t degree;
    uint32_t entries;
    uint32_t shared;
    uint32_t classify;
} cv_detailed_level;
typedef struct cv_detailed cv_detailed;
#define CV_DETAILED_COUNTS ...
cv_status cv_detailed_new(const cv_detailed_level *levels, uint32_t n_levels, const cv_detailed_level *tlbs, uint32_t n_tlbs,
                          uint32_t cores, uint32_t semantics, cv_detailed **made);
cv_status cv_detailed_feed(cv_detailed *d, uint32_t core, const cv_refs *refs);
cv_status cv_detailed_limit_owners(cv_detailed *d, uint64_t owners);
uint64_t cv_detailed_references(const cv_detailed *d);
uint64_t cv_detailed_owners(const cv_detailed *d);
cv_status cv_detailed_counts(const cv_detailed *d, uint32_t level, uint64_t *rows);
uint64_t cv_detailed_resident(const cv_detailed *d, uint32_t level);
void cv_detailed_free(cv_detailed *d);
