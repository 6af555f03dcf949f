/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/spec_samples.h"

/* All with ' for ". */
static void
test_spec_set(void **state)
{
    static const struct {
        const char *before, *assignment, *after;
    } rows[] = {
        {"{'a': 1}", "a=2", "{'a': 2}"},
        {"{'a': 1}", "a= 2 ", "{'a':  2 }"},
        {"{'a': 1}", "a=two", "{'a': 'two'}"},
        {"{'a': 1}", "a=", "{'a': ''}"},
        {"{'a': 1}", "a=x=y", "{'a': 'x=y'}"},
        {"{'a': 1}", "a='q'", "{'a': 'q'}"},
        {"{'a': 1}", "a=true", "{'a': true}"},
        {"{'a': 1}", "a=1e-3", "{'a': 1e-3}"},
        {"{'a': 1}", "a=NaN", "{'a': 'NaN'}"},
        {"{'a': 1}", "a={'b': [1]}", "{'a': {'b': [1]}}"},
        {"{'a': 1}", "b=2", "{'a': 1, 'b': 2}"},
        {"{}", "b=2", "{'b': 2}"},
        {"{\n}", "b.c.d=2", "{'b': {'c': {'d': 2}}\n}"},
        {"{'a': {'b': 1},\n 'c': 2}", "a.d.e=3",
         "{'a': {'b': 1, 'd': {'e': 3}},\n 'c': 2}"},
        {"{'a': {'b': 1}}", "a={}", "{'a': {}}"},
        {"{'m': [1, {'p': 2}, 3]}", "m[1].p=5", "{'m': [1, {'p': 5}, 3]}"},
        {"{'m': [1, {'p': 2}, 3]}", "m.1.p=5", "{'m': [1, {'p': 5}, 3]}"},
        {"{'m': [[1, 2], 3]}", "m[0][1]=5", "{'m': [[1, 5], 3]}"},
        {"{'loss': 'mse'}", "loss.mse.x=1", "{'loss': {'mse': {'x': 1}}}"},
        {"{'o': 'adam'}", "o.adam={}", "{'o': {'adam': {}}}"},
        {"{'v': null}", "v.input=x", "{'v': {'input': 'x'}}"},
        {"{'\\u0061': 1}", "a=2", "{'\\u0061': 2}"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *before = spec_sample_text(rows[i].before);
        char *assignment = spec_sample_text(rows[i].assignment);
        char *after = spec_sample_text(rows[i].after);
        struct err err = {0};
        char *out;

        if (spec_set(before, strlen(before), assignment, &out, &err) != 0)
            fail_msg("%s: %s", rows[i].assignment, err.msg);
        assert_string_equal(out, after);
        free(before);
        free(assignment);
        free(after);
        free(out);
    }
}

static void
test_spec_set_refused(void **state)
{
    static const struct {
        const char *before, *assignment, *sentence;
        int rc;
    } rows[] = {
        {"{}", "a", "\"a\" is not of the form path=value", ERR_USAGE},
        {"{}", "=1",
         "\"\" is no path of a key, such as train.epochs or "
         "model[2].dropout.p",
         ERR_USAGE},
        {"{}", "a..b=1",
         "\"a..b\" is no path of a key, such as train.epochs or "
         "model[2].dropout.p",
         ERR_USAGE},
        {"{}", "a[=1",
         "\"a[\" is no path of a key, such as train.epochs or "
         "model[2].dropout.p",
         ERR_USAGE},
        {"{}", "a[1]b=1",
         "\"a[1]b\" is no path of a key, such as train.epochs or "
         "model[2].dropout.p",
         ERR_USAGE},
        {"{\"a\": [1, 2]}", "a[2]=1", "a has 2 elements, the last is 1",
         ERR_USAGE},
        {"{\"a\": [1, 2]}", "a.x=1",
         "a is a list of 2; \"x\" is no position "
         "in it",
         ERR_USAGE},
        {"{\"a\": 1}", "a.b=1", "a is no object, it has no key \"b\"",
         ERR_USAGE},
        {"{\"a\": 1}", "a={b",
         "the value is no JSON: column 2: string or '}' expected near 'b'",
         ERR_USAGE},
        {"{\"a\": 1}", "a=\xff", "\"a=?\" is not of the form path=value",
         ERR_USAGE},
        {"{\"a\": 1", "a=2", "1:7: '}' expected near end of file", ERR_SPEC},
        {"[1]", "0=2", "the spec is a list, not an object", ERR_SPEC},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err err;
        char *out;

        assert_int_equal(spec_set(rows[i].before, strlen(rows[i].before),
                                  rows[i].assignment, &out, &err),
                         rows[i].rc);
        assert_null(out);
        assert_string_equal(err.msg, rows[i].sentence);
    }
}

/* Lines of what was not touched stay where they were. */
static void
test_spec_set_keeps_places(void **state)
{
    char *text = spec_sample_text("{\n 'model': ['relu'],\n 'seed': -1\n}");
    struct spec_faults faults;
    struct spec *spec;
    char *out;
    int lines = 0;

    (void)state;
    assert_int_equal(
        spec_set(text, strlen(text), "amp.dtype=float16", &out, NULL), 0);
    assert_int_equal(spec_parse(out, strlen(out), &spec, &faults), ERR_SPEC);
    for (int i = 0; i < faults.n; i++)
        if (strcmp(faults.list[i].path, "seed") == 0)
            lines = faults.list[i].line;
    assert_int_equal(lines, 3);
    spec_faults_fini(&faults);
    free(out);
    free(text);
}

/* Through the parser: what a person would type. */
static void
test_spec_set_then_parse(void **state)
{
    static const char *const typed[] = {
        "name=my job",
        "amp.dtype=float16",
        "amp.scaler.init_scale=1024",
        "model[0].linear.out_features=7",
        "optimizer.adam.lr=0.5",
        "train.epochs=3",
    };
    char *text = spec_sample_text(spec_sample_minimal);
    struct spec *s;

    (void)state;
    for (size_t i = 0; i < sizeof(typed) / sizeof(typed[0]); i++) {
        char *next;

        assert_int_equal(spec_set(text, strlen(text), typed[i], &next, NULL),
                         0);
        free(text);
        text = next;
    }
    s = spec_sample_parse(text);
    assert_string_equal(s->name, "my job");
    assert_int_equal(s->amp.dtype, DTYPE_F16);
    assert_true(s->amp.scaler.init_scale == 1024);
    assert_int_equal(s->model[0].u.linear.out_features, 7);
    assert_true(s->optim[0].group->lr == 0.5);
    assert_int_equal(s->train.epochs, 3);
    spec_destroy(&s);
    free(text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec_set),
        cmocka_unit_test(test_spec_set_refused),
        cmocka_unit_test(test_spec_set_keeps_places),
        cmocka_unit_test(test_spec_set_then_parse),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
