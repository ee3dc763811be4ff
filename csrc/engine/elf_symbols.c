#include "elf_symbols.h"

int cv_elf_is(struct cv_elf file)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)file.bytes;
    return file.bytes && file.size >= sizeof *head && head->e_ident[EI_MAG0] == ELFMAG0 && head->e_ident[EI_MAG1] == ELFMAG1 &&
           head->e_ident[EI_MAG2] == ELFMAG2 && head->e_ident[EI_MAG3] == ELFMAG3 && head->e_ident[EI_CLASS] == ELFCLASS64 &&
           head->e_machine == EM_X86_64;
}

const void *cv_elf_table(struct cv_elf file, uint64_t offset, uint64_t n, uint64_t bytes)
{
    return offset <= file.size && n <= (file.size - offset) / bytes ? file.bytes + offset : 0;
}

int cv_elf_bias(struct cv_elf file, uint64_t code, uint64_t offset, uint64_t *bias)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)file.bytes;
    const Elf64_Phdr *parts = cv_elf_is(file) ? cv_elf_table(file, head->e_phoff, head->e_phnum, sizeof *parts) : 0;
    for (int i = 0; parts && i < head->e_phnum; i++) {
        const Elf64_Phdr *p = &parts[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
            continue;
        if ((p->p_offset & ~UINT64_C(4095)) <= offset && offset < p->p_offset + p->p_filesz) {
            *bias = code - (p->p_vaddr - p->p_offset + offset);
            return 1;
        }
    }
    return 0;
}

/* Bytes up to the end of the last whole text. */
static uint64_t whole_texts(const char *letters, uint64_t size)
{
    while (size && letters[size - 1])
        size--;
    return size;
}

void cv_elf_each_symbol(struct cv_elf file, cv_elf_taker *take, void *to)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)file.bytes;
    const Elf64_Shdr *sections = cv_elf_is(file) ? cv_elf_table(file, head->e_shoff, head->e_shnum, sizeof *sections) : 0;
    for (int i = 0; sections && i < head->e_shnum; i++) {
        const Elf64_Shdr *s = &sections[i], *text = s->sh_link < head->e_shnum ? &sections[s->sh_link] : 0;
        if ((s->sh_type != SHT_SYMTAB && s->sh_type != SHT_DYNSYM) || !text)
            continue;
        const Elf64_Sym *symbols = cv_elf_table(file, s->sh_offset, s->sh_size / sizeof *symbols, sizeof *symbols);
        const char *letters = cv_elf_table(file, text->sh_offset, text->sh_size, 1);
        const uint64_t texts = letters ? whole_texts(letters, text->sh_size) : 0;
        for (uint64_t k = 0; symbols && k < s->sh_size / sizeof *symbols; k++) {
            const Elf64_Sym *symbol = &symbols[k];
            if (symbol->st_shndx != SHN_UNDEF && symbol->st_name < texts && symbol->st_value)
                take(to, symbol, letters + symbol->st_name);
        }
    }
}
