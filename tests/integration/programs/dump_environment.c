/* Appends its environment and the bytes of its input, an entry a line, to the file that its first argument names. */
#include <stdio.h>

int main(int argc, char **argv, char **environment)
{
    FILE *out = argc > 1 ? fopen(argv[1], "a") : NULL;
    long bytes = 0;
    if (!out)
        return 1;
    for (; *environment; environment++)
        fprintf(out, "%s\n", *environment);
    while (getchar() != EOF)
        bytes++;
    fprintf(out, "input=%ld\n.\n", bytes);
    return fclose(out) != 0;
}
