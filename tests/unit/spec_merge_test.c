/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/spec_merge.h"
#include "tests/unit/spec_samples.h"

/* All with ' for ". */
static void
test_spec_merge(void **state)
{
    static const struct {
        const char *before, *fragment, *after;
    } rows[] = {
        {"{'a': 1}", "{}", "{'a': 1}"},
        {"{'a': 1}", "{'a': 2}", "{'a': 2}"},
        {"{ 'a' : 0.1,\n 'b':{'c':1e-3 } }", "{'b': {'d': 0.30}}",
         "{ 'a' : 0.1,\n 'b':{'c':1e-3, 'd': 0.30 } }"},
        {"{'a': {'b': 1, 'c': {'d': 2}}}", "{'a': {'c': {'d': 3}, 'b': 4}}",
         "{'a': {'b': 4, 'c': {'d': 3}}}"},
        {"{'amp': {'fp32_regions': ['fc1']}}",
         "{'amp': {'fp32_regions': ['fc1', 'fc2']}}",
         "{'amp': {'fp32_regions': ['fc1', 'fc2']}}"},
        {"{}", "{'amp': {'dtype': 'bfloat16'}}",
         "{'amp': {'dtype': 'bfloat16'}}"},
        {"{'a': null}", "{'a': {'b': {}}}", "{'a': {'b': {}}}"},
        {"{'a': [1, 2]}", "{'a': 'x'}", "{'a': 'x'}"},
        {"{'a': {'b': 1}}", "{'a': [{'b': 2}]}", "{'a': [{'b': 2}]}"},
        {"{'a': {'b': 1}}", "{'a': {}}", "{'a': {'b': 1}}"},
        {"{'a': 1}", "{'a': null}", "{'a': null}"},
        /* A bare word is an object in short. */
        {"{'optimizer': 'sgd'}", "{'optimizer': {'sgd': {'lr': 0.1}}}",
         "{'optimizer': {'sgd': {'lr': 0.1}}}"},
        {"{'amp': {'scaler': true}}", "{'amp': {'scaler': {'min_scale': 2}}}",
         "{'amp': {'scaler': {'enabled': true, 'min_scale': 2}}}"},
        {"{'guard': 'auto'}", "{'guard': {'max_rollbacks': 5}}",
         "{'guard': {'mode': 'auto', 'max_rollbacks': 5}}"},
        {"{'guard': [{'do': 'fail'}]}", "{'guard': {'mode': 'off'}}",
         "{'guard': {'rules': [{'do': 'fail'}], 'mode': 'off'}}"},
        {"{'guard': {'mode': 'auto'}}", "{'guard': 'off'}", "{'guard': 'off'}"},
        /* Of a schedule there is one kind only. */
        {"{'schedule': {'cosine': {'min_lr': 1}}}",
         "{'schedule': {'cosine': {'min_lr': 2}}}",
         "{'schedule': {'cosine': {'min_lr': 2}}}"},
        {"{'schedule': {'cosine': {'min_lr': 1}}}",
         "{'schedule': {'linear': {'min_lr': 2}}}",
         "{'schedule': {'linear': {'min_lr': 2}}}"},
        {"{'schedule': 'cosine'}", "{'schedule': {'linear': {'min_lr': 2}}}",
         "{'schedule': {'linear': {'min_lr': 2}}}"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *before = spec_sample_text(rows[i].before);
        char *fragment = spec_sample_text(rows[i].fragment);
        char *after = spec_sample_text(rows[i].after);
        struct err err = {0};
        char *out;

        if (spec_merge(before, strlen(before), fragment, &out, &err) != 0)
            fail_msg("%s + %s: %s", before, fragment, err.msg);
        assert_string_equal(out, after);
        free(before);
        free(fragment);
        free(after);
        free(out);
    }
}

static void
test_spec_merge_hostile(void **state)
{
    static const struct {
        const char *fragment, *sentence;
    } rows[] = {
        {"", "the change is no JSON"},
        {"{", "the change is no JSON"},
        {"{} {}", "the change is no JSON"},
        {"{'a': 1, 'a': 2}", "the change is no JSON"},
        {"{'a': '\\u0000'}", "the change is no JSON"},
        {"{'\\u0000': 1}", "the change is no JSON"},
        {"{'a': NaN}", "the change is no JSON"},
        {"{'a': '\xff'}", "the change is no JSON"},
        {"[]", "the change is not a JSON object"},
        {"null", "the change is not a JSON object"},
        {"'amp'", "the change is not a JSON object"},
        {"{'': 1}", "the change has a key \"\": no spec has"},
        {"{'a=b': 1}", "the change has a key \"a=b\": no spec has"},
        {"{'list[0]': 1}", "the change has a key \"list[0]\": no spec has"},
        {"{'list.0': 1}", "the change has a key \"list.0\": no spec has"},
        {"{'list': {'0': 1}}", "the change has a key \"0\": no spec has"},
        {"{'\\u0061': 1}", "the change has a key \"\\u0061\": no spec has"},
        {"{'A': 1}", "the change has a key \"A\": no spec has"},
        {"{'list': {'sgd': {'lr': 1}}}",
         "the change does not fit: list is a list of 2; \"sgd\" is no position "
         "in it"},
        {"{'list': {}}", "the change does not fit: list is a list, not an "
                         "object"},
        {"{'number': {'x': 1}}", "the change does not fit: number is no "
                                 "object, it has no key \"x\""},
        {"{'word': {'x': 1}}", "the change does not fit: word is no object, it "
                               "has no key \"x\""},
    };
    char *text = spec_sample_text(
        "{'list': [{'sgd': {}}, {'adam': {}}], 'number': 1, 'word': 'w'}");

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *fragment = spec_sample_text(rows[i].fragment);
        struct err err = {0};
        char *out;

        assert_int_equal(spec_merge(text, strlen(text), fragment, &out, &err),
                         ERR_SPEC);
        assert_null(out);
        if (strncmp(err.msg, rows[i].sentence, strlen(rows[i].sentence)) != 0)
            fail_msg("%s: \"%s\" is not \"%s\"", rows[i].fragment, err.msg,
                     rows[i].sentence);
        free(fragment);
    }
    free(text);
}

