/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/change.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/spec_changes.h"
#include "tests/unit/spec_samples.h"

static const struct checkpoints_item at_100 = {
    .id = 7, .iteration = 100, .live = true, .good = true, .name = "it-100"};
static const struct checkpoints_item left_100 = {
    .id = 8, .iteration = 100, .good = true, .name = "it-left"};

/* A job of the minimal spec in float16. */
struct fixture {
    char *spec;
    struct store_job row;
};

static void
open_fixture(struct fixture *f)
{
    char *minimal = spec_sample_text(spec_sample_minimal);

    memset(f, 0, sizeof(*f));
    assert_int_equal(
        spec_set(minimal, strlen(minimal), "amp.dtype=float16", &f->spec, NULL),
        0);
    free(minimal);
    view_init(VIEW_ID_job, &f->row.view);
    f->row.view.id = 17;
    f->row.view.attempt = 3;
    f->row.spec = f->spec;
    f->row.changes = f->row.skip_windows = "[]";
    f->row.start_scale = (double)NAN;
}

static struct change_ask
make_ask(const struct checkpoints_item *to)
{
    return (struct change_ask){.cause = "by a person",
                               .uid = 1000,
                               .to = to,
                               .fragment = "",
                               .scale = (double)NAN};
}

/* Everything at once, and a second time on top of it. */
static void
test_change_adds_up(void **state)
{
    static const char *set[] = {"optimizer.adam.lr=0.5", "guard=off"};
    const struct spec_changes_entry none = {.uid = -1};
    struct spec_changes_entry last = none;
    struct change_ask ask = make_ask(&at_100);
    struct change one, two;
    struct fixture f;
    struct err err;
    char *text;

    (void)state;
    open_fixture(&f);
    ask.fragment = "{\"amp\": {\"fp32_regions\": [\"0\"]}}";
    ask.set = (struct view_strs){set, 1};
    ask.skip_batches = 4;
    ask.scale = 2048;
    assert_int_equal(change_make(&f.row, &ask, &one, &err), 0);
    assert_true(one.policy_changed && one.scale == 2048);
    assert_string_equal(one.difference,
                        "optimizer.adam.lr: 0.001 -> 0.5, amp.fp32_regions: [] "
                        "-> [\"0\"]");
    assert_string_equal(one.skip_windows, "[100,4]");
    assert_string_equal(one.cause, "by a person; passes over 4 windows; loss "
                                   "scale 2048");
    assert_true(spec_changes_last(one.changes, &last));
    assert_int_equal(last.attempt, 4);
    assert_int_equal(last.iteration, 100);
    assert_int_equal(last.uid, 1000);
    assert_string_equal(last.change, one.fragment);
    spec_changes_fini(&last);

    f.row.changes = one.changes;
    f.row.skip_windows = one.skip_windows;
    ask = make_ask(&at_100);
    ask.set = (struct view_strs){set + 1, 1};
    ask.skip_batches = 2;
    assert_int_equal(change_make(&f.row, &ask, &two, &err), 0);
    assert_null(strstr(two.difference, "fp32_regions")); /* of before */
    assert_string_equal(two.skip_windows, "[100,6]");
    f.row.changes = two.changes;
    assert_int_equal(change_effective(&f.row, &text, &err), 0);
    assert_non_null(strstr(text, "\"fp32_regions\": [\"0\"]"));
    assert_non_null(strstr(text, "\"guard\": \"off\""));
    assert_true(spec_changes_any(two.changes));
    free(text);
    change_fini(&one);
    change_fini(&two);
    free(f.spec);
}

