/* Symbols of an object file that lies in memory. Freestanding. */
#ifndef CV_ELF_SYMBOLS_H
#define CV_ELF_SYMBOLS_H

#include <elf.h>
#include <stdint.h>

struct cv_elf {
    const uint8_t *bytes; /* NULL: it is none */
    uint64_t size;
};

int cv_elf_is(struct cv_elf file); /* for this processor */
/* Elements of a table in the file; NULL where they are not all within it. */
const void *cv_elf_table(struct cv_elf file, uint64_t offset, uint64_t n, uint64_t bytes);
/* From a symbol's value to its address, where a part with code lies at an address that begins at an offset; 0: it cannot be known. */
int cv_elf_bias(struct cv_elf file, uint64_t code, uint64_t offset, uint64_t *bias);

typedef void cv_elf_taker(void *to, const Elf64_Sym *symbol, const char *name);
void cv_elf_each_symbol(struct cv_elf file, cv_elf_taker *take, void *to);

#endif
