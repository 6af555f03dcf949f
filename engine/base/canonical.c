/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/canonical.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PRINT_FLAGS (JSON_INDENT(2) | JSON_PRESERVE_ORDER)

char *
canonical_print_take(json_t *value)
{
    char *text = value != NULL ? json_dumps(value, PRINT_FLAGS) : NULL;
    char *out = NULL;

    if (text != NULL && asprintf(&out, "%s\n", text) < 0)
        out = NULL;
    free(text);
    json_decref(value);
    return out;
}

int
canonical_check_take(const char *text, size_t len, char *again,
                     const char *file, struct err *err)
{
    const bool same =
        again != NULL && strlen(again) == len && memcmp(text, again, len) == 0;
    int rc = 0;

    if (again == NULL)
        rc = err_set(err, ERR_NOMEM, "%s: no memory", file);
    else if (!same)
        rc = err_set(err, ERR_CKPT, "%s: not as it was written", file);
    free(again);
    return rc;
}
