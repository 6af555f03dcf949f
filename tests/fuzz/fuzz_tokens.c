/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as tokens or text: refused with a sentence, or windows of ids. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "engine/data/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(const struct tokens *t)
{
    int32_t input[8], target[8];
    int32_t high = 0;
    struct err err;

    assert(t->first >= 0 && t->n >= 0 && t->first + t->n <= t->ids.n_elems);
    for (int64_t i = 0; i < t->n; i++) {
        tokens_copy(t, i, 1, input);
        assert(input[0] >= 0);
        high = input[0] > high ? input[0] : high;
    }
    for (int64_t i = 0; i + 8 < t->n; i += 8) {
        assert(tokens_window(t, i, 8, input, target) == 8);
        assert(memcmp(input + 1, target, 7 * sizeof(*input)) == 0);
    }
    err_clear(&err);
    assert(tokens_check(t, high, false, &err) < 0 || t->n == 0);
    if (t->ids.desc.dtype != DTYPE_U16 || high < 65535)
        assert(tokens_check(t, (int64_t)high + 1, true, &err) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct {
        enum spec_format format;
        enum dtype dtype;
        double part[2];
    } ways[] = {
        {SPEC_FORMAT_TOKENS, DTYPE_NONE, {0, 1}},
        {SPEC_FORMAT_TOKENS, DTYPE_U16, {0.25, 0.75}},
        {SPEC_FORMAT_TOKENS, DTYPE_U32, {0, 0.9}},
        {SPEC_FORMAT_TEXT, DTYPE_NONE, {0.9, 1}},
    };

    for (int i = 0; i < 4; i++) {
        const struct spec_source source = {
            .format = ways[i].format,
            .input = "f",
            .token_dtype = ways[i].dtype,
            .part = {ways[i].part[0], ways[i].part[1]}};
        struct tokens t;
        struct err err;

        err_clear(&err);
        if (tokens_parse(data, size, &source, &t, &err) < 0) {
            assert(strncmp(err.msg, "f: ", 3) == 0 && t.ids.memory == NULL);
            continue;
        }
        check(&t);
        tokens_fini(&t);
    }
    return 0;
}
