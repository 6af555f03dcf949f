/* SPDX-License-Identifier: Apache-2.0 */
/* Records of event files, byte for byte as another encoder wrote them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ctl/tfevents.h"

static void
assert_bytes(const struct tfevents *t, const char *hex)
{
    char text[1024] = "";

    assert_false(t->failed);
    assert_true(2 * t->len < sizeof(text));
    for (size_t i = 0; i < t->len; i++)
        snprintf(text + 2 * i, 3, "%02x", t->bytes[i]);
    assert_string_equal(text, hex);
}

static void
test_tfevents_crc(void **state)
{
    (void)state;
    assert_int_equal(tfevents_crc("123456789", 9), 0xe3069283u);
    assert_int_equal(tfevents_crc("", 0), 0);
}

static void
test_tfevents_golden(void **state)
{
    const struct tfevents_scalar loss = {"loss", 0.5f};
    struct tfevents t = {0};

    (void)state;
    tfevents_put_version(&t, 1.0);
    assert_bytes(&t, "1800000000000000a37f4b2209000000000000f03f1a0d627261696e"
                     "2e4576656e743a3286bf577a");
    tfevents_fini(&t);
    tfevents_put_scalars(&t, 2.0, 300, &loss, 1);
    assert_bytes(&t, "1b000000000000001a0d9e1309000000000000004010ac022a0d0a0b"
                     "0a046c6f7373150000003fdfc52b60");
    tfevents_fini(&t);
}

/* Lengths of two bytes, several values, and what is not finite. */
static void
test_tfevents_scalars(void **state)
{
    char tag[131];
    struct tfevents_scalar s[2] = {{tag, NAN}, {"b", -INFINITY}};
    struct tfevents t = {0};
    const unsigned char *at;

    (void)state;
    memset(tag, 'a', 130);
    tag[130] = '\0';
    tfevents_put_scalars(&t, 0.0, 0, s, 2);
    /* Wall time; no step; the summary's length in two bytes. */
    at = t.bytes + 12 + 9;
    assert_memory_equal(at, "\x2a\x97\x01", 3);
    assert_memory_equal(at + 3,
                        "\x0a\x8a\x01\x0a\x82\x01"
                        "aaa",
                        9);
    assert_memory_equal(at + 139, "\x15\x00\x00\xc0\x7f", 5);
    assert_memory_equal(at + 144,
                        "\x0a\x08\x0a\x01"
                        "b\x15\x00\x00\x80\xff",
                        10);
    assert_int_equal(t.len, 12 + 9 + 144 + 10 + 4);
    tfevents_fini(&t);
}

static void
test_tfevents_start(void **state)
{
    struct tfevents t = {0};

    (void)state;
    tfevents_put_start(&t, 0.0, 51);
    assert_memory_equal(t.bytes + 12 + 9, "\x10\x33\x3a\x02\x08\x01", 6);
    assert_int_equal(t.len, 12 + 9 + 6 + 4);
    tfevents_fini(&t);
}

/* A disk that fills up leaves the records that were there. */
static void
test_tfevents_write_is_whole(void **state)
{
    const struct tfevents_scalar loss = {"loss", 0.5f};
    const struct rlimit small = {64, RLIM_INFINITY};
    struct rlimit before;
    struct tfevents t = {0};
    struct err err = {0};
    char path[] = "/tmp/tfevents-test-XXXXXX";
    const int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    tfevents_put_version(&t, 1.0);
    assert_int_equal(tfevents_write(&t, fd, path, &err), 0);
    assert_int_equal(t.len, 0);
    const off_t end = lseek(fd, 0, SEEK_END);
    assert_int_equal(end, 40);

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    tfevents_put_scalars(&t, 2.0, 300, &loss, 1);
    assert_int_equal(tfevents_write(&t, fd, path, &err), ERR_IO);
    assert_non_null(strstr(err.msg, path));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(lseek(fd, 0, SEEK_END), end);
    close(fd);
    unlink(path);
    tfevents_fini(&t);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tfevents_crc),
        cmocka_unit_test(test_tfevents_golden),
        cmocka_unit_test(test_tfevents_scalars),
        cmocka_unit_test(test_tfevents_start),
        cmocka_unit_test(test_tfevents_write_is_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
