/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an .npy file: refused with a sentence, or every element can be
 * read. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "engine/data/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct array a;
    struct err err;

    err_clear(&err);
    if (npy_parse(data, size, "f", &a, &err) < 0) {
        assert(a.memory == NULL && strncmp(err.msg, "f: ", 3) == 0);
        return 0;
    }
    assert(a.n_elems == tensor_n_elems(&a.desc));
    for (int64_t i = 0; i < a.n_elems; i++) {
        float v;

        array_to_f32(&a, i, 1, &v);
        /* int64 is rounded twice on the way over double. */
        assert(a.desc.dtype == DTYPE_I64 || v != v ||
               (float)array_get_double(&a, i) == v);
    }
    array_fini(&a);
    return 0;
}
