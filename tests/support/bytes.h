/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bytes: files for tests: hex text to bytes, scratch directories, whole files.
 *
 * Header only, included by test programs that read or write files. Fails the
 * running CMocka test when the machine does not play along.
 */
#ifndef TESTS_SUPPORT_BYTES_H
#define TESTS_SUPPORT_BYTES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES_UNUSED __attribute__((unused))

/* malloc'd: no slack behind the last byte, so that asan sees overreads. */
static BYTES_UNUSED uint8_t *
bytes_from_hex(const char *hex, size_t *n)
{
    uint8_t *bytes;

    *n = strlen(hex) / 2;
    bytes = malloc(*n > 0 ? *n : 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < *n; i++) {
        unsigned v;

        assert_int_equal(sscanf(hex + 2 * i, "%2x", &v), 1);
        bytes[i] = (uint8_t)v;
    }
    return bytes;
}

static BYTES_UNUSED void
bytes_make_dir(char path[64])
{
    snprintf(path, 64, "/tmp/traind-test-XXXXXX");
    assert_non_null(mkdtemp(path));
}

static BYTES_UNUSED void
bytes_remove_dir(const char *path)
{
    char command[128];

    assert_int_equal(strncmp(path, "/tmp/traind-test-", 17), 0);
    snprintf(command, sizeof(command), "rm -rf -- '%s'", path);
    assert_int_equal(system(command), 0);
}

static BYTES_UNUSED void
bytes_write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static BYTES_UNUSED uint8_t *
bytes_read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    uint8_t *bytes;

    assert_non_null(f);
    assert_int_equal(fstat(fileno(f), &st), 0);
    *n = (size_t)st.st_size;
    bytes = malloc(*n + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *n, f), *n);
    bytes[*n] = 0;
    fclose(f);
    return bytes;
}

static BYTES_UNUSED int
bytes_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

#endif
