/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/program.h"

#define LARGE (1024 * 1024)

struct heard {
    char *bytes; /* LARGE of them */
    size_t n, most;
};

static int
hear(void *ctx, const char *bytes, size_t n, struct err *err)
{
    struct heard *h = ctx;

    if (h->n + n > h->most)
        return err_set(err, ERR_IO, "enough");
    memcpy(h->bytes + h->n, bytes, n);
    h->n += n;
    return 0;
}

static int
run_shell(const char *script, const char *input, size_t n, struct heard *h,
          struct err *err)
{
    char text[256];
    char *const argv[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, text, NULL};

    strcpy(text, script);
    h->n = 0;
    err_clear(err);
    return program_run(argv, input, n, hear, h, err);
}

/* More than a pipe holds in both directions at once. */
static void
test_program_talks_both_ways(void **state)
{
    struct heard h = {malloc(LARGE), 0, LARGE};
    char *input = malloc(LARGE);
    struct err err;

    (void)state;
    for (int i = 0; i < LARGE; i++)
        input[i] = (char)(i * 31 >> 3);
    assert_int_equal(run_shell("cat", input, LARGE, &h, &err), 0);
    assert_int_equal(h.n, LARGE);
    assert_memory_equal(h.bytes, input, LARGE);
    free(input);
    free(h.bytes);
}

static void
test_program_tells_how_it_ended(void **state)
{
    char bytes[64];
    struct heard h = {bytes, 0, sizeof(bytes)};
    struct err err;

    (void)state;
    assert_int_equal(run_shell("exit 7", "", 0, &h, &err), 7);
    assert_int_equal(run_shell("kill -9 $$", "", 0, &h, &err), 128 + 9);
    /* It does not read what it is given. */
    assert_int_equal(
        run_shell("exec <&-; echo ok; exit 3", "12345", 5, &h, &err), 3);
    assert_int_equal(h.n, 3);
}

static void
test_program_is_ended_with_the_reader(void **state)
{
    char bytes[64];
    struct heard h = {bytes, 0, 10};
    struct err err;

    (void)state;
    assert_int_equal(run_shell("while :; do echo word; done", "", 0, &h, &err),
                     ERR_IO);
    assert_string_equal(err.msg, "enough");
}

static void
test_program_find(void **state)
{
    char path[PATH_MAX];
    struct err err;

    (void)state;
    err_clear(&err);
    assert_int_equal(program_find("traind-none", path, sizeof(path), &err),
                     ERR_CONFIG);
    assert_non_null(strstr(err.msg, "traind-none is neither in "));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_program_talks_both_ways),
        cmocka_unit_test(test_program_tells_how_it_ended),
        cmocka_unit_test(test_program_is_ended_with_the_reader),
        cmocka_unit_test(test_program_find),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
