/* No library, no random bytes from the kernel: the same references in every run. Loads and stores of all sizes at all alignments,
 * calls, a string instruction. gcc -nostdlib -static -ffreestanding */
#include <emmintrin.h>
#include <stdint.h>

static unsigned char memory[1 << 16];

__attribute__((noinline)) static uint64_t touch(unsigned char *at, unsigned kind)
{
    switch (kind) {
    case 0: return *at += 3;
    case 1: return *(volatile uint16_t *)at;
    case 2: return *(volatile uint32_t *)at += 5;
    case 3: *(volatile uint64_t *)at = kind; return 1;
    case 4: _mm_storeu_si128((__m128i *)at, _mm_loadu_si128((__m128i *)(at + 48))); return 2;
    case 5: return __atomic_fetch_add((uint32_t *)((uintptr_t)at & ~3ul), 1, __ATOMIC_SEQ_CST);
    default: {
        unsigned long count = 9;
        __asm__ volatile("rep stosb" : "+D"(at), "+c"(count) : "a"(1) : "memory");
        return 3;
    }
    }
}

void _start(void)
{
    uint64_t state = 88172645463325252u, sum = 0;
    for (int i = 0; i < 4000; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        sum += touch(memory + state % (sizeof memory - 64), (state >> 32) % 7);
    }
    __asm__ volatile("syscall" ::"a"(60), "D"(sum & 63) : "memory");
}
