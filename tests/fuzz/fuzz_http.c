/* SPDX-License-Identifier: Apache-2.0 */
/* Request targets and the arguments in them: nothing decoded holds a control
 * character, a slash or a dot that leads elsewhere. */
#include "daemon/http_args.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "proto/utf8.h"

static void
check_text(const char *s)
{
    size_t n = strlen(s);

    assert(utf8_valid(s, n));
    for (size_t i = 0; i < n; i++)
        assert((unsigned char)s[i] >= 0x20 && s[i] != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct http_uri uri;
    struct view_query query;
    struct view_rollback rollback;
    char *target = malloc(size + 1);
    struct err err;

    assert(target != NULL);
    memcpy(target, data, size);
    target[size] = '\0';
    if (http_uri_parse(target, &uri, &err) == 0) {
        for (int i = 0; i < uri.n_segments; i++) {
            check_text(uri.segment[i]);
            assert(uri.segment[i][0] != '\0' && uri.segment[i][0] != '.' &&
                   strchr(uri.segment[i], '/') == NULL);
        }
        for (int i = 0; i < uri.n_pairs; i++) {
            check_text(uri.pair[i].key);
            check_text(uri.pair[i].value);
            assert(http_uri_find(&uri, uri.pair[i].key) == uri.pair[i].value);
        }
        view_init(VIEW_ID_query, &query);
        http_args_query(&uri, VIEW_ID_query, NULL, &query, &err);
        view_init(VIEW_ID_rollback, &rollback);
        http_args_query(&uri, VIEW_ID_rollback, NULL, &rollback, &err);
    } else {
        assert(err.code < 0 && err.msg[0] != '\0');
    }
    free(target);
    return 0;
}
