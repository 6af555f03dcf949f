/* SPDX-License-Identifier: Apache-2.0 */
/* Data, losses, optimizers and what is measured: values and faults. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/spec_samples.h"

/* Of spec_samples[], counted from the last. */
#define SAMPLE(i) spec_samples[spec_samples_n - 8 + (i)]

static struct spec *
parse(const char *sample)
{
    char *text = spec_sample_text(sample);
    struct spec *spec = spec_sample_parse(text);

    free(text);
    return spec;
}

/* PyTorch's defaults, by hand and not from the table; Lion's are those of its
 * authors' code. */
static void
test_spec_sections_defaults(void **state)
{
    struct spec *s = parse(SAMPLE(0));
    const struct spec_group *g = s->optim[0].group;

    (void)state;
    assert_string_equal(s->data.train.input_name, "input");
    assert_string_equal(s->data.train.target_name, "target");
    assert_null(s->data.train.target);
    assert_null(s->data.train.mask);
    assert_true(s->data.sequence_length == 0 &&
                s->data.augment.crop_padding == 0 &&
                s->data.augment.flip_p == 0);
    assert_true(s->loss.beta == 1);
    assert_true(g->lr == 0.01 && g->lr_decay == 0 && g->weight_decay == 0 &&
                g->initial_accumulator == 0 && g->eps == 1e-10);
    assert_true(s->n_optim == 1 && s->optim[0].n_match == 0);
    assert_true(s->amp.scaler.dynamic);
    assert_true(s->train.ema_decay == 0 && s->train.n_recompute == 0);
    assert_int_equal(s->evaluate.top_k, 5);
    assert_int_equal(s->schedule.count, SPEC_COUNT_UPDATES);
    assert_false(s->initial_weights_partial);
    spec_destroy(&s);

    s = parse(SAMPLE(2));
    g = s->optim[0].group;
    assert_int_equal(s->optim[0].kind, SPEC_OPTIMIZER_RMSPROP);
    assert_true(g->lr == 0.01 && g->alpha == 0.99 && g->eps == 1e-8 &&
                g->weight_decay == 0 && g->momentum == 0 && !g->centered);
    assert_false(s->loss.log_target);
    assert_int_equal(s->loss.reduction, SPEC_REDUCTION_MEAN);
    assert_true(s->train.ema_decay == 0.5 && s->train.ema_evaluate);
    spec_destroy(&s);

    s = parse(SAMPLE(3));
    g = s->optim[0].group;
    assert_true(g->lr == 1e-4 && g->betas[0] == 0.9 && g->betas[1] == 0.99 &&
                g->weight_decay == 0);
    assert_int_equal(s->data.train.token_dtype, DTYPE_NONE);
    assert_true(s->data.train.part[0] == 0 && s->data.train.part[1] == 1);
    spec_destroy(&s);

    s = parse(SAMPLE(7));
    assert_true(s->loss.delta == 1);
    spec_destroy(&s);
}