/* Much of everything: too long, too deep, too wide. */
static void
test_spec_merge_bounds(void **state)
{
    size_t size = 4 * SPEC_MERGE_MAX_BYTES, n = 0;
    char *fragment = malloc(size), *out, *huge;
    struct err err = {0};

    (void)state;
    assert_non_null(fragment);
    memset(fragment, ' ', size);
    memcpy(fragment, "{}", 2);
    fragment[SPEC_MERGE_MAX_BYTES + 1] = '\0';
    assert_int_equal(spec_merge("{}", 2, fragment, &out, &err), ERR_SPEC);
    assert_string_equal(err.msg, "the change is 65537 bytes long, at most "
                                 "65536 are allowed");
    fragment[SPEC_MERGE_MAX_BYTES] = '\0';
    assert_int_equal(spec_merge("{}", 2, fragment, &out, &err), 0);
    assert_string_equal(out, "{}");
    free(out);

    for (int i = 0; i < 2000; i++)
        n += (size_t)snprintf(fragment + n, size - n, "{\"a\":");
    n += (size_t)snprintf(fragment + n, size - n, "1");
    for (int i = 0; i < 2000; i++)
        n += (size_t)snprintf(fragment + n, size - n, "}");
    assert_int_equal(spec_merge("{}", 2, fragment, &out, &err), ERR_SPEC);
    assert_string_equal(err.msg, "the change is nested deeper than 64");

    n = (size_t)snprintf(fragment, size, "{\"a\": 1");
    for (int i = 0; i < SPEC_MERGE_MAX_VALUES; i++)
        n += (size_t)snprintf(fragment + n, size - n, ",\"k%d\": 1", i);
    snprintf(fragment + n, size - n, "}");
    assert_int_equal(spec_merge("{}", 2, fragment, &out, &err), ERR_SPEC);
    assert_string_equal(err.msg, "the change holds more than 256 values");

    n = (size_t)snprintf(fragment, size, "{\"");
    memset(fragment + n, 'k', 1000);
    snprintf(fragment + n + 1000, size - n - 1000, "\": 1}");
    assert_int_equal(spec_merge("{}", 2, fragment, &out, &err), ERR_SPEC);
    assert_string_equal(err.msg, "the change has a key of 1001 bytes");

    huge = malloc(SPEC_MAX_BYTES + 1);
    assert_non_null(huge);
    memset(huge, ' ', SPEC_MAX_BYTES + 1);
    memcpy(huge, "{}", 2);
    assert_int_equal(spec_merge(huge, SPEC_MAX_BYTES, "{\"a\": 1}", &out, &err),
                     ERR_SPEC);
    assert_string_equal(err.msg, "with the change the spec is 1048582 bytes "
                                 "long, at most 1048576 are allowed");
    assert_null(out);
    assert_int_equal(spec_merge(huge, SPEC_MAX_BYTES + 1, "{}", &out, &err),
                     ERR_SPEC);
    free(huge);
    free(fragment);
}

