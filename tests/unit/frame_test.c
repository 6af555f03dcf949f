/* SPDX-License-Identifier: Apache-2.0 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/frame.h"

#define MAX 1000

/* Appends a frame to a stream. */
static size_t
put(uint8_t *stream, size_t at, const char *payload, size_t n)
{
    frame_write_header(stream + at, n);
    memcpy(stream + at + FRAME_HEADER_BYTES, payload, n);
    return at + FRAME_HEADER_BYTES + n;
}

static void
expect(struct frame_reader *r, const char *payload, size_t n)
{
    size_t len = 99;
    const char *p = frame_reader_next(r, &len);

    if (payload == NULL) {
        assert_null(p);
        assert_int_equal(len, 0);
        return;
    }
    assert_non_null(p);
    assert_int_equal(len, n);
    assert_memory_equal(p, payload, n);
    assert_int_equal(p[n], '\0');
}

static void
test_frame_header(void **state)
{
    uint8_t header[FRAME_HEADER_BYTES];

    (void)state;
    frame_write_header(header, 0x010203);
    assert_memory_equal(header, "\0\1\2\3", 4);
    frame_write_header(header, FRAME_MAX_BYTES);
    assert_memory_equal(header, "\0\x80\0\0", 4);
}

/* Three frames, cut in two at every byte, and fed byte by byte. */
static void
test_frame_split(void **state)
{
    uint8_t stream[100];
    size_t n = put(stream, 0, "{}", 2);

    (void)state;
    n = put(stream, n, "\0\0\0\1\xff", 5);
    n = put(stream, n, "x", 1);
    for (size_t cut = 0; cut <= n; cut++) {
        struct frame_reader *r = frame_reader_create(MAX);
        size_t got = 0;

        for (int part = 0; part < 2; part++) {
            const uint8_t *at = part == 0 ? stream : stream + cut;
            size_t size = part == 0 ? cut : n - cut, len;

            assert_int_equal(frame_reader_feed(r, at, size, NULL), 0);
            while (frame_reader_next(r, &len) != NULL)
                got += len;
        }
        assert_int_equal(got, 8);
        frame_reader_destroy(&r);
        assert_null(r);
    }
}

static void
test_frame_byte_by_byte(void **state)
{
    uint8_t stream[100];
    size_t n = put(stream, 0, "{}", 2);
    struct frame_reader *r = frame_reader_create(MAX);

    (void)state;
    n = put(stream, n, "\0\0\0\1\xff", 5);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(frame_reader_feed(r, stream + i, 1, NULL), 0);
        if (i == 5)
            expect(r, "{}", 2);
        else if (i + 1 == n)
            expect(r, "\0\0\0\1\xff", 5);
        else
            expect(r, NULL, 0);
    }
    expect(r, NULL, 0);
    frame_reader_destroy(&r);
}

/* The NUL behind a payload may not eat the header of the next frame. */
static void
test_frame_several(void **state)
{
    uint8_t stream[100];
    size_t n = 0;
    struct frame_reader *r = frame_reader_create(MAX);

    (void)state;
    for (int i = 0; i < 10; i++)
        n = put(stream, n, "abc", 3);
    assert_int_equal(frame_reader_feed(r, stream, n, NULL), 0);
    for (int i = 0; i < 5; i++)
        expect(r, "abc", 3);
    assert_int_equal(frame_reader_feed(r, stream, n, NULL), 0);
    for (int i = 0; i < 15; i++)
        expect(r, "abc", 3);
    expect(r, NULL, 0);
    frame_reader_destroy(&r);
}

static void
check_refused(const uint8_t header[4], const char *sentence)
{
    struct frame_reader *r = frame_reader_create(MAX);
    uint8_t stream[100];
    size_t n = put(stream, 0, "good", 4);
    struct err err;

    memcpy(stream + n, header, 4);
    assert_int_equal(frame_reader_feed(r, stream, n + 4, &err), ERR_PROTO);
    assert_string_equal(err.msg, sentence);
    expect(r, "good", 4); /* what came before still counts */
    expect(r, NULL, 0);
    /* Nothing later counts any more. */
    assert_int_equal(frame_reader_feed(r, stream, n, &err), ERR_PROTO);
    assert_string_equal(err.msg, sentence);
    expect(r, NULL, 0);
    frame_reader_destroy(&r);
}

static void
test_frame_bad_length(void **state)
{
    static const uint8_t zero[4] = {0, 0, 0, 0}, high[4] = {0, 0, 3, 0xe9},
                         huge[4] = {0xff, 0xff, 0xff, 0xff},
                         text[4] = {'G', 'E', 'T', ' '};
    static const uint8_t top[4] = {0, 0, 3, 0xe8};
    struct frame_reader *r = frame_reader_create(MAX);

    (void)state;
    check_refused(zero, "frame of length 0");
    check_refused(high, "frame of 1001 bytes, at most 1000 are accepted");
    check_refused(huge, "frame of 4294967295 bytes, at most 1000 are accepted");
    check_refused(text, "frame of 1195725856 bytes, at most 1000 are accepted");
    assert_int_equal(frame_reader_feed(r, top, 4, NULL), 0);
    frame_reader_destroy(&r);
}

/* Announcing much costs the one who announces, not us. */
static void
test_frame_no_allocation_ahead(void **state)
{
    struct frame_reader *r = frame_reader_create(FRAME_MAX_BYTES);
    uint8_t header[FRAME_HEADER_BYTES];
    size_t before, after;

    (void)state;
    frame_write_header(header, FRAME_MAX_BYTES);
    before = mallinfo2().uordblks + mallinfo2().hblkhd;
    assert_int_equal(frame_reader_feed(r, header, 4, NULL), 0);
    after = mallinfo2().uordblks + mallinfo2().hblkhd;
    if (!TRAIND_SANITIZED)
        assert_true(after - before < 16 * 1024);
    frame_reader_destroy(&r);
}

static void
test_frame_largest(void **state)
{
    struct frame_reader *r = frame_reader_create(FRAME_MAX_BYTES);
    char *payload = malloc(FRAME_MAX_BYTES);
    uint8_t header[FRAME_HEADER_BYTES];

    (void)state;
    memset(payload, 'x', FRAME_MAX_BYTES);
    frame_write_header(header, FRAME_MAX_BYTES);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(frame_reader_feed(r, header, 4, NULL), 0);
        for (size_t at = 0; at < FRAME_MAX_BYTES; at += 65536)
            assert_int_equal(frame_reader_feed(r, payload + at, 65536, NULL),
                             0);
        expect(r, payload, FRAME_MAX_BYTES);
        expect(r, NULL, 0);
    }
    free(payload);
    frame_reader_destroy(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frame_header),
        cmocka_unit_test(test_frame_split),
        cmocka_unit_test(test_frame_byte_by_byte),
        cmocka_unit_test(test_frame_several),
        cmocka_unit_test(test_frame_bad_length),
        cmocka_unit_test(test_frame_no_allocation_ahead),
        cmocka_unit_test(test_frame_largest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
