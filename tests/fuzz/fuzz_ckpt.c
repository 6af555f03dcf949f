/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as manifest.json and as state.json: refused with a sentence, or
 * printing them gives the same bytes. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/run/ckpt_manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_take(char *again, const char *text, size_t size)
{
    assert(again != NULL && strlen(again) == size);
    assert(memcmp(again, text, size) == 0);
    free(again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct ckpt_manifest manifest;
    struct ckpt_record record;
    struct err err;

    err_clear(&err);
    if (ckpt_manifest_parse(text, size, &manifest, &err) == 0)
        check_take(ckpt_manifest_print(&manifest), text, size);
    else
        assert(strncmp(err.msg, "manifest.json:", 14) == 0);
    err_clear(&err);
    if (ckpt_manifest_parse_record(text, size, &record, &err) == 0) {
        check_take(ckpt_manifest_print_record(&record), text, size);
        free(record.policy);
    } else {
        assert(strncmp(err.msg, "state.json:", 11) == 0);
    }
    return 0;
}
