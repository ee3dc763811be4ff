typedef struct {
    const uint64_t *address;
    const uint32_t *owner;
    const uint16_t *size;
    const uint8_t *write;
    size_t count;
} cv_refs;
