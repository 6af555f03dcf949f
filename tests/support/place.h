/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place: a scratch directory with checkpoints in it, and two states.
 *
 * Header only, for the tests of checkpoints: one state is saved, the other is
 * loaded into. Fails the running CMocka test when an expectation is not met.
 */
#ifndef TESTS_SUPPORT_PLACE_H
#define TESTS_SUPPORT_PLACE_H

#include "tests/support/bytes.h"
#include "tests/support/model_state.h"

#include <dirent.h>

#include "engine/run/ckpt.h"

#define PLACE_UNUSED __attribute__((unused))

#define NAME_100 "it000000100-a1"
#define NAME_200 "it000000200-a1"
#define POLICY   "{\"dtype\": \"float16\", \"ops\": \"\xc3\xa4\"}"

/* Every test has a scratch directory; checkpoints go to "ckpt" in it. */
struct place {
    char dir[64], ckpt[128];
    struct state *state; /* being saved */
    struct state *other; /* being loaded */
    struct ckpt_write_args args;
};

static PLACE_UNUSED int
make_place(void **state)
{
    struct place *p = calloc(1, sizeof(*p));

    bytes_make_dir(p->dir);
    snprintf(p->ckpt, sizeof(p->ckpt), "%s/ckpt", p->dir);
    p->state = model_state_create(2);
    p->other = model_state_create(2);
    model_state_fill(p->other, 7);
    p->args = (struct ckpt_write_args){.directory = p->ckpt,
                                       .attempt = 1,
                                       .policy = POLICY,
                                       .spec_hash = 0xfedcba9876543210u,
                                       .has_metric = true,
                                       .metric = 0.1};
    *state = p;
    return 0;
}

static PLACE_UNUSED int
remove_place(void **state)
{
    struct place *p = *state;

    bytes_remove_dir(p->dir);
    state_destroy(&p->state);
    state_destroy(&p->other);
    free(p);
    return 0;
}

static PLACE_UNUSED void
write_one(struct place *p, int number)
{
    struct ckpt_info info;
    struct err err;

    model_state_fill(p->state, number);
    assert_int_equal(ckpt_write(p->state, &p->args, &info, &err), 0);
    assert_null(info.policy);
}

static PLACE_UNUSED void
path_of(const struct place *p, const char *name, const char *file,
        char path[256])
{
    snprintf(path, 256, "%s/%s%s%s", p->ckpt, name, file[0] ? "/" : "", file);
}

/* What the directory lists, ".tmp-*" apart. */
static PLACE_UNUSED void
count_entries(const struct place *p, int *n, int *n_tmp)
{
    DIR *dir = opendir(p->ckpt);
    const struct dirent *e;

    *n = *n_tmp = 0;
    while (dir != NULL && (e = readdir(dir)) != NULL)
        if (strncmp(e->d_name, ".tmp-", 5) == 0)
            ++*n_tmp;
        else if (e->d_name[0] != '.')
            ++*n;
    if (dir != NULL)
        closedir(dir);
}

static PLACE_UNUSED void
check_entries(const struct place *p, int n, int n_tmp)
{
    int is, is_tmp;

    count_entries(p, &is, &is_tmp);
    assert_int_equal(is, n);
    assert_int_equal(is_tmp, n_tmp);
}

/* The checkpoint is refused with this sentence, and nothing was taken over. */
static PLACE_UNUSED void
check_refused(struct place *p, const char *name, int code, const char *sentence)
{
    struct state *before = model_state_create(2);
    struct ckpt_info info;
    struct err err;

    model_state_fill(before, 7);
    model_state_fill(p->other, 7);
    err_clear(&err);
    assert_int_equal(ckpt_verify(p->ckpt, name, &info, &err), code);
    assert_non_null(strstr(err.msg, sentence));
    assert_int_equal(strncmp(err.msg, name, strlen(name)), 0);
    assert_null(info.policy);
    assert_int_equal(ckpt_read(p->ckpt, name, p->other, &info, &err), code);
    assert_true(model_state_equal(p->other, before));
    state_destroy(&before);
}

static PLACE_UNUSED void
check_reads(struct place *p, const char *name, int number)
{
    struct ckpt_info info;
    struct err err;

    model_state_fill(p->state, number);
    model_state_fill(p->other, 7);
    assert_int_equal(ckpt_verify(p->ckpt, name, &info, &err), 0);
    ckpt_info_fini(&info);
    assert_int_equal(ckpt_read(p->ckpt, name, p->other, &info, &err), 0);
    assert_true(model_state_equal(p->other, p->state));
    ckpt_info_fini(&info);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_place, remove_place)

#endif
