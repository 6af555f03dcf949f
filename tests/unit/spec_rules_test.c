/* SPDX-License-Identifier: Apache-2.0 */
/* Guards and diagnosis in a spec: forms, sets, faults, printed again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "tests/unit/spec_samples.h"

static const char base[] =
    "{'data': {'train': {'format': 'npy', 'input': 'x', 'target': 'y'},"
    " 'validation': {'format': 'npy', 'input': 'x', 'target': 'y'},"
    " 'batch_size': 1}, 'model': [{'name': 'fc1', 'linear': {'out_features': "
    "2}}, {'name': 'head', 'linear': {'out_features': 2}}],"
    " 'loss': 'cross_entropy', 'optimizer': 'adam',"
    " 'amp': {'dtype': 'float16'}%s%s}";

/* The base with a guard (' for "), or with none where it is NULL. */
static char *
make_text(const char *guard)
{
    char text[8192];

    snprintf(text, sizeof(text), base, guard != NULL ? ", 'guard': " : "",
             guard != NULL ? guard : "");
    return spec_sample_text(text);
}

static struct spec *
parse(const char *guard)
{
    char *text = make_text(guard);
    struct spec *spec = spec_sample_parse(text);

    free(text);
    return spec;
}

/* ---- sets -----------------------------------------------------------------*/

/* One line for each rule that is in effect. */
static void
expect_rules(const char *guard, const char *const *want)
{
    struct spec *spec = parse(guard);
    char *text, *at;
    int n = 0;

    spec->guard.n_listed = spec->guard.n_rules; /* to see all */
    text = spec_print(spec);
    at = strstr(text, "\"rules\": [");
    assert_non_null(at);
    for (; want[n] != NULL; n++) {
        char line[300], *quoted;

        snprintf(line, sizeof(line), "\n      %s%s\n", want[n],
                 want[n + 1] != NULL ? "," : "");
        quoted = spec_sample_text(line);
        at = strchr(at, '\n');
        if (at == NULL || strncmp(at, quoted, strlen(quoted)) != 0)
            fail_msg("%s: no %s in %s", guard, quoted, text);
        at++;
        free(quoted);
    }
    assert_int_equal(spec->guard.n_rules, n);
    free(text);
    spec_destroy(&spec);
}

#define SKIPS   "{'when': {'consecutive_skips': 20}, 'do': 'fail'}"
#define FLOOR   "{'when': {'scale_at_floor': 5}, 'do': 'continue'}"
#define FEW     "{'when': {'updates_below': 10, 'iterations': 100}, 'do': 'fail'}"
#define WEIGHTS "{'when': {'non_finite': 'weights'}, 'do': 'fail'}"
#define VERDICT(name, n)                                                       \
    "{'when': {'verdict': '" name "', 'count': " n "}, 'do': "
#define BACK(with) "'rollback', 'with': {" with "}, 'to': 'last'}"
#define LADDER(name)                                                           \
    VERDICT(name, "2")                                                         \
    BACK("'fp32_region': 'diagnosed'"),                                        \
        VERDICT(name, "2") BACK("'dtype': 'bfloat16'"),                        \
        VERDICT(name, "2") BACK("'dtype': 'float32'")

static void
test_spec_rules_sets(void **state)
{
    static const char *const defaults[] = {SKIPS, FLOOR, FEW, WEIGHTS, NULL};
    static const char *const automatic[] = {
        LADDER("forward_overflow"),
        LADDER("backward_overflow"),
        VERDICT("bad_input", "1") "'continue'}",
        VERDICT("divergence", "3") "'fail'}",
        SKIPS,
        FLOOR,
        FEW,
        WEIGHTS,
        NULL};
    static const char *const own[] = {
        "{'when': {'consecutive_skips': 3}, 'do': 'pause'}", FLOOR, FEW,
        WEIGHTS, NULL};
    static const char *const loss[] = {
        "{'when': {'non_finite': 'loss'}, 'do': 'fail'}",
        SKIPS,
        FLOOR,
        FEW,
        WEIGHTS,
        NULL};
    static const char *const mixed[] = {
        VERDICT("forward_overflow", "1") "'pause'}",
        LADDER("backward_overflow"),
        VERDICT("bad_input", "1") "'continue'}",
        VERDICT("divergence", "3") "'fail'}",
        SKIPS,
        FLOOR,
        FEW,
        WEIGHTS,
        NULL};
    static const char *const none[] = {NULL};
    static const char *const one[] = {
        "{'when': {'loss_spike': 20.0, 'iterations': 50, 'after_updates': 7}, "
        "'do': 'rollback', 'with': {'skip_batches': true}, 'to': 'last'}",
        NULL};

    (void)state;
    expect_rules(NULL, defaults);
    expect_rules("'default'", defaults);
    expect_rules("{}", defaults);
    expect_rules("[]", defaults);
    expect_rules("'auto'", automatic);
    expect_rules("{'mode': 'auto'}", automatic);
    expect_rules("'off'", none);
    expect_rules("{'mode': 'off'}", none);
    expect_rules("[{'when': {'consecutive_skips': 3}, 'do': 'pause'}]", own);
    expect_rules("[{'do': 'fail', 'when': {'non_finite': 'loss'}}]", loss);
    expect_rules("{'mode': 'auto', 'rules': [{'when': {'verdict': "
                 "'forward_overflow'}, 'do': 'pause'}]}",
                 mixed);
    expect_rules("{'mode': 'off', 'rules': [{'when': {'loss_spike': 20, "
                 "'iterations': 50, 'after_updates': 7}, 'do': 'rollback', "
                 "'with': {'skip_batches': true}}]}",
                 one);
}

