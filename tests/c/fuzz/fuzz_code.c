/* Machine code: the decoder of the native engine, which has to stay within what is readable. */
#include "../../../csrc/engine/x86_decode.c"
#include "../../../csrc/engine/x86_groups.c"
#include "../../../csrc/engine/x86_opcodes.c"
#include "../../../csrc/engine/x86_vectors.c"
#include "target.h"

static void take(const uint8_t *data, size_t size)
{
    for (size_t at = 0; at < size;) {
        struct cv_x86 out;
        int length = cv_x86_decode(data + at, (int)(size - at), 0x400000 + at, &out);
        if (length < 0 || length > 15 || (size_t)length > size - at || out.n_references > 2)
            abort();
        at += length ? (size_t)length : 1;
    }
}