static void
test_spec_sections_values(void **state)
{
    struct spec *s = parse(SAMPLE(1));
    const struct spec_optim *o = s->optim;

    (void)state;
    assert_string_equal(s->initial_weights, "w");
    assert_true(s->initial_weights_partial);
    assert_string_equal(s->data.train.target, "t");
    assert_string_equal(s->data.train.input_name, "x");
    assert_string_equal(s->data.train.target_name, "y");
    assert_string_equal(s->data.train.mask, "m");
    assert_true(s->data.augment.crop_padding == 4 &&
                s->data.augment.flip_p == 0.25);
    assert_int_equal(s->loss.kind, SPEC_LOSS_NLL);
    assert_true(s->loss.has_ignore_index && s->loss.ignore_index == 3);
    assert_int_equal(s->n_optim, 3);
    assert_int_equal(o[0].kind, SPEC_OPTIMIZER_ADAGRAD);
    assert_string_equal(o[0].match[0], "a.*");
    assert_int_equal(o[0].n_group, 2);
    assert_true(o[0].group[0].initial_accumulator == 0.125);
    assert_true(o[0].group[1].lr == 1 && o[0].group[1].lr_decay == 0.25 &&
                o[0].group[1].initial_accumulator == 0);
    assert_int_equal(o[1].kind, SPEC_OPTIMIZER_RMSPROP);
    assert_true(o[1].group[0].centered && o[1].group[0].alpha == 0.5);
    assert_true(!o[1].group[1].centered && o[1].group[1].alpha == 0.25 &&
                o[1].group[1].momentum == 0.125);
    assert_int_equal(o[2].kind, SPEC_OPTIMIZER_LION);
    assert_int_equal(o[2].n_match, 3);
    assert_true(o[2].group[0].betas[1] == 0.25 && o[2].group[1].betas[1] == 0);
    assert_int_equal(s->schedule.count, SPEC_COUNT_ITERATIONS);
    assert_true(s->amp.scaler.enabled && !s->amp.scaler.dynamic);
    assert_true(s->train.ema_decay == 0.75 && !s->train.ema_evaluate);
    assert_int_equal(s->train.n_recompute, 2);
    assert_true(s->evaluate.metric[SPEC_METRIC_CONFUSION] &&
                s->evaluate.metric[SPEC_METRIC_TOP_K] &&
                s->evaluate.metric[SPEC_METRIC_PERPLEXITY] &&
                !s->evaluate.metric[SPEC_METRIC_LOSS]);
    assert_int_equal(s->evaluate.top_k, 2);
    spec_destroy(&s);

    s = parse(SAMPLE(2));
    assert_int_equal(s->data.train.n_target_columns, 2);
    assert_string_equal(s->data.train.target_columns[0], "y");
    assert_string_equal(s->data.train.target_columns[1], "3");
    spec_destroy(&s);
    s = parse(SAMPLE(4));
    assert_int_equal(s->data.train.token_dtype, DTYPE_U32);
    assert_true(s->data.validation.part[0] == 0.5 &&
                s->data.validation.part[1] == 1);
    assert_int_equal(s->data.sequence_length, 9);
    assert_true(s->loss.log_target);
    assert_int_equal(s->loss.reduction, SPEC_REDUCTION_BATCHMEAN);
    spec_destroy(&s);
    s = parse(SAMPLE(6));
    assert_int_equal(s->checkpoint.best, SPEC_METRIC_PERPLEXITY);
    spec_destroy(&s);
}

/* No loss, optimizer, format or metric is left out of what goes round by print
 * and parse. */
static void
test_spec_sections_all(void **state)
{
    unsigned losses = 0, optimizers = 0, formats = 0, metrics = 0;

    (void)state;
    for (int i = 0; i < spec_samples_n; i++) {
        struct spec *s = parse(spec_samples[i]);

        losses |= 1u << s->loss.kind;
        formats |= 1u << s->data.train.format;
        if (s->data.validation.present)
            formats |= 1u << s->data.validation.format;
        for (int o = 0; o < s->n_optim; o++)
            optimizers |= 1u << s->optim[o].kind;
        for (int m = 0; m < SPEC_METRIC_COUNT; m++)
            metrics |= (unsigned)s->evaluate.metric[m] << m;
        spec_destroy(&s);
    }
    assert_int_equal(losses, (1u << (SPEC_LOSS_BCE_WITH_LOGITS + 1)) - 1);
    assert_int_equal(optimizers, (1u << (SPEC_OPTIMIZER_LION + 1)) - 1);
    assert_int_equal(formats, (1u << (SPEC_FORMAT_TEXT + 1)) - 1);
    assert_int_equal(metrics, (1u << SPEC_METRIC_COUNT) - 1);
}

static void
test_spec_sections_files(void **state)
{
    struct spec *s = parse(SAMPLE(1));
    const char *key, *path;
    int n = 0;
    struct err err;

    (void)state;
    assert_int_equal(spec_resolve_paths(s, "/d", &err), 0);
    assert_string_equal(s->data.train.mask, "/d/m");
    assert_string_equal(s->data.train.target, "/d/t");
    assert_string_equal(s->initial_weights, "/d/w");
    while (spec_file_at(s, n, &key, &path)) {
        if (path != NULL)
            assert_int_equal(path[0], '/');
        if (strcmp(key, "data.train.mask") == 0)
            assert_string_equal(path, "/d/m");
        n++;
    }
    assert_int_equal(n, 7);
    spec_destroy(&s);
}

