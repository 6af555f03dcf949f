/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as CSV: refused with a sentence, or tables of finite numbers. */
#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "engine/data/csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(const struct csv *csv)
{
    const int64_t n = csv->input.desc.dim[0];

    assert(n > 0 && csv->target.desc.dim[0] == n);
    assert(csv->errors.n == 0);
    for (int64_t i = 0; i < csv->input.n_elems; i++)
        assert(isfinite(((const float *)csv->input.data)[i]));
    for (int64_t i = 0; i < csv->target.n_elems; i++)
        assert(isfinite(array_get_double(&csv->target, i)));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *columns[] = {"label", "0"};

    for (int pass = 0; pass < 4; pass++) {
        const struct csv_options options = {
            .target_columns = columns + (pass & 1),
            .n_target_columns = 1,
            .target_is_class = pass & 2,
            .to_half = true,
        };
        struct csv csv;
        struct err err;

        err_clear(&err);
        if (csv_parse(data, size, "f", &options, &csv, &err) < 0) {
            assert(strncmp(err.msg, "f: ", 3) == 0);
            assert(csv.input.memory == NULL && csv.target.memory == NULL);
            continue;
        }
        check(&csv);
        csv_fini(&csv);
    }
    return 0;
}
