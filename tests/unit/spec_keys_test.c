/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/spec_keys.h"
#include "proto/spec_suggest.h"
#include "proto/spec_words.h"

/* A default in the table must be one of the words of its enumeration. */
static bool
is_possible_default(const struct spec_key *k)
{
    const struct spec_words *words = spec_words_of(k->type);
    char quoted[64];

    if (words == NULL || k->fallback == NULL)
        return true;
    for (int i = 0; i < words->n; i++) {
        snprintf(quoted, sizeof(quoted), "\"%s\"", words->list[i].name);
        if (strcmp(quoted, k->fallback) == 0)
            return true;
    }
    return false;
}

static void
test_spec_keys_table(void **state)
{
    (void)state;
    for (int i = 0; i < spec_keys_n; i++) {
        const struct spec_key *k = &spec_keys_table[i];
        int sections = 0;

        for (int s = 0; s < spec_keys_n_sections; s++)
            sections += spec_keys_sections[s].object == k->object;
        assert_true(sections > 0);
        assert_true(k->range.low <= k->range.high);
        assert_int_equal(k->required, k->words == NULL);
        for (int j = 0; j < i; j++)
            assert_false(spec_keys_table[j].object == k->object &&
                         strcmp(spec_keys_table[j].name, k->name) == 0);
        if (!is_possible_default(k))
            fail_msg("%s: default %s is no word", k->name, k->fallback);
    }
}

/* Every key is explained under every section that has it. */
static void
test_spec_explain_all(void **state)
{
    (void)state;
    for (int s = 0; s < spec_keys_n_sections; s++)
        for (int i = 0; i < spec_keys_n; i++) {
            char path[200];

            if (spec_keys_table[i].object != spec_keys_sections[s].object)
                continue;
            snprintf(path, sizeof(path), "%s%s%s", spec_keys_sections[s].path,
                     spec_keys_sections[s].path[0] != '\0' ? "." : "",
                     spec_keys_table[i].name);
            assert_ptr_equal(spec_explain_key(path),
                             spec_keys_table[i].explain);
        }
}

static void
test_spec_explain_forms(void **state)
{
    (void)state;
    assert_string_equal(spec_explain_key("amp.scaler.init_scale"),
                        "a number above 0; default 65536. scale at the start");
    assert_string_equal(spec_explain_key("data.batch_size"),
                        "an integer, 1 or more; required. samples in a "
                        "micro-batch");
    assert_non_null(spec_explain_key("model[3].conv2d.padding"));
    assert_non_null(spec_explain_key("model[3].residual[0].conv2d.padding"));
    assert_ptr_equal(spec_explain_key("conv2d.padding"),
                     spec_explain_key("model[0].conv2d.padding"));
    assert_non_null(spec_explain_key("optimizer.adamw.groups[2].match"));
    assert_ptr_equal(spec_explain_key("amp.fp32_regions[0]"),
                     spec_explain_key("amp.fp32_regions"));
    assert_string_equal(spec_explain_key("relu"), "max(x, 0), NaN stays NaN");
    assert_string_equal(spec_explain_key("model[2].relu"),
                        "max(x, 0), NaN stays NaN");
    assert_non_null(spec_explain_key("model"));
    assert_ptr_equal(spec_explain_key("optimizer[1].lion.betas"),
                     spec_explain_key("optimizer.lion.betas"));
    assert_non_null(spec_explain_key("optimizer[0].match"));
    assert_ptr_equal(
        spec_explain_key("model[1].sequential[0].residual.body[2].name"),
        spec_explain_key("model[].name"));
    assert_ptr_equal(
        spec_explain_key("model[1].sequential[0].weight_init.normal.std"),
        spec_explain_key("model[].weight_init.normal.std"));
    assert_ptr_equal(spec_explain_key("model.gpt.n_layer"),
                     spec_explain_key("gpt.n_layer"));
    assert_non_null(spec_explain_key("gpt"));
    assert_non_null(spec_explain_key("model[2].residual.shortcut"));
    assert_null(spec_explain_key("model[1].weight_init.std"));
    assert_null(spec_explain_key(""));
    assert_null(spec_explain_key("."));
    assert_null(spec_explain_key("guards"));
    assert_ptr_equal(spec_explain_key("guard[3].when.consecutive_skips"),
                     spec_explain_key("guard.rules[].when.consecutive_skips"));
    assert_non_null(spec_explain_key("guard[3].when.consecutive_skips"));
    assert_non_null(spec_explain_key("guard.rules[1].with.fp32_region[0]"));
    assert_null(spec_explain_key("guard[3].max_rollbacks"));
    assert_null(spec_explain_key("amp.scaler.init_scal"));
    assert_null(spec_explain_key("train.batch_size"));
    assert_null(spec_explain_key("foo.conv2d.padding"));
}

