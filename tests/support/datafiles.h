/* SPDX-License-Identifier: Apache-2.0 */
/*
 * datafiles: a directory of a test's own with files for a data set in it.
 *
 * Header only, included by CMocka programs. DATAFILES_TEST() names a test whose
 * state is a struct datafiles, made before it and removed after it.
 */
#ifndef TESTS_SUPPORT_DATAFILES_H
#define TESTS_SUPPORT_DATAFILES_H

#include "proto/err.h"
#include "tests/support/bytes.h"

/* Files "x", "t" and "m" in it, absolute. */
struct datafiles {
    char dir[64], x[96], t[96], m[96];
};

static BYTES_UNUSED int
datafiles_make(void **state)
{
    struct datafiles *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    bytes_make_dir(p->dir);
    snprintf(p->x, sizeof(p->x), "%s/x", p->dir);
    snprintf(p->t, sizeof(p->t), "%s/t", p->dir);
    snprintf(p->m, sizeof(p->m), "%s/m", p->dir);
    *state = p;
    return 0;
}

static BYTES_UNUSED int
datafiles_remove(void **state)
{
    struct datafiles *p = *state;

    bytes_remove_dir(p->dir);
    free(p);
    return 0;
}

static BYTES_UNUSED void
datafiles_write_npy(const char *path, const char *descr, const char *shape,
                    const void *data, size_t n_data)
{
    char dict[160];
    uint8_t bytes[4096];
    size_t n;

    snprintf(dict, sizeof(dict),
             "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", descr,
             shape);
    n = strlen(dict);
    assert_true(10 + n + n_data <= sizeof(bytes));
    memcpy(bytes, "\x93NUMPY\x01\0", 8);
    bytes[8] = (uint8_t)n;
    bytes[9] = 0;
    memcpy(bytes + 10, dict, n);
    memcpy(bytes + 10 + n, data, n_data);
    bytes_write_file(path, bytes, 10 + n + n_data);
}

static BYTES_UNUSED void
datafiles_write_hex(const char *path, const char *hex)
{
    size_t n;
    uint8_t *bytes = bytes_from_hex(hex, &n);

    bytes_write_file(path, bytes, n);
    free(bytes);
}

/* Sentences start with the path; compare what follows. */
static BYTES_UNUSED void
datafiles_check_sentence(const struct err *err, const char *path,
                         const char *sentence)
{
    const size_t n = strlen(path);

    assert_int_equal(strncmp(err->msg, path, n), 0);
    assert_string_equal(err->msg + n, sentence);
}

#define DATAFILES_TEST(f)                                                      \
    cmocka_unit_test_setup_teardown(f, datafiles_make, datafiles_remove)

#endif