static void
test_spec_merge_set(void **state)
{
    static const struct {
        const char *assignment, *fragment; /* NULL: refused */
    } rows[] = {
        {"amp.dtype=bfloat16", "{'amp': {'dtype': 'bfloat16'}}"},
        {"guard=auto", "{'guard': 'auto'}"},
        {"amp.fp32_regions=['fc1']", "{'amp': {'fp32_regions': ['fc1']}}"},
        {"o[1].adam.lr=2", "{'o': [{'sgd': {'lr': 1}}, {'adam': {'lr': 2}}]}"},
        {"o.1.adam.lr=2", "{'o': [{'sgd': {'lr': 1}}, {'adam': {'lr': 2}}]}"},
        {"p.q[0]=2", "{'p': {'q': [2, 8]}}"},
        {"p.q=[1]", "{'p': {'q': [1]}}"},
        {"o[2].adam.lr=2", NULL},
        {"x[0]=1", NULL},
        {"p.q", NULL},
        {"=1", NULL},
        {"[0]=1", NULL},
        {"p.q[0]={", NULL},
    };
    char *text = spec_sample_text(
        "{'o': [{'sgd': {'lr': 1}}, {'adam': {}}], 'p': {'q': [7, 8]}}");

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *assignment = spec_sample_text(rows[i].assignment);
        struct err err = {0};
        char *out, *merged, *wanted;
        int rc = spec_merge_set(text, strlen(text), assignment, &out, &err);

        if (rows[i].fragment == NULL) {
            assert_int_not_equal(rc, 0);
            assert_string_not_equal(err.msg, "");
            assert_null(out);
        } else {
            wanted = spec_sample_text(rows[i].fragment);
            assert_int_equal(rc, 0);
            assert_string_equal(out, wanted);
            assert_int_equal(spec_merge(text, strlen(text), out, &merged, &err),
                             0);
            free(merged);
            free(wanted);
            free(out);
        }
        free(assignment);
    }
    free(text);
}

/* ---- what differs --------------------------------------------------------- */

/* The minimal sample with the fragments; the difference, or the refusal. */
static int
differ(const char *a, const char *b, char *out, size_t size)
{
    char *base = spec_sample_text(spec_sample_minimal);
    struct spec *specs[2];
    struct err err = {0};
    char *difference;
    int rc;

    for (int i = 0; i < 2; i++) {
        char *fragment = spec_sample_text(i == 0 ? a : b);
        char *text;

        assert_int_equal(spec_merge(base, strlen(base), fragment, &text, &err),
                         0);
        free(fragment);
        specs[i] = spec_sample_parse(text);
        free(text);
    }
    rc = spec_difference(specs[0], specs[1], &difference, &err);
    snprintf(out, size, "%s", rc == 0 ? difference : err.msg);
    free(difference);
    spec_destroy(&specs[0]);
    spec_destroy(&specs[1]);
    free(base);
    return rc;
}