/* ---- faults -------------------------------------------------------------- */

#define SOURCE "'train': {'format': 'npy', 'input': 'x', 'target': 'y'}"
#define TEXT   "'train': {'format': 'text', 'input': 'x'}"

/* A spec of these parts: exactly one fault. */
static const struct {
    const char *data, *rest, *path, *message;
} faults_of[] = {
    {"'train': {'format': 'idx', 'input': 'x'}", "", "data.train.target",
     "missing; must be a path"},
    {"'train': {'format': 'npy', 'input': 'x', 'target': null}", "",
     "data.train.target", "must be a path, not null"},
    {"'train': {'format': 'csv', 'input': 'x', 'target': 'y',"
     " 'target_columns': [0]}",
     "", "data.train.target", "has no meaning for format csv"},
    {"'train': {'format': 'csv', 'input': 'x'}", "",
     "data.train.target_columns",
     "missing; must be a list of column names or numbers"},
    {"'train': {'format': 'csv', 'input': 'x', 'target_columns': null}", "",
     "data.train.target_columns",
     "must be a list of column names or numbers, not null"},
    {"'train': {'format': 'csv', 'input': 'x', 'target_columns': []}", "",
     "data.train.target_columns", "may not be an empty list"},
    {"'train': {'format': 'csv', 'input': 'x', 'target_columns': [-1]}", "",
     "data.train.target_columns[0]",
     "must be a column's name or its number, not -1"},
    {"'train': {'format': 'npy', 'input': 'x', 'target': 'y',"
     " 'input_name': 'a'}",
     "", "data.train.input_name", "has no meaning for format npy"},
    {"'train': {'format': 'npy', 'input': 'x', 'target': 'y',"
     " 'part': [0, 1]}",
     "", "data.train.part", "has no meaning for format npy"},
    {"'train': {'format': 'text', 'input': 'x', 'token_dtype': 'uint16'},"
     " 'sequence_length': 4",
     "", "data.train.token_dtype", "has no meaning for format text"},
    {"'train': {'format': 'tokens', 'input': 'x', 'token_dtype': 'uint8'},"
     " 'sequence_length': 4",
     "", "data.train.token_dtype",
     "unknown token_dtype \"uint8\"; did you mean uint16?"},
    {"'train': {'format': 'csv', 'input': 'x', 'target_columns': ['y'],"
     " 'mask': 'm'}",
     "", "data.train.mask", "has no meaning for format csv"},
    {"'train': {'format': 'text', 'input': 'x', 'part': [0.5, 0.5]},"
     " 'sequence_length': 4",
     "", "data.train.part", "must be in order, not 0.5 to 0.5"},
    {"'train': {'format': 'text', 'input': 'x', 'part': [0, 2]},"
     " 'sequence_length': 4",
     "", "data.train.part[1]", "must be a number from 0 to 1, not 2"},
    {"'train': {'format': 'text', 'input': 'x', 'part': 0.5},"
     " 'sequence_length': 4",
     "", "data.train.part", "must be a list of two numbers, from and to"},
    {TEXT, "", "data.sequence_length",
     "missing; must be an integer, 1 or more, for format text"},
    {TEXT ", 'sequence_length': 0", "", "data.sequence_length",
     "must be 1 or more for format text"},
    {TEXT ", 'sequence_length': 4294967296", "", "data.sequence_length",
     "must be at most 2147483647, not 4294967296"},
    {SOURCE ", 'sequence_length': 4", "", "data.sequence_length",
     "has no meaning for format npy"},
    {TEXT ", 'sequence_length': 4, 'normalize': {}", "", "data.normalize",
     "token ids cannot be normalized"},
    {TEXT ", 'sequence_length': 4, 'augment': {}", "", "data.augment",
     "is for images, which format text has not"},
    {"'train': {'format': 'csv', 'input': 'x', 'target_columns': [0]},"
     " 'augment': {'horizontal_flip': {}}",
     "", "data.augment", "is for images, which format csv has not"},
    {TEXT ", 'sequence_length': 4, 'validation': {'format': 'npy',"
          " 'input': 'x', 'target': 'y'}",
     "", "data.validation", "format npy does not go with training on text"},
    {SOURCE ", 'augment': {'random_crop': {}}", "",
     "data.augment.random_crop.padding",
     "missing; must be an integer from 1 to 1048576"},
    {SOURCE ", 'augment': {'random_crop': 4}", "", "data.augment.random_crop",
     "must be an object, not an integer"},
    {SOURCE ", 'augment': {'flip': {}}", "", "data.augment.flip",
     "unknown key; did you mean horizontal_flip?"},
    {SOURCE, ", 'initial_weights': {'partial': true}", "initial_weights.path",
     "missing; must be a path"},
    {SOURCE, ", 'initial_weights': []", "initial_weights",
     "must be a path, not a list"},
    {SOURCE, ", 'loss': {'huber': {'delta': 0}}", "loss.huber.delta",
     "must be a number above 0, not 0"},
    {SOURCE, ", 'loss': {'kl_div': {'reduction': 'sum'}}",
     "loss.kl_div.reduction",
     "unknown reduction \"sum\"; known: mean, batchmean"},
    {SOURCE, ", 'loss': {'nll': {'label_smoothing': 0.1}}",
     "loss.nll.label_smoothing", "unknown key; known: ignore_index"},
    {SOURCE, ", 'loss': {'nll': {'ignore_index': 0.5}}",
     "loss.nll.ignore_index", "must be an integer or null, not 0.5"},
    {SOURCE, ", 'optimizer': []", "optimizer",
     "must have at least one optimizer"},
    {SOURCE, ", 'optimizer': ['adam', 'adam', 'adam', 'adam', 'adam']",
     "optimizer", "has 5 elements, at most 4 are allowed"},
    {SOURCE, ", 'optimizer': ['adam', 'lion']", "optimizer[0].match",
     "missing; only the last optimizer takes all that is left"},
    {SOURCE, ", 'optimizer': [{'match': [], 'adam': {}}, 'adam']",
     "optimizer[0].match", "must have at least one pattern"},
    {SOURCE, ", 'optimizer': [{'match': ['b*'], 'adam': {}}, 'adam']",
     "optimizer[0].match[0]",
     "matches no parameter; they are called a.weight, ..."},
    {SOURCE, ", 'optimizer': [{'match': ['*'], 'adam': {}}, 'adam']",
     "optimizer[1]", "nothing is left for this optimizer to take"},
    {SOURCE,
     ", 'optimizer': [{'match': ['a.*'], 'adam': {}},"
     " {'match': ['a.bias'], 'adam': {}}]",
     "optimizer[1].match[0]", "matches parameters of other optimizers alone"},
    {SOURCE, ", 'optimizer': [{'match': ['a.weight'], 'adam': {}}]",
     "optimizer", "no optimizer takes a.bias"},
    {SOURCE,
     ", 'optimizer': [{'match': ['a.weight'], 'adam': {'groups':"
     " [{'match': ['a.bias']}]}}, 'adam']",
     "optimizer[0].adam.groups[0].match[0]",
     "matches parameters of other optimizers alone"},
    {SOURCE, ", 'optimizer': {'match': ['*'], 'adam': {}}", "optimizer.match",
     "unknown key; settings of an optimizer go inside its own object"},
    {SOURCE, ", 'optimizer': {'lion': {'eps': 1}}", "optimizer.lion.eps",
     "unknown key; known: lr, betas, weight_decay, groups"},
    {SOURCE, ", 'optimizer': {'rmsprop': {'alpha': 1}}",
     "optimizer.rmsprop.alpha",
     "must be a number, 0 or more and below 1, not 1"},
    {SOURCE, ", 'schedule': {'cosine': {'count': 'epochs'}}",
     "schedule.cosine.count",
     "unknown count \"epochs\"; known: updates, iterations"},
    {SOURCE, ", 'train': {'ema': {}}", "train.ema.decay",
     "missing; must be a number above 0 and below 1"},
    {SOURCE, ", 'train': {'ema': 0.9}", "train.ema",
     "must be an object, not a number with a fraction or exponent"},
    {SOURCE, ", 'train': {'recompute': ['*']}", "train.recompute[0]",
     "there is no sequential and no residual"},
    {SOURCE, ", 'train': {'recompute': [1]}", "train.recompute[0]",
     "must be a pattern of containers, a string"},
    {SOURCE, ", 'evaluate': {'metrics': ['top_k']}", "evaluate.metrics[0]",
     "top_k needs classes: the loss is mse, not cross_entropy or nll"},
    {SOURCE, ", 'evaluate': {'metrics': ['perplexity']}", "evaluate.metrics[0]",
     "perplexity needs classes: the loss is mse, not cross_entropy or nll"},
    {SOURCE, ", 'evaluate': {'metrics': ['confusion']}", "evaluate.metrics[0]",
     "confusion needs classes: the loss is mse, not cross_entropy or nll"},
    {SOURCE, ", 'evaluate': {'top_k': 0}", "evaluate.top_k",
     "must be an integer, 1 or more, not 0"},
    {SOURCE, ", 'checkpoint': {'best': 'confusion'}", "checkpoint.best",
     "confusion is a table and cannot choose"},
    {SOURCE, ", 'checkpoint': {'best': 'top_k'}", "checkpoint.best",
     "top_k needs classes: the loss is mse, not cross_entropy or nll"},
};

