/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a safetensors file: refused with a sentence, or every tensor
 * lies within the file and is found by its name. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "engine/data/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *next = NULL;
    struct safetensors *f;
    struct err err;

    err_clear(&err);
    if (safetensors_parse(data, size, "f", &f, &err) < 0) {
        assert(f == NULL && strncmp(err.msg, "f: ", 3) == 0);
        return 0;
    }
    for (int i = 0; i < safetensors_n_entries(f); i++) {
        const struct safetensors_entry *e = safetensors_at(f, i);
        const uint8_t *at = e->data;

        assert(safetensors_find(f, e->name) == e);
        assert(next == NULL || at == next);
        next = at + tensor_n_bytes(&e->desc);
        assert(at >= data + 8 && next <= data + size);
    }
    assert(next == NULL || next == data + size);
    safetensors_metadata(f, "policy");
    safetensors_close(&f);
    return 0;
}