static void
test_spec_suggest(void **state)
{
    static const char *const known[] = {"lr",     "kernel_size", "relu",
                                        "gelu",   "conv2d",      "batch_norm2d",
                                        "float16"};
    static const struct {
        const char *asked, *meant;
    } rows[] = {
        {"kernal_size", "kernel_size"},
        {"kernelsize", "kernel_size"},
        {"KernelSize", "kernel_size"},
        {"kernel_szie", "kernel_size"},
        {"reLU", "relu"},
        {"rleu", "relu"},
        {"conv", "conv2d"},
        {"Conv2D", "conv2d"},
        {"BatchNorm2d", "batch_norm2d"},
        {"fp16", "float16"},
        {"half", "float16"},
        {"learning_rate", "lr"},
        {"banana", NULL},
        {"x", NULL},
        {"", NULL},
        {"l", NULL},
    };
    char endless[5000];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *got = spec_suggest(rows[i].asked, known, 7);

        if (rows[i].meant == NULL)
            assert_null(got);
        else if (got == NULL)
            fail_msg("nothing for %s", rows[i].asked);
        else
            assert_string_equal(got, rows[i].meant);
    }
    memset(endless, 'k', sizeof(endless) - 1);
    endless[sizeof(endless) - 1] = '\0';
    assert_null(spec_suggest(endless, known, 7));
}

/*
 * traind-spec(5): under ".Ss SECTION" each key has ".It Cm KEY", and a literal
 * default stands after "Default:" before the next item.
 */
static char *
read_manual(void)
{
    const char *root = getenv("TRAIND_SOURCE");
    char *text = calloc(1, 256 * 1024);
    char name[4096];
    FILE *f;

    snprintf(name, sizeof(name), "%s/proto/traind-spec.5",
             root != NULL ? root : ".");
    f = fopen(name, "r");
    if (f == NULL)
        fail_msg("%s is missing", name);
    assert_true(fread(text, 1, 256 * 1024 - 1, f) > 0);
    fclose(f);
    return text;
}

static void
check_in_manual(const char *manual, const char *section, const char *key,
                const char *fallback)
{
    char want[200];
    const char *at, *end, *item;

    snprintf(want, sizeof(want), "\n.Ss %s\n",
             section[0] != '\0' ? section : "Top level");
    at = strstr(manual, want);
    if (at == NULL) {
        fail_msg("traind-spec.5 lacks section %s", section);
        return;
    }
    end = strstr(at + 4, "\n.Ss ");
    end = end != NULL ? end : at + strlen(at);
    snprintf(want, sizeof(want), "\n.It Cm %s\n", key);
    item = strstr(at, want);
    if (item == NULL || item > end) {
        fail_msg("traind-spec.5 lacks %s.%s", section, key);
        return;
    }
    if (fallback == NULL)
        return;
    snprintf(want, sizeof(want), "\nDefault: %s\n", fallback);
    at = strstr(item, want);
    end = strstr(item + 4, "\n.It ");
    if (at == NULL || (end != NULL && at > end))
        fail_msg("traind-spec.5: %s.%s lacks \"Default: %s\"", section, key,
                 fallback);
}

static void
test_spec_manual(void **state)
{
    char *manual = read_manual();

    (void)state;
    for (int s = 0; s < spec_keys_n_sections; s++)
        for (int i = 0; i < spec_keys_n; i++)
            if (spec_keys_table[i].object == spec_keys_sections[s].object)
                check_in_manual(manual, spec_keys_sections[s].path,
                                spec_keys_table[i].name,
                                spec_keys_table[i].words);
    for (int i = 0; i < spec_words_layer.n; i++) {
        char want[100];

        snprintf(want, sizeof(want), "\n.It Cm %s\n",
                 spec_words_layer.list[i].name);
        assert_non_null(strstr(manual, want));
    }
    free(manual);
}

/* The example of the manual is a spec that stands as it is. */
static void
test_spec_manual_example(void **state)
{
    char *manual = read_manual();
    char *start = strstr(manual, "\n.Sh EXAMPLES\n");
    struct spec_faults faults;
    struct spec *spec;
    char *end;

    (void)state;
    assert_non_null(start);
    start = strchr(start, '{');
    end = strstr(start, ".Ed\n");
    assert_non_null(end);
    if (spec_parse(start, (size_t)(end - start), &spec, &faults) != 0)
        fail_msg("%s: %s", faults.list[0].path, faults.list[0].message);
    spec_destroy(&spec);
    free(manual);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec_keys_table),
        cmocka_unit_test(test_spec_explain_all),
        cmocka_unit_test(test_spec_explain_forms),
        cmocka_unit_test(test_spec_suggest),
        cmocka_unit_test(test_spec_manual),
        cmocka_unit_test(test_spec_manual_example),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