/* ---- values ---------------------------------------------------------------*/

static void
test_spec_rules_values(void **state)
{
    struct spec *s = parse(
        "{'mode': 'off', 'max_rollbacks': 7, 'rules': ["
        "{'when': {'skip_share': 0.25, 'iterations': 40}, 'do': 'continue'},"
        "{'when': {'loss_above': 8}, 'do': 'rollback', 'with': {'lower_scale': "
        "0.5}},"
        "{'when': {'loss_below': -1}, 'do': 'pause'},"
        "{'when': {'metric': 'accuracy', 'below': 0.5, 'above': 0.75, "
        "'after_updates': 1000}, 'do': 'fail'},"
        "{'when': {'consecutive_skips': 2}, 'do': 'rollback', 'with': "
        "{'fp32_region': ['fc1', 'head']}},"
        "{'when': {'scale_at_floor': 2}, 'do': 'rollback', 'with': "
        "{'fp32_region': 'head'}},"
        "{'when': {'verdict': 'optimizer', 'count': 4}, 'do': 'fail'}]}");
    const struct spec_guard *g = s->guard.rule;

    (void)state;
    assert_int_equal(s->guard.mode, SPEC_GUARDS_OFF);
    assert_int_equal(s->guard.max_rollbacks, 7);
    assert_int_equal(s->guard.n_rules, 7);
    assert_int_equal(g[0].condition, SPEC_CONDITION_SKIP_SHARE);
    assert_true(g[0].above == 0.25 && g[0].iterations == 40 &&
                isnan(g[0].below));
    assert_true(g[1].above == 8 && isnan(g[1].below));
    assert_int_equal(g[1].with.kind, SPEC_CHANGE_LOWER_SCALE);
    assert_true(g[1].with.factor == 0.5);
    assert_true(g[2].below == -1 && isnan(g[2].above));
    assert_true(g[3].below == 0.5 && g[3].above == 0.75);
    assert_int_equal(g[3].metric, SPEC_METRIC_ACCURACY);
    assert_int_equal(g[3].after_updates, 1000);
    assert_int_equal(g[4].limit, 2);
    assert_int_equal(g[4].with.n_regions, 2);
    assert_string_equal(g[4].with.regions[1], "head");
    assert_int_equal(g[5].with.n_regions, 1);
    assert_string_equal(g[5].with.regions[0], "head");
    assert_int_equal(g[6].verdict, EVENT_VERDICT_OPTIMIZER);
    assert_int_equal(g[6].limit, 4);
    spec_destroy(&s);

    s = parse(NULL);
    assert_int_equal(s->guard.mode, SPEC_GUARDS_DEFAULT);
    assert_int_equal(s->guard.max_rollbacks, 3);
    assert_int_equal(s->diagnose.max_replays, 8);
    assert_true(s->diagnose.replay_share == 0.01);
    assert_int_equal(s->diagnose.keep, 8);
    assert_int_equal(s->diagnose.keep_bytes, 1 << 30);
    spec_destroy(&s);
}

