/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a line of events.jsonl: an event or an error, and an event
 * written again is the same line twice.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct event event, again;
    struct codec_doc *doc, *doc2;
    struct err err;
    char *first, *second;
    int rc = codec_read_event((const char *)data, size, &event, &doc, &err);

    assert(rc == 0 || rc == ERR_PROTO);
    if (rc != 0) {
        assert(doc == NULL && err.code == rc && err.msg[0] != '\0');
        return 0;
    }
    first = codec_write_event(&event, NULL);
    assert(first != NULL && strchr(first, '\n') == NULL);
    assert(codec_read_event(first, strlen(first), &again, &doc2, &err) == 0);
    second = codec_write_event(&again, NULL);
    assert(second != NULL && strcmp(first, second) == 0);
    free(first);
    free(second);
    codec_doc_close(&doc);
    codec_doc_close(&doc2);
    return 0;
}
