/* Reads objdump's listing and compares lengths, displacements and uses of rcx with the engine's decoder; prints what differs, exit
 * status 1. */
#include "../../csrc/engine/x86_decode.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* By what objdump writes: its name, or an instruction that has it without naming it. */
static int has_rcx(const char *text)
{
    static const char *const words[] = {"%rcx",   "%ecx",   "%cx",    "%cl",       "%ch",       "cmpxchg8b", "cmpxchg16b",
                                        "cpuid",  "rdtscp", "xgetbv", "pcmpistri", "pcmpestri", "rep ",      "repz ",
                                        "repnz ", "loop",   "rdpmc",  "syscall",   "rdpkru",    "wrpkru"};
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(text, words[i]) && !strstr(text, "repz ret") && !strchr(text, '<'))
            return 1;
    return 0;
}

int main(void)
{
    static char line[4096];
    long instructions = 0, wrong = 0;
    while (fgets(line, sizeof line, stdin)) {
        char *bytes = strchr(line, '\t'), *text = bytes ? strchr(bytes + 1, '\t') : NULL;
        if (!text || strstr(text, "(bad)") || strstr(text, ".byte") || strstr(text, "\tf") /* fwait and what follows are two */)
            continue;
        unsigned char code[32];
        int length = 0;
        for (char *at = bytes + 1; at < text; at += 3)
            if (*at != ' ')
                code[length++] = (unsigned char)strtol(at, NULL, 16);
        memset(code + length, 0x90, sizeof code - (size_t)length);
        struct cv_x86 x;
        const int got = cv_x86_decode(code, 15, strtoul(line, NULL, 16), &x);
        int differs = got != length || x.refusal == CV_X86_UNKNOWN;
        char *operand = strchr(text, '(');
        if (!differs && x.memory == 1 && x.base >= 0 && operand) {
            char *first = operand;
            while (first > text && strchr("0123456789abcdefx-", first[-1]))
                first--;
            differs = (first < operand ? strtol(first, NULL, 16) : 0) != x.displacement;
        }
        differs |= has_rcx(text) && !cv_x86_touches_rcx(&x) && x.kind != CV_X86_RETURN;
        instructions++;
        if (differs && wrong++ < 10)
            printf("%d bytes, displacement %ld: %s", got, (long)x.displacement, line);
    }
    printf("%ld instructions, %ld differ\n", instructions, wrong);
    return wrong > 0 || instructions == 0;
}
