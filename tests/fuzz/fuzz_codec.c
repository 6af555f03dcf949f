/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a frame's payload, read as the daemon, the worker and the
 * client would; and as a stream from the daemon into a client that has asked
 * for something.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/client.h"
#include "proto/frame.h"

#define MAX_VIEW_BYTES 1024

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a view reads as, it writes; and that reads as the same. */
static void
check_view(struct codec_doc *doc, int i, enum view_id id)
{
    _Alignas(16) char view[MAX_VIEW_BYTES], again[MAX_VIEW_BYTES];
    struct codec_doc *doc2;
    char *first, *second;

    assert(view_table[id].size_bytes <= MAX_VIEW_BYTES);
    if (codec_read(doc, i, id, view, NULL) != 0)
        return;
    first = codec_write_view(id, view, i % 3, NULL);
    assert(first != NULL);
    assert(codec_read_view(first, strlen(first), id, again, &doc2, NULL) == 0);
    second = codec_write_view(id, again, i % 3, NULL);
    assert(second != NULL && strcmp(first, second) == 0);
    free(first);
    free(second);
    codec_doc_close(&doc2);
}

static void
open_frame(const char *text, size_t len)
{
    struct codec_envelope e;
    struct codec_doc *doc;
    struct view_fault fault;
    struct err err;
    int rc = codec_open(text, len, &e, &doc, &err);

    assert(rc == 0 || rc == ERR_PROTO);
    assert((rc == 0) == (doc != NULL));
    assert(e.id >= 0);
    if (rc != 0)
        return;
    switch (e.kind) {
    case CODEC_HELLO: check_view(doc, 0, VIEW_ID_hello); break;
    case CODEC_REQUEST:
    case CODEC_ONE_WAY:
        check_view(doc, 0, message_table[e.message].request);
        break;
    case CODEC_REPLY:
        for (int i = 0; i < e.n_items && i < 10; i++)
            for (int v = 0; v < VIEW_ID_COUNT; v++)
                check_view(doc, i, (enum view_id)v);
        break;
    case CODEC_NOTICE: check_view(doc, 0, VIEW_ID_notice); break;
    case CODEC_REFUSAL:
        assert(e.error.code < 0);
        for (int i = 0; i < codec_n_faults(doc); i++)
            codec_read_fault(doc, i, &fault);
        break;
    case CODEC_CREDIT: assert(e.credit > 0); break;
    }
    codec_doc_close(&doc);
}

/* Frames of one line each. */
static void
converse(const char *text, size_t len)
{
    struct client *c = client_create();
    struct view_follow args = {.job = "1"};
    uint8_t header[FRAME_HEADER_BYTES];
    _Alignas(16) char view[MAX_VIEW_BYTES];
    int rc = 0;

    assert(c != NULL);
    assert(client_ask(c, MESSAGE_ID_follow, &args, NULL) == 0);
    while (len > 0 && rc == 0) {
        const char *end = memchr(text, '\n', len);
        size_t n = end != NULL ? (size_t)(end - text) : len;

        if (n > 0) {
            frame_write_header(header, n);
            rc = client_feed(c, header, sizeof(header), NULL);
            if (rc == 0)
                rc = client_feed(c, text, n, NULL);
        }
        n += end != NULL;
        text += n;
        len -= n;
    }
    for (;;) {
        enum client_news news = client_poll(c);

        if (news == CLIENT_NOTHING)
            break;
        if (news == CLIENT_NOTICE || news == CLIENT_REPLY)
            client_read(c, 0, view, NULL);
        if (news == CLIENT_REFUSAL && client_n_faults(c) > 0)
            client_read_fault(c, 0, (struct view_fault *)view);
        assert(client_hello(c) != NULL);
    }
    client_destroy(&c);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *end = size > 0 ? memchr(text, '\n', size) : NULL;

    open_frame(text, end != NULL ? (size_t)(end - text) : size);
    converse(text, size);
    return 0;
}