static void
test_spec_difference(void **state)
{
    static const struct {
        const char *a, *b, *difference;
    } rows[] = {
        {"{}", "{}", ""},
        {"{}", "{'schedule': 'constant'}", ""}, /* what it was by default */
        {"{'amp': {'dtype': 'bfloat16'}}", "{'amp': {'fp32_regions': ['0']}}",
         "amp.dtype: \"bfloat16\" -> \"float32\", amp.fp32_regions: [] -> "
         "[\"0\"]"},
        {"{'amp': {'dtype': 'float16'}}", "{'amp': {'dtype': 'bfloat16'}}",
         "amp.dtype: \"float16\" -> \"bfloat16\", amp.scaler.enabled: true -> "
         "false"},
        {"{}", "{'train': {'clip_grad_norm': 0.1}}",
         "train.clip_grad_norm: 0.0 -> 0.1"},
        {"{}", "{'optimizer': {'adam': {'lr': 0.1, 'betas': [0.5, 0.6]}}}",
         "optimizer.adam.lr: 0.001 -> 0.1, optimizer.adam.betas: [0.9, 0.999] "
         "-> [0.5, 0.6]"},
        {"{'optimizer': [{'match': ['*.bias'], 'sgd': {'lr': 1}}, 'adam']}",
         "{'optimizer': [{'match': ['*.bias'], 'sgd': {'lr': 2}}, 'adam']}",
         "optimizer[0].sgd.lr: 1.0 -> 2.0"},
        {"{}", "{'diagnose': {'max_replays': 3}}",
         "diagnose.max_replays: 8 -> 3"},
        {"{'guard': 'off'}", "{'guard': {'max_rollbacks': 9}}",
         "guard.mode: \"off\" -> \"default\", guard.max_rollbacks: 3 -> 9"},
        {"{'schedule': 'cosine'}", "{'schedule': {'linear': {'min_lr': 0.5}}}",
         "schedule.cosine: {"},
    };
    char out[4096];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(differ(rows[i].a, rows[i].b, out, sizeof(out)), 0);
        /* A section may end in more than is told here: only a whole sentence
         * without "{" or guards is compared to its end. */
        if (strchr(rows[i].difference, '{') != NULL ||
            strstr(rows[i].difference, "guard.mode") != NULL)
            out[strlen(rows[i].difference)] = '\0';
        assert_string_equal(out, rows[i].difference);
    }
}

static void
test_spec_difference_refused(void **state)
{
    static const struct {
        const char *fragment, *key;
    } rows[] = {
        {"{'name': 'x'}", "name"},
        {"{'seed': 3}", "seed"},
        {"{'data': {'batch_size': 9}}", "data.batch_size"},
        {"{'data': {'train': {'input': '/etc/shadow'}}}", "data.train.input"},
        {"{'model': ['relu']}", "model[0].linear"},
        {"{'model': ['relu', 'relu']}", "model"},
        {"{'loss': 'l1'}", "loss.mse"},
        {"{'optimizer': 'lion'}", "optimizer.adam"},
        {"{'optimizer': {'adam': {'groups': [{'match': ['*'], 'lr': 1}]}}}",
         "optimizer.adam.groups"},
        {"{'train': {'epochs': 2}}", "train.epochs"},
        {"{'train': {'accumulate': 2, 'clip_grad_norm': 1}}",
         "train.accumulate"},
        {"{'device': 'cpu', 'threads': 3}", "threads"},
        {"{'checkpoint': {'keep': 9}, 'amp': {'dtype': 'float16'}}",
         "checkpoint.keep"},
        {"{'initial_weights': '/x'}", "initial_weights"},
    };
    char out[4096], wanted[512];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(differ("{}", rows[i].fragment, out, sizeof(out)),
                         ERR_SPEC);
        snprintf(wanted, sizeof(wanted),
                 "%s cannot be changed after submit: submit a new job",
                 rows[i].key);
        assert_string_equal(out, wanted);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec_merge),
        cmocka_unit_test(test_spec_merge_hostile),
        cmocka_unit_test(test_spec_merge_bounds),
        cmocka_unit_test(test_spec_merge_set),
        cmocka_unit_test(test_spec_difference),
        cmocka_unit_test(test_spec_difference_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