/* The cure of an incident that is older than the last cure. */
static void
test_change_keeps_regions(void **state)
{
    static const char *set[] = {"amp.fp32_regions=[]"};
    struct change_ask ask = make_ask(&at_100);
    struct change one, two, three;
    struct fixture f;
    struct err err;

    (void)state;
    open_fixture(&f);
    free(f.spec);
    f.row.spec = f.spec = spec_sample_text(
        "{'data': {'train': {'format': 'idx', 'input': '/x', 'target': '/y'},"
        " 'batch_size': 8}, 'model': [{'name': 'a\\\"', 'linear':"
        " {'out_features': 2}}, {'name': 'b', 'linear': {'out_features': 2}}],"
        " 'loss': 'mse', 'optimizer': 'adam', 'amp': {'dtype': 'float16'}}");
    ask.fragment = "{\"amp\": {\"fp32_regions\": [\"a\\\"\"]}}";
    assert_int_equal(change_make(&f.row, &ask, &one, &err), 0);
    f.row.changes = one.changes;
    ask.fragment = "{\"amp\": {\"fp32_regions\": [\"b\"]}}";
    assert_int_equal(change_make(&f.row, &ask, &two, &err), 0);
    assert_string_equal(two.fragment,
                        "{\"amp\": {\"fp32_regions\": [\"b\", \"a\\\"\"]}}");
    /* A person may take them away. */
    f.row.changes = two.changes;
    ask = make_ask(&at_100);
    ask.set = (struct view_strs){set, 1};
    assert_int_equal(change_make(&f.row, &ask, &three, &err), 0);
    assert_string_equal(three.fragment, "{\"amp\": {\"fp32_regions\": []}}");
    change_fini(&one);
    change_fini(&two);
    change_fini(&three);
    free(f.spec);
}

/* What changes nothing is recorded as that, and not for ever. */
static void
test_change_nothing(void **state)
{
    static const char *set[] = {"amp.dtype=float16"};
    struct change_ask ask = make_ask(NULL);
    struct spec_changes_entry last;
    struct change change;
    char *lists[2];
    struct fixture f;
    struct err err;

    (void)state;
    open_fixture(&f);
    ask.set = (struct view_strs){set, 1};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(change_make(&f.row, &ask, &change, &err), 0);
        assert_false(change.policy_changed);
        assert_string_equal(change.difference, "");
        lists[i] = change.changes;
        f.row.changes = lists[i];
        change.changes = NULL;
        change_fini(&change);
    }
    assert_string_equal(lists[0], lists[1]);
    assert_true(spec_changes_last(lists[1], &last));
    assert_int_equal(last.iteration, 0);
    assert_string_equal(last.change, "{}");
    spec_changes_fini(&last);
    assert_false(spec_changes_any(lists[1]));
    free(lists[0]);
    free(lists[1]);
    free(f.spec);
}

/* Windows: those before the goal are of no use, the rest are kept apart or
 * joined, and each iteration stands behind all that were passed over. */
static void
test_change_windows(void **state)
{
    static const int64_t early[] = {10, 5, 98, 4, 300, 2};
    static const int64_t bad[] = {5, 0}, far[] = {INT64_MAX, 9};
    struct change_ask ask = make_ask(&at_100);
    struct change change;
    struct fixture f;
    struct err err;
    int64_t *v;
    int n;

    (void)state;
    open_fixture(&f);
    ask.windows = (struct view_i64s){early, 6};
    assert_int_equal(change_make(&f.row, &ask, &change, &err), 0);
    assert_string_equal(change.skip_windows, "[100,2,300,2]");
    change_fini(&change);

    f.row.skip_windows = "[50,10,120,1,400,3]";
    ask = make_ask(&at_100);
    ask.skip_batches = 5;
    assert_int_equal(change_make(&f.row, &ask, &change, &err), 0);
    /* 100 iterations and the 10 windows before them. */
    assert_string_equal(change.skip_windows, "[50,10,110,5,120,1,400,3]");
    change_fini(&change);
    ask.skip_batches = 10;
    assert_int_equal(change_make(&f.row, &ask, &change, &err), 0);
    assert_string_equal(change.skip_windows, "[50,10,110,11,400,3]");
    v = change_read_windows(change.skip_windows, &n);
    assert_int_equal(n, 6);
    assert_int_equal(v[3], 11);
    free(v);
    change_fini(&change);
    assert_null(change_read_windows("[]", &n));
    assert_int_equal(n, 0);

    ask.to = &left_100;
    assert_int_equal(change_make(&f.row, &ask, &change, &err), ERR_STATE);
    change_fini(&change);
    ask = make_ask(&at_100);
    ask.windows = (struct view_i64s){bad, 2};
    assert_int_equal(change_make(&f.row, &ask, &change, &err), ERR_SPEC);
    change_fini(&change);
    ask.windows = (struct view_i64s){far, 2};
    assert_int_equal(change_make(&f.row, &ask, &change, &err), ERR_SPEC);
    change_fini(&change);
    free(f.spec);
}