/* What is printed is read as the same, and printed as the same again. */
static void
test_spec_rules_round_trip(void **state)
{
    static const char *const guards[] = {
        "'auto'",
        "'off'",
        "{'mode': 'auto', 'max_rollbacks': 0, 'rules': [{'when': {'metric': "
        "'loss', 'above': 3.5}, 'do': 'rollback', 'with': {'dtype': "
        "'float32'}}]}",
        "[{'when': {'verdict': 'bad_input'}, 'do': 'rollback', 'with': "
        "{'skip_batches': true}}, {'when': {'consecutive_skips': 9}, 'do': "
        "'rollback', 'with': {'fp32_region': ['fc1']}}]",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(guards) / sizeof(guards[0]); i++) {
        struct spec *spec = parse(guards[i]), *again;
        char *first = spec_print(spec), *second;

        again = spec_sample_parse(first);
        second = spec_print(again);
        assert_string_equal(first, second);
        assert_int_equal(spec->guard.n_rules, again->guard.n_rules);
        assert_int_equal(spec->guard.n_listed, again->guard.n_listed);
        free(first);
        free(second);
        spec_destroy(&spec);
        spec_destroy(&again);
    }
}

/* ---- faults ---------------------------------------------------------------*/

#define RULE_OF(when, rest) "[{'when': {" when "}, " rest "}]"
#define FAILS(when)         RULE_OF(when, "'do': 'fail'")
#define BACKS(when, rest)   RULE_OF(when, "'do': 'rollback', " rest)
#define SKIP20              "'consecutive_skips': 20"

