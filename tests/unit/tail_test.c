/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/tail.h"

static char path[] = "/tmp/tail-test-XXXXXX";

static void
write_text(const char *text, const char *mode)
{
    FILE *f = fopen(path, mode);

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    fclose(f);
}

/* What is shown when beginning `lines` before the end. */
static void
assert_tail(int64_t lines, const char *wanted)
{
    struct tail tail;
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    assert_non_null(f);
    assert_int_equal(tail_open(&tail, path, lines, NULL), 0);
    assert_int_equal(tail_copy(&tail, f, NULL), 0);
    tail_close(&tail);
    fclose(f);
    assert_string_equal(text, wanted);
    free(text);
}

static void
test_tail_lines(void **state)
{
    (void)state;
    write_text("one\ntwo\nthree\n", "w");
    assert_tail(-1, "one\ntwo\nthree\n");
    assert_tail(0, "");
    assert_tail(1, "three\n");
    assert_tail(2, "two\nthree\n");
    assert_tail(9, "one\ntwo\nthree\n");
    write_text("one\ntwo", "w");
    assert_tail(1, "two");
    write_text("\n\n\n", "w");
    assert_tail(2, "\n\n");
    write_text("", "w");
    assert_tail(3, "");
}

/* Longer than what is read at once; the wanted line feed stands on a border. */
static void
test_tail_long_lines(void **state)
{
    size_t n = 65536 + 10;
    char *text = malloc(n + 1);

    (void)state;
    assert_non_null(text);
    memset(text, 'x', n);
    text[n] = '\0';
    text[n - 65536 - 1] = '\n';
    write_text(text, "w");
    assert_tail(1, text + n - 65536);
    text[n - 65536] = '\n';
    write_text(text, "w");
    assert_tail(1, text + n - 65535);
    assert_tail(2, text + n - 65536);
    free(text);
}

static void
test_tail_grows(void **state)
{
    struct tail tail = {-1};
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    (void)state;
    unlink(path);
    assert_int_equal(tail_open(&tail, path, 1, NULL), 0); /* not there yet */
    assert_int_equal(tail.fd, -1);
    assert_int_equal(tail_copy(&tail, f, NULL), 0);
    write_text("a\n", "w");
    assert_int_equal(tail_open(&tail, path, -1, NULL), 0);
    assert_int_equal(tail_copy(&tail, f, NULL), 0);
    write_text("b\nc", "a");
    assert_int_equal(tail_copy(&tail, f, NULL), 0);
    tail_close(&tail);
    fclose(f);
    assert_string_equal(text, "a\nb\nc");
    free(text);
}

static void
test_tail_wants_a_file(void **state)
{
    struct tail tail;
    struct err err = {0};

    (void)state;
    assert_int_equal(tail_open(&tail, "/tmp", -1, &err), ERR_IO);
    assert_string_equal(err.msg, "/tmp: not a regular file");
    assert_int_equal(tail.fd, -1);
}

static int
setup(void **state)
{
    int fd = mkstemp(path);

    (void)state;
    return fd < 0 ? -1 : close(fd);
}

static int
teardown(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tail_lines),
        cmocka_unit_test(test_tail_long_lines),
        cmocka_unit_test(test_tail_grows),
        cmocka_unit_test(test_tail_wants_a_file),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
