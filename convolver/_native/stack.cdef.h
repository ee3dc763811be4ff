typedef struct cv_stack cv_stack;
cv_status cv_stack_new(uint32_t line_bytes, cv_stack **stack);
cv_status cv_stack_feed(cv_stack *stack, const cv_refs *refs);
uint64_t cv_stack_cold(const cv_stack *stack);
uint64_t cv_stack_histogram(const cv_stack *stack, const uint64_t **counts);
void cv_stack_free(cv_stack *stack);