/* A guard, and the one fault that it has. */
static const struct {
    const char *guard, *path, *message;
} rows[] = {
    {"'of'", "guard", "unknown set of guards \"of\"; did you mean off?"},
    {"7", "guard", "must be the name of a known set of guards, not an integer"},
    {"{'mode': 'auo'}", "guard.mode",
     "unknown set of guards \"auo\"; did you mean auto?"},
    {"{'rule': []}", "guard.rule", "unknown key; did you mean rules?"},
    {"{'max_rollbacks': -1}", "guard.max_rollbacks",
     "must be an integer, 0 or more, not -1"},
    {"{'rules': {}}", "guard.rules", "must be a list, not an object"},
    {"['auto']", "guard[0]", "must be an object, not a string"},
    {"[{'do': 'fail'}]", "guard[0].when", "missing; must be an object"},
    {"[{'when': {" SKIP20 "}}]", "guard[0].do",
     "missing; must be \"continue\", \"pause\", \"fail\" or \"rollback\""},
    {RULE_OF(SKIP20, "'do': 'stop'"), "guard[0].do",
     "unknown action \"stop\"; known: continue, pause, fail, rollback"},
    {RULE_OF(SKIP20, "'do': 'rolback'"), "guard[0].do",
     "unknown action \"rolback\"; did you mean rollback?"},
    {FAILS(""), "guard[0].when", "names no condition: a rule has exactly one"},
    {FAILS("'consecutive_skip': 3"), "guard[0].when.consecutive_skip",
     "unknown key; did you mean consecutive_skips?"},
    {FAILS("'consecutive_skips': 0"), "guard[0].when.consecutive_skips",
     "must be an integer, 1 or more, not 0"},
    {FAILS("'consecutive_skips': 3, 'loss_above': 3"),
     "guard[0].when.loss_above",
     "one condition too many: a rule has exactly one"},
    {FAILS("'consecutive_skips': 3, 'iterations': 30"),
     "guard[0].when.iterations", "has no meaning for consecutive_skips"},
    {FAILS("'loss_above': 3, 'below': 3"), "guard[0].when.below",
     "has no meaning for loss_above"},
    {FAILS("'skip_share': 1"), "guard[0].when.skip_share",
     "must be a number, 0 or more and below 1, not 1"},
    {FAILS("'updates_below': 101"), "guard[0].when.updates_below",
     "is above iterations, 100: it always holds"},
    {FAILS("'updates_below': 1, 'iterations': 1"), "guard[0].when.iterations",
     "must be an integer from 2 to 65536, not 1"},
    {FAILS("'updates_below': 1, 'iterations': 65537"),
     "guard[0].when.iterations", "must be at most 65536, not 65537"},
    {FAILS("'loss_spike': 9, 'iterations': 4097"), "guard[0].when.iterations",
     "must be at most 4096 for loss_spike, not 4097"},
    {FAILS("'metric': 'accuracy'"), "guard[0].when.metric",
     "has no bound; write above, below or both"},
    {FAILS("'metric': 'acuracy', 'below': 1"), "guard[0].when.metric",
     "unknown metric \"acuracy\"; did you mean accuracy?"},
    {FAILS("'metric': 'confusion', 'below': 1"), "guard[0].when.metric",
     "confusion is a table and has no bound"},
    {FAILS("'metric': 'top_k', 'below': 1"), "guard[0].when.metric",
     "top_k is not among evaluate.metrics"},
    {FAILS("'metric': 'loss', 'below': 2, 'above': 1"), "guard[0].when.below",
     "is larger than above: no value would be within"},
    {FAILS("'non_finite': true"), "guard[0].when.non_finite",
     "must be the name of a known part, not true"},
    {FAILS("'non_finite': 'weight'"), "guard[0].when.non_finite",
     "unknown part \"weight\"; did you mean weights?"},
    {FAILS("'verdict': 'banana'"), "guard[0].when.verdict",
     "unknown verdict \"banana\"; known: scale_overflow, forward_overflow, "
     "backward_overflow, bad_input, divergence, optimizer"},
    {FAILS("'verdict': 'divergense'"), "guard[0].when.verdict",
     "unknown verdict \"divergense\"; did you mean divergence?"},
    {RULE_OF(SKIP20, "'do': 'rollback'"), "guard[0].with",
     "missing; a rollback that changes nothing would meet the same iteration "
     "again"},
    {RULE_OF(SKIP20, "'do': 'fail', 'with': {'skip_batches': true}"),
     "guard[0].with", "has no meaning for fail"},
    {RULE_OF(SKIP20, "'do': 'pause', 'to': 'last'"), "guard[0].to",
     "has no meaning for pause"},
    {BACKS(SKIP20, "'with': {}"), "guard[0].with",
     "names no change: a rule has exactly one"},
    {BACKS(SKIP20, "'with': null"), "guard[0].with",
     "must be an object, not null"},
    {BACKS(SKIP20, "'with': {'skip_batches': true, 'dtype': 'float32'}"),
     "guard[0].with.dtype", "one change too many: a rule has exactly one"},
    {BACKS(SKIP20, "'with': {'skip_batches': false}"),
     "guard[0].with.skip_batches", "must be true, not false"},
    {BACKS(SKIP20, "'with': {'dtype': 'float16'}"), "guard[0].with.dtype",
     "unknown wider dtype \"float16\"; did you mean bfloat16?"},
    {BACKS(SKIP20, "'with': {'lower_scale': 1}"), "guard[0].with.lower_scale",
     "must be a number above 0 and below 1, not 1"},
    {BACKS(SKIP20, "'with': {'fp32_region': 'fc'}"),
     "guard[0].with.fp32_region", "unknown layer; did you mean fc1?"},
    {BACKS(SKIP20, "'with': {'fp32_region': ['head', 'banana']}"),
     "guard[0].with.fp32_region[1]", "unknown layer; known: fc1, head"},
    {BACKS(SKIP20, "'with': {'fp32_region': []}"), "guard[0].with.fp32_region",
     "may not be an empty list"},
    {BACKS(SKIP20, "'with': {'fp32_region': 7}"), "guard[0].with.fp32_region",
     "must be a path, not an integer"},
    {BACKS(SKIP20, "'with': {'skip_batches': true}, 'to': 'best'"),
     "guard[0].to", "there is no best one: checkpoint.best is null"},
    {BACKS(SKIP20, "'with': {'skip_batches': true}, 'to': 'first'"),
     "guard[0].to", "unknown checkpoint \"first\"; known: last, best"},
    {BACKS("'updates_below': 5", "'with': {'skip_batches': true}"),
     "guard[0].with.skip_batches", "updates_below does not say which batches"},
    {BACKS("'non_finite': 'weights'", "'with': {'skip_batches': true}"),
     "guard[0].with.skip_batches", "non_finite does not say which batches"},
    {BACKS("'loss_spike': 5", "'with': {'fp32_region': 'diagnosed'}"),
     "guard[0].with.fp32_region",
     "there is no diagnosis of loss_spike; name the layers"},
    {"{'rules': [{'when': {" SKIP20 "}, 'do': 'fail'}, {'when': "
     "{'loss_spike': 5}, 'do': 'fail', 'witch': 1}]}",
     "guard.rules[1].witch", "unknown key; did you mean with?"},
};