static void
test_spec_sections_faults(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(faults_of) / sizeof(faults_of[0]); i++) {
        const char *rest = faults_of[i].rest;
        char sample[1000];
        struct spec_faults faults;
        struct spec *spec;
        char *text;

        snprintf(
            sample, sizeof(sample),
            "{'data': {%s, 'batch_size': 8}, 'model': [{'name': 'a',"
            " 'linear': {'out_features': 3}}]%s%s%s}",
            faults_of[i].data, strstr(rest, "'loss'") ? "" : ", 'loss': 'mse'",
            strstr(rest, "'optimizer'") ? "" : ", 'optimizer': 'adam'", rest);
        text = spec_sample_text(sample);
        if (spec_parse(text, strlen(text), &spec, &faults) != ERR_SPEC)
            fail_msg("no fault in %s", text);
        assert_string_equal(faults.list[0].message, faults_of[i].message);
        assert_string_equal(faults.list[0].path, faults_of[i].path);
        if (faults.n != 1)
            fail_msg("%s: also %s", text, faults.list[1].message);
        spec_faults_fini(&faults);
        free(text);
    }
}

/* A container's name that no pattern of recompute means. */
static void
test_spec_sections_recompute(void **state)
{
    char *text = spec_sample_text(
        "{'data': {" SOURCE ", 'batch_size': 1}, 'model': [{'name': 'h',"
        " 'sequential': [{'sequential': ['relu']}]}], 'loss': 'mse',"
        " 'optimizer': 'adam', 'train': {'recompute': ['h.0', 'g.*']}}");
    struct spec_faults faults;
    struct spec *spec;

    (void)state;
    assert_int_equal(spec_parse(text, strlen(text), &spec, &faults), ERR_SPEC);
    assert_int_equal(faults.n, 1);
    assert_string_equal(faults.list[0].path, "train.recompute[1]");
    assert_string_equal(faults.list[0].message,
                        "matches no container; they are called h, ...");
    spec_faults_fini(&faults);
    free(text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec_sections_defaults),
        cmocka_unit_test(test_spec_sections_values),
        cmocka_unit_test(test_spec_sections_all),
        cmocka_unit_test(test_spec_sections_files),
        cmocka_unit_test(test_spec_sections_faults),
        cmocka_unit_test(test_spec_sections_recompute),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
