/* One rep stosb of 100 bytes, one rep movsq of 50 words: 100 stores; 50 loads and 50 stores. */
static unsigned char bytes[100];
static long from[50], to[50];

__attribute__((noinline)) void string_operations(void)
{
    void *destination = bytes;
    long *source = from;
    unsigned long count = 100;
    __asm__ volatile("rep stosb" : "+D"(destination), "+c"(count) : "a"(1) : "memory");
    destination = to;
    count = 50;
    __asm__ volatile("rep movsq" : "+D"(destination), "+S"(source), "+c"(count)::"memory");
}

int main(void)
{
    string_operations();
    return bytes[99] - 1;
}