static void
test_spec_rules_faults(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *text = make_text(rows[i].guard), *at;
        struct spec_faults faults;
        struct spec *spec = NULL;

        if (spec_parse(text, strlen(text), &spec, &faults) == 0)
            fail_msg("%s: no fault", rows[i].guard);
        assert_null(spec);
        at = strstr(text, "\"guard\"");
        if (strcmp(faults.list[0].path, rows[i].path) != 0 ||
            strcmp(faults.list[0].message, rows[i].message) != 0 ||
            faults.n != 1)
            fail_msg("%s: %d faults; %s: %s", rows[i].guard, faults.n,
                     faults.list[0].path, faults.list[0].message);
        assert_int_equal(faults.list[0].line, 1);
        assert_true(faults.list[0].col > (int)(at - text));
        spec_faults_fini(&faults);
        free(text);
    }
}

/* Rules that wait for a diagnosis, where there is none. */
static void
test_spec_rules_blind(void **state)
{
    static const struct {
        const char *guard, *path; /* NULL: no fault */
    } blind[] = {
        {"[{'when': {'verdict': 'bad_input'}, 'do': 'fail'}]",
         "guard[0].when.verdict"},
        {"{'mode': 'off', 'rules': [{'when': {" SKIP20 "}, 'do': 'fail'}, "
         "{'when': {'verdict': 'divergence', 'count': 3}, 'do': 'pause'}]}",
         "guard.rules[1].when.verdict"},
        {"[{'when': {" SKIP20 "}, 'do': 'rollback', 'with': {'fp32_region': "
         "'diagnosed'}}]",
         "guard[0].with.fp32_region"},
        {"'auto'", "guard"},
        {"{'mode': 'auto'}", "guard.mode"},
        {"'default'", NULL},
        {"[{'when': {" SKIP20 "}, 'do': 'rollback', 'with': {'fp32_region': "
         "['fc1']}}]",
         NULL},
    };
    static const char *const diagnose[] = {
        "{'max_replays': 0, 'replay_share': 0}",
        "{'max_replays': 0, 'replay_share': 0.5}",
        "{'max_replays': 1, 'replay_share': 0}"};

    (void)state;
    for (size_t i = 0; i < sizeof(blind) / sizeof(blind[0]); i++)
        for (int k = 0; k < 3; k++) {
            const bool fault = k == 0 && blind[i].path != NULL;
            char value[1024];
            struct spec_faults faults;
            struct spec *spec = NULL;
            char *text;

            snprintf(value, sizeof(value), "%s, 'diagnose': %s", blind[i].guard,
                     diagnose[k]);
            text = make_text(value);
            assert_int_equal(spec_parse(text, strlen(text), &spec, &faults),
                             fault ? ERR_SPEC : 0);
            assert_int_equal(faults.n, fault ? 1 : 0);
            if (fault) {
                assert_string_equal(faults.list[0].path, blind[i].path);
                assert_non_null(strstr(faults.list[0].message,
                                       "diagnose.max_replays and replay_share "
                                       "are 0"));
            }
            spec_faults_fini(&faults);
            spec_destroy(&spec);
            free(text);
        }
}

/* A list has its limit, whatever the set adds. */
static void
test_spec_rules_too_many(void **state)
{
    (void)state;
    for (int n = 64; n <= 65; n++) {
        char guard[6000];
        size_t len = (size_t)snprintf(guard, sizeof(guard),
                                      "{'mode': 'auto', 'rules': [");
        struct spec_faults faults;
        struct spec *spec;
        char *text;

        for (int i = 0; i < n; i++)
            len += (size_t)snprintf(guard + len, sizeof(guard) - len,
                                    "%s{'when': {'loss_above': %d}, 'do': "
                                    "'fail'}",
                                    i > 0 ? ", " : "", i);
        snprintf(guard + len, sizeof(guard) - len, "]}");
        text = make_text(guard);
        if (n == 64) {
            spec = spec_sample_parse(text);
            assert_int_equal(spec->guard.n_rules, 64 + 12);
            spec_destroy(&spec);
        } else {
            assert_int_equal(spec_parse(text, strlen(text), &spec, &faults),
                             ERR_SPEC);
            assert_int_equal(faults.n, 1);
            assert_string_equal(faults.list[0].path, "guard.rules");
            assert_string_equal(faults.list[0].message,
                                "has 65 elements, at most 64 are allowed");
            spec_faults_fini(&faults);
        }
        free(text);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec_rules_sets),
        cmocka_unit_test(test_spec_rules_values),
        cmocka_unit_test(test_spec_rules_round_trip),
        cmocka_unit_test(test_spec_rules_faults),
        cmocka_unit_test(test_spec_rules_blind),
        cmocka_unit_test(test_spec_rules_too_many),
    };

    return cmocka_run_group_tests_name("spec_rules", tests, NULL, NULL);
}