/* From a worker that lies, or a person who errs. */
static void
test_change_refused(void **state)
{
    static const struct {
        const char *fragment;
        double scale;
        int64_t skip;
        int rc;
    } rows[] = {
        {"no JSON", NAN, 0, ERR_SPEC},
        {"[1]", NAN, 0, ERR_SPEC},
        {"{\"data\": {\"train\": {\"input\": \"/etc/shadow\"}}}", NAN, 0,
         ERR_SPEC},
        {"{\"train\": {\"epochs\": 2}}", NAN, 0, ERR_SPEC},
        {"{\"amp\": {\"dtype\": \"float8\"}}", NAN, 0, ERR_SPEC},
        {"{\"amp\": {\"fp32_regions\": [\"nowhere\"]}}", NAN, 0, ERR_SPEC},
        {"{\"amp\": []}", NAN, 0, ERR_SPEC},
        {"{\"optimizer\": {\"sgd\": {\"lr\": 1}}}", NAN, 0, ERR_SPEC},
        {"", -1, 0, ERR_USAGE},
        {"", INFINITY, 0, ERR_USAGE},
        {"", 0x1p40, 0, ERR_USAGE},
        {"", 0.5, 0, ERR_USAGE}, /* amp.scaler.min_scale is 1 */
        {"{\"amp\": {\"scaler\": false}}", 64, 0, ERR_STATE},
        {"", NAN, -1, ERR_USAGE},
        {"", NAN, CHANGE_MAX_WINDOWS + 1, ERR_USAGE},
    };
    struct fixture f;

    (void)state;
    open_fixture(&f);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct change_ask ask = make_ask(&at_100);
        struct change change;
        struct err err = {0};

        ask.fragment = rows[i].fragment;
        ask.scale = rows[i].scale;
        ask.skip_batches = rows[i].skip;
        if (change_make(&f.row, &ask, &change, &err) != rows[i].rc)
            fail_msg("row %zu: %d, %s", i, err.code, err.msg);
        assert_string_not_equal(err.msg, "");
        change_fini(&change);
    }
    free(f.spec);
}

/* A list has an end, whoever makes it longer. */
static void
test_change_too_often(void **state)
{
    char cause[400];
    struct spec_changes_entry entry = {
        .cause = cause, .difference = "d", .change = "{}"};
    char *list = strdup("[]"), *next;
    struct err err;
    int rc = 0, n = 0;

    (void)state;
    memset(cause, 'c', sizeof(cause) - 1);
    cause[sizeof(cause) - 1] = '\0';
    while ((rc = spec_changes_add(list, &entry, &next, &err)) == 0) {
        free(list);
        list = next;
        n++;
    }
    assert_int_equal(rc, ERR_STATE);
    assert_null(next);
    assert_true(n > 100 && strlen(list) <= SPEC_CHANGES_MAX_BYTES);
    assert_int_equal(spec_changes_add("{}", &entry, &next, &err), ERR_INTERNAL);
    assert_int_equal(spec_changes_add("[", &entry, &next, &err), ERR_INTERNAL);
    cause[0] = '\xff';
    assert_int_equal(spec_changes_add("", &entry, &next, &err), ERR_SPEC);
    free(list);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_change_adds_up),
        cmocka_unit_test(test_change_keeps_regions),
        cmocka_unit_test(test_change_nothing),
        cmocka_unit_test(test_change_windows),
        cmocka_unit_test(test_change_refused),
        cmocka_unit_test(test_change_too_often),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
