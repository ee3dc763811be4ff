/* Feeds a wire stream to the decoder in pieces, records and replays it, then does the same with damaged copies: run under
 * sanitizers, every breach of memory ends the program. Prints the references of the whole stream. Arguments: FILE ROUNDS. */
#include "trace_run.h"

int main(int argc, char **argv)
{
    FILE *file = argc > 2 ? fopen(argv[1], "rb") : NULL;
    if (!file)
        return 2;
    static uint8_t wire[1 << 22], damaged[1 << 22];
    size_t size = fread(wire, 1, sizeof wire, file);
    fclose(file);
    printf("%llu\n", (unsigned long long)run(wire, size));
    for (int round = 0; round < atoi(argv[2]); round++) {
        memcpy(damaged, wire, size);
        for (uint64_t flips = 1 + next() % 8; flips; flips--)
            damaged[next() % size] = (uint8_t)next();
        run(damaged, next() % 2 ? size : next() % size);
    }
    return 0;
}
