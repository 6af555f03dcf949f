/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any stream, cut anywhere: the reader gives the same frames as when it gets
 * the stream whole, and breaks at the same place. The first byte says how to
 * cut.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proto/frame.h"

#define MAX_BYTES 300

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A sum over all frames that came out. */
struct sum {
    uint64_t hash;
    int n;
    int rc;
};

static void
drain(struct frame_reader *r, struct sum *sum)
{
    const char *payload;
    size_t len;

    while ((payload = frame_reader_next(r, &len)) != NULL) {
        assert(len > 0 && len <= MAX_BYTES);
        assert(payload[len] == '\0');
        for (size_t i = 0; i < len; i++)
            sum->hash = sum->hash * 1099511628211u + (uint8_t)payload[i];
        sum->hash = sum->hash * 31 + len;
        sum->n++;
    }
    assert(len == 0);
}

static struct sum
feed(const uint8_t *data, size_t size, size_t piece)
{
    struct frame_reader *r = frame_reader_create(MAX_BYTES);
    struct sum sum = {0, 0, 0};

    assert(r != NULL);
    for (size_t at = 0; at < size && sum.rc == 0; at += piece) {
        size_t n = size - at < piece ? size - at : piece;

        sum.rc = frame_reader_feed(r, data + at, n, NULL);
        assert(sum.rc == 0 || sum.rc == ERR_PROTO);
        drain(r, &sum);
    }
    if (sum.rc != 0)
        assert(frame_reader_feed(r, data, size, NULL) == ERR_PROTO);
    frame_reader_destroy(&r);
    return sum;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sum whole, pieces;

    if (size < 2)
        return 0;
    whole = feed(data + 1, size - 1, size);
    pieces = feed(data + 1, size - 1, (size_t)data[0] % 32 + 1);
    assert(memcmp(&whole.hash, &pieces.hash, sizeof(whole.hash)) == 0);
    assert(whole.n == pieces.n && whole.rc == pieces.rc);
    return 0;
}
