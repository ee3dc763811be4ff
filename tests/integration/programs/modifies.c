/* Writes a function, runs it, and writes another over it, several times; adds up what they return. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

int main(void)
{
    unsigned char code[] = {0xb8, 0, 0, 0, 0, 0xc3}; /* mov $n, %eax; ret */
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int sum = 0;
    for (int n = 0; n < 50; n++) {
        code[1] = n % 5;
        memcpy(page, code, sizeof code);
        __builtin___clear_cache((char *)page, (char *)page + sizeof code);
        sum += ((int (*)(void))page)();
    }
    printf("%d\n", sum);
    return 0;
}
