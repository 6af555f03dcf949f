/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/logcap.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define PIECE 1000

static char dir[64];

static int
setup(void **ctx)
{
    (void)ctx;
    strcpy(dir, "/tmp/traind-logcap-XXXXXX");
    return mkdtemp(dir) == NULL ? -1 : 0;
}

static int
teardown(void **ctx)
{
    char command[128];

    (void)ctx;
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command);
}

static off_t
size_of(const char *file)
{
    char path[128];
    struct stat st;

    snprintf(path, sizeof(path), "%s/%s", dir, file);
    return lstat(path, &st) == 0 ? st.st_size : -1;
}

static int
open_log(void)
{
    char path[128];
    int fd;

    snprintf(path, sizeof(path), "%s/stdout", dir);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0640);
    assert_true(fd >= 0);
    return fd;
}

static void
test_logcap_small_file_stays(void **ctx)
{
    struct err err;
    int fd = open_log();

    (void)ctx;
    assert_int_equal(write(fd, "hello\n", 6), 6);
    assert_int_equal(logcap_check(dir, "stdout", PIECE, 2, &err), 0);
    assert_int_equal(size_of("stdout"), 6);
    assert_int_equal(size_of("stdout.1"), -1);
    assert_int_equal(logcap_check(dir, "stderr", PIECE, 2, &err), 0);
    close(fd);
}

static void
test_logcap_total_is_bounded(void **ctx)
{
    char block[700], text[128];
    struct err err;
    int fd = open_log();
    off_t total;

    (void)ctx;
    for (int round = 0; round < 20; round++) {
        memset(block, 'a' + round, sizeof(block));
        for (int i = 0; i < 3; i++)
            assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
        assert_int_equal(logcap_check(dir, "stdout", PIECE, 2, &err), 0);
        total = size_of("stdout") + (size_of("stdout.1") > 0 ? PIECE : 0);
        assert_true(size_of("stdout") < 200); /* a marker only */
        assert_true(total <= 2 * PIECE);
    }
    assert_int_equal(size_of("stdout.1"), PIECE);
    assert_int_equal(size_of("stdout.2"), PIECE);
    assert_int_equal(size_of("stdout.3"), -1);
    /* The writer goes on where the file now ends. */
    assert_int_equal(write(fd, "after\n", 6), 6);
    close(fd);
    snprintf(text, sizeof(text), "%s/stdout", dir);
    fd = open(text, O_RDONLY);
    assert_int_equal(read(fd, text, 1), 1);
    assert_int_equal(text[0], '[');
    close(fd);
}

static void
test_logcap_without_older_pieces(void **ctx)
{
    char block[5000];
    struct err err;
    int fd = open_log();

    (void)ctx;
    memset(block, 'x', sizeof(block));
    assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
    assert_int_equal(logcap_check(dir, "stdout", PIECE, 0, &err), 0);
    assert_true(size_of("stdout") < 200);
    assert_int_equal(size_of("stdout.1"), -1);
    close(fd);
}

static void
test_logcap_follows_no_link(void **ctx)
{
    char victim[128], link[128], block[5000];
    struct err err;
    int fd;

    (void)ctx;
    snprintf(victim, sizeof(victim), "%s/victim", dir);
    snprintf(link, sizeof(link), "%s/stdout", dir);
    fd = open(victim, O_WRONLY | O_CREAT, 0600);
    memset(block, 'x', sizeof(block));
    assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
    close(fd);
    assert_int_equal(symlink(victim, link), 0);
    assert_int_equal(logcap_check(dir, "stdout", PIECE, 1, &err), 0);
    assert_int_equal(size_of("victim"), sizeof(block));
}

static void
test_logcap_cuts_no_file_of_others(void **ctx)
{
    char path[128], other[128], block[3 * PIECE];
    struct err err;
    int fd = open_log();

    (void)ctx;
    memset(block, 'x', sizeof(block));
    assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
    close(fd);
    snprintf(path, sizeof(path), "%s/stdout", dir);
    snprintf(other, sizeof(other), "%s/precious", dir);
    assert_int_equal(link(path, other), 0);
    assert_int_equal(logcap_check(dir, "stdout", PIECE, 2, &err), ERR_IO);
    assert_int_equal(size_of("precious"), sizeof(block));
}

#define ON_STAGE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        ON_STAGE(test_logcap_small_file_stays),
        ON_STAGE(test_logcap_total_is_bounded),
        ON_STAGE(test_logcap_without_older_pieces),
        ON_STAGE(test_logcap_follows_no_link),
        ON_STAGE(test_logcap_cuts_no_file_of_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
