typedef struct {
    uint64_t sets;
    uint32_t ways;
    uint32_t line_bytes;
    uint32_t policy;
} cv_sim_level;
typedef struct cv_sim cv_sim;
cv_status cv_sim_new(const cv_sim_level *levels, const uint32_t *n_levels, uint32_t hierarchies, cv_sim **sim);
cv_status cv_sim_select(cv_sim *sim, uint64_t mask, uint64_t value);
#define CV_SIM_GROUPS ...
cv_status cv_sim_group(cv_sim *sim, uint32_t first_bit);
cv_status cv_sim_limit_owners(cv_sim *sim, uint64_t owners);
cv_status cv_sim_feed(cv_sim *sim, const cv_refs *refs);
uint64_t cv_sim_references(const cv_sim *sim);
uint64_t cv_sim_owners(const cv_sim *sim);
cv_status cv_sim_counts(const cv_sim *sim, uint32_t hierarchy, uint32_t level, uint64_t *accesses, uint64_t *misses,
                        uint64_t *write_backs);
const char *cv_sim_simd(const cv_sim *sim);
void cv_sim_free(cv_sim *sim);
