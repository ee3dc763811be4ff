/* A target for libFuzzer; built without it (no FUZZING), the program runs the files that it is given. */
#ifndef TARGET_H
#define TARGET_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifndef FUZZING
int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (!file)
            return 2;
        uint8_t *room = malloc(1 << 20);
        size_t size = fread(room, 1, 1 << 20, file);
        uint8_t *data = realloc(room, size + !size); /* of exactly this size, so that a read beyond its end is seen */
        LLVMFuzzerTestOneInput(data, size);
        free(data);
        fclose(file);
    }
    return 0;
}
#endif

#endif
