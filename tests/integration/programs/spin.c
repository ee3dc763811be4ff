/* Loops that refer to no memory between others that do. No library. */
static volatile unsigned long memory[512];

void _start(void)
{
    for (int round = 0; round < 20; round++) {
        unsigned long turns = 100000;
        __asm__ volatile("1: dec %0\n jnz 1b" : "+r"(turns));
        for (int i = 0; i < 512; i++)
            memory[i] += i;
    }
    __asm__ volatile("syscall" : : "a"(60), "D"(0));
}
