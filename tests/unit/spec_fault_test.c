/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "proto/utf8.h"
#include "tests/unit/spec_samples.h"

static struct spec_faults
refuse(const char *text, size_t len)
{
    struct spec_faults faults;
    struct spec *spec = NULL;

    assert_int_equal(spec_parse(text, len, &spec, &faults), ERR_SPEC);
    assert_null(spec);
    assert_true(faults.n > 0 && faults.n <= 100);
    for (int i = 0; i < faults.n; i++) {
        const struct spec_fault *f = &faults.list[i];

        assert_true(f->line >= 1 && f->col >= 1);
        assert_true(f->message[0] != '\0');
        assert_true(utf8_valid(f->message, strlen(f->message)));
        assert_true(utf8_valid(f->path, strlen(f->path)));
        assert_false(utf8_has_control(f->message, strlen(f->message)));
        assert_false(utf8_has_control(f->path, strlen(f->path)));
        if (i > 0)
            assert_true(f[-1].line < f->line ||
                        (f[-1].line == f->line && f[-1].col <= f->col));
    }
    return faults;
}

static void
expect(const struct spec_fault *f, int line, int col, const char *path,
       const char *message)
{
    char want[600], got[600];

    snprintf(want, sizeof(want), "%d:%d: %s: %s", line, col, path, message);
    snprintf(got, sizeof(got), "%d:%d: %s: %s", f->line, f->col, f->path,
             f->message);
    assert_string_equal(got, want);
}

/* The promise of the manual: all faults at once, each with its place. */
static void
test_spec_five_faults(void **state)
{
    char *text = spec_sample_text("{\n"
                                  "  'data': {\n"
                                  "    'train': {'format': 'idx', 'input': "
                                  "'x', 'target': 'y'},\n"
                                  "    'batch_size': 0\n"
                                  "  },\n"
                                  "  'model': [\n"
                                  "    {'conv2d': {'out_channels': 8, "
                                  "'kernal_size': 3}},\n"
                                  "    {'linear': {'out_features': '10'}}\n"
                                  "  ],\n"
                                  "  'loss': 'cross_entropy',\n"
                                  "  'optimizer': {'adamw': {'lr': 1e-3}},\n"
                                  "  'amp': {'dtype': 'fp16'}\n"
                                  "}\n");
    struct spec_faults faults = refuse(text, strlen(text));

    (void)state;
    assert_int_equal(faults.n, 5);
    expect(&faults.list[0], 4, 19, "data.batch_size",
           "must be an integer, 1 or more, not 0");
    expect(&faults.list[1], 7, 16, "model[0].conv2d.kernel_size",
           "missing; must be an integer, 1 or more");
    expect(&faults.list[2], 7, 36, "model[0].conv2d.kernal_size",
           "unknown key; did you mean kernel_size?");
    expect(&faults.list[3], 8, 33, "model[1].linear.out_features",
           "must be an integer, 1 or more, not a string");
    expect(&faults.list[4], 12, 20, "amp.dtype",
           "unknown dtype \"fp16\"; did you mean float16?");
    spec_faults_fini(&faults);
    assert_int_equal(faults.n, 0);
    free(text);
}

/* The minimal spec with one assignment: exactly this fault. */
static const struct {
    const char *assignment, *path, *message;
} single[] = {
    {"sed=1", "sed", "unknown key; did you mean seed?"},
    {"budget=[]", "budget",
     "unknown key; known: name, seed, device, threads, initial_weights, data, "
     "model, loss, optimizer, schedule, amp, train, evaluate, checkpoint, "
     "guard, "
     "diagnose"},
    {"seed=-1", "seed", "must be an integer from 0 to 2^63 - 1, not -1"},
    {"seed=1.5", "seed", "must be an integer from 0 to 2^63 - 1, not 1.5"},
    {"seed=true", "seed", "must be an integer from 0 to 2^63 - 1, not true"},
    {"threads=2000", "threads", "must be at most 1024, not 2000"},
    {"device=cuda", "device", "unknown device \"cuda\"; known: cpu"},
    {"name=\"\"", "name", "may not be empty"},
    {"name=\"a\\nb\"", "name", "may not hold control characters"},
    {"name=\"a\\u009bb\"", "name", "may not hold control characters"},
    {"name=7", "name", "must be a string, not an integer"},
    {"initial_weights=3", "initial_weights", "must be a path, not an integer"},
    {"data.train.format=idz", "data.train.format",
     "unknown format \"idz\"; did you mean idx?"},
    {"data.train.labels=q", "data.train.labels",
     "unknown key; did you mean target?"},
    {"data.train=null", "data.train", "must be an object, not null"},
    {"data=[]", "data", "must be an object, not a list"},
    {"data.normalize={\"mean\": [1, 2], \"std\": [1, 2, 3]}",
     "data.normalize.std", "has 3 elements where mean has 2"},
    {"data.normalize={\"std\": 0}", "data.normalize.std",
     "must be a number above 0, not 0"},
    {"data.normalize={\"mean\": []}", "data.normalize.mean",
     "may not be an empty list"},
    {"data.shuffle=1", "data.shuffle", "must be true or false, not an integer"},
    {"data.batch_size=4294967296", "data.batch_size",
     "must be at most 2147483647, not 4294967296"},
    {"model=[]", "model", "must have at least one layer"},
    {"model={}", "model", "names no preset"},
    {"model=7", "model", "must be a list, not an integer"},
    {"model=mpl", "model", "unknown preset \"mpl\"; did you mean mlp?"},
    {"model[0]=con2d", "model[0]",
     "unknown layer \"con2d\"; did you mean conv2d?"},
    {"model[0]=BatchNorm2d", "model[0]",
     "unknown layer \"BatchNorm2d\"; did you mean batch_norm2d?"},
    {"model[0]=swish", "model[0]",
     "unknown layer \"swish\"; did you mean silu?"},
    {"model[0]=7", "model[0]",
     "must be the name of a known layer or an object, not an integer"},
    {"model[0]={}", "model[0]", "names no layer"},
    {"model[0]={\"name\": \"x\"}", "model[0]", "names no layer"},
    {"model[0]=linear", "model[0].out_features",
     "missing; must be an integer, 1 or more: write {\"linear\": {...}}"},
    {"model[0]={\"relu\": {}, \"gelu\": {}}", "model[0].gelu",
     "one layer too many: an object names exactly one"},
    {"model[0]={\"relu\": {}, \"inplace\": true}", "model[0].inplace",
     "unknown key; settings of a layer go inside its own object"},
    {"model[0]={\"relu\": {\"inplace\": true}}", "model[0].relu.inplace",
     "unknown key; none is known here"},
    {"model[0]={\"relu\": []}", "model[0].relu",
     "must be an object, not a list"},
    {"model[0]={\"name\": \"a.b\", \"relu\": {}}", "model[0].name",
     "may not hold '.' or '/'"},
    {"model[0]={\"name\": \"7\", \"relu\": {}}", "model[0].name",
     "may not be a number: those are positions"},
    {"model=[{\"name\": \"a\", \"relu\": {}}, {\"name\": \"a\", \"relu\": {}}]",
     "model[1].name", "layer 0 has this name already"},
    {"model[0]=residual", "model[0]",
     "residual needs layers: write {\"residual\": [...]}"},
    {"model[0]={\"residual\": []}", "model[0].residual",
     "must have at least one layer"},
    {"model[0]={\"conv2d\": {\"out_channels\": 7, \"kernel_size\": 1, "
     "\"groups\": 2}}",
     "model[0].conv2d.groups", "2 groups do not divide out_channels 7"},
    {"model[0]={\"conv2d\": {\"out_channels\": 8, \"kernel_size\": [1, 2, 3]}}",
     "model[0].conv2d.kernel_size", "must have two elements, [h, w], not 3"},
    {"model[0]={\"max_pool2d\": {\"kernel_size\": 3, \"padding\": 2}}",
     "model[0].max_pool2d.padding", "must be at most half of kernel_size"},
    {"model[0]={\"max_pool2d\": {\"kernel_size\": 3, \"stride\": 0}}",
     "model[0].max_pool2d.stride", "must be an integer, 1 or more, not 0"},
    {"model[0]={\"dropout\": {\"p\": 1.5}}", "model[0].dropout.p",
     "must be a number from 0 to 1, not 1.5"},
    {"model[0]={\"layer_norm\": {\"normalized_shape\": [1, 2, 3, 4, 5]}}",
     "model[0].layer_norm.normalized_shape",
     "has 5 elements, at most 4 are allowed"},
    {"model[0]={\"gelu\": {\"approximate\": \"tan\"}}",
     "model[0].gelu.approximate",
     "unknown approximation \"tan\"; did you mean tanh?"},
    {"loss=binary_cross_entropy", "loss",
     "binary_cross_entropy is unsafe under autocast; ask for "
     "bce_with_logits"},
    {"loss=CrossEntropyLoss", "loss",
     "unknown loss \"CrossEntropyLoss\"; did you mean cross_entropy?"},
    {"loss={\"mse\": {\"reduction\": \"sum\"}}", "loss.mse.reduction",
     "unknown key; none is known here"},
    {"loss={\"cross_entropy\": {\"label_smoothing\": 2}}",
     "loss.cross_entropy.label_smoothing",
     "must be a number from 0 to 1, not 2"},
    {"optimizer=sgd", "optimizer.lr",
     "missing; must be a number, 0 or more: write {\"sgd\": {\"lr\": ...}}"},
    {"optimizer={\"sgd\": {}}", "optimizer.sgd.lr",
     "missing; must be a number, 0 or more"},
    {"optimizer=adan", "optimizer",
     "unknown optimizer \"adan\"; did you mean adam?"},
    {"optimizer={\"adam\": {\"learning_rate\": 1}}",
     "optimizer.adam.learning_rate", "unknown key; did you mean lr?"},
    {"optimizer={\"adam\": {\"lr\": \"1e-3\"}}", "optimizer.adam.lr",
     "must be a number, 0 or more, not a string"},
    {"optimizer={\"adam\": {\"lr\": -1}}", "optimizer.adam.lr",
     "must be a number, 0 or more, not -1"},
    {"optimizer={\"adam\": {\"betas\": [0.9, 1]}}", "optimizer.adam.betas[1]",
     "must be a number, 0 or more and below 1, not 1"},
    {"optimizer={\"adam\": {\"betas\": 0.9}}", "optimizer.adam.betas",
     "must be a list of two numbers"},
    {"optimizer={\"adam\": {\"momentum\": 0.9}}", "optimizer.adam.momentum",
     "unknown key; known: lr, betas, eps, weight_decay, groups"},
    {"optimizer={\"sgd\": {\"lr\": 1, \"nesterov\": true}}",
     "optimizer.sgd.nesterov",
     "nesterov wants momentum above 0 and dampening 0"},
    {"optimizer={\"adam\": {\"groups\": [{\"lr\": 1}]}}",
     "optimizer.adam.groups[0].match",
     "missing; must be a list of fnmatch(3) patterns of parameters"},
    {"optimizer={\"adam\": {\"groups\": [{\"match\": [\"head.*\"]}]}}",
     "optimizer.adam.groups[0].match[0]",
     "matches no parameter; they are called 0.weight, ..."},
    {"schedule=cosin", "schedule",
     "unknown schedule \"cosin\"; did you mean cosine?"},
    {"schedule=step", "schedule.step_size",
     "missing; must be an integer, 1 or more: write {\"step\": "
     "{\"step_size\": ...}}"},
    {"schedule={\"linear\": {\"warmup_updates\": 9, \"total_updates\": 9}}",
     "schedule.linear.total_updates",
     "must be above warmup_updates, or 0 for the whole run"},
    {"amp.dtype=float64", "amp.dtype",
     "unknown dtype \"float64\"; did you mean float32?"},
    {"amp.scaler=on", "amp.scaler", "must be true, false or an object"},
    {"amp.scaler.growth_factor=1", "amp.scaler.growth_factor",
     "must be a number above 1, not 1"},
    {"amp.scaler.backoff_factor=1", "amp.scaler.backoff_factor",
     "must be a number above 0 and below 1, not 1"},
    {"amp.scaler.init_scale=33554432", "amp.scaler.init_scale",
     "init_scale 33554432 is above max_scale 16777216"},
    {"amp.scaler.init_scale=0.5", "amp.scaler.init_scale",
     "init_scale 0.5 is below min_scale 1"},
    {"amp.scaler.init_scale=1e39", "amp.scaler.init_scale",
     "must be at most 3.40282347e+38, not 1e39"},
    {"amp.scaler.max_scale=0.5", "amp.scaler.max_scale",
     "min_scale 1 is above max_scale 0.5"},
    {"amp.fp32_regions=[\"1\"]", "amp.fp32_regions[0]",
     "unknown layer; known: 0"},
    {"amp.wgrad_rounding=fp16", "amp.wgrad_rounding",
     "unknown rounding \"fp16\"; known: fp32, pytorch"},
    {"train.epochs=0", "train.epochs", "must be an integer, 1 or more, not 0"},
    {"train.accumulate=65536", "train.accumulate",
     "must be at most 65535, not 65536"},
    {"train.epoch=3", "train.epoch", "unknown key; did you mean epochs?"},
    {"train.clip_grad_norm=-1", "train.clip_grad_norm",
     "must be a number, 0 or more, not -1"},
    {"evaluate.every_updates=5", "evaluate.every_updates",
     "there is no data.validation to evaluate on"},
    {"evaluate.metrics=[\"accuracy\"]", "evaluate.metrics[0]",
     "accuracy needs classes: the loss is mse, not cross_entropy or nll"},
    {"evaluate.metrics=[\"loss\", \"loss\"]", "evaluate.metrics[1]",
     "stands here twice"},
    {"checkpoint.best=accurracy", "checkpoint.best",
     "unknown metric \"accurracy\"; did you mean accuracy?"},
    {"checkpoint.best=loss", "checkpoint.best",
     "there is no data.validation to choose by"},
    {"checkpoint.keep=0", "checkpoint.keep",
     "must be an integer, 1 or more, not 0"},
};

static void
test_spec_single_faults(void **state)
{
    char *text = spec_sample_text(spec_sample_minimal);

    (void)state;
    for (size_t i = 0; i < sizeof(single) / sizeof(single[0]); i++) {
        struct spec_faults faults;
        struct err err;
        char *changed;

        if (spec_set(text, strlen(text), single[i].assignment, &changed,
                     &err) != 0)
            fail_msg("%s: %s", single[i].assignment, err.msg);
        faults = refuse(changed, strlen(changed));
        assert_string_equal(faults.list[0].message, single[i].message);
        assert_string_equal(faults.list[0].path, single[i].path);
        assert_int_equal(faults.n, 1);
        spec_faults_fini(&faults);
        free(changed);
    }
    free(text);
}

/* What is no JSON at all has one fault, where jansson saw it. */
static void
test_spec_syntax(void **state)
{
    static const struct {
        const char *text;
        int line, col;
        const char *message;
    } rows[] = {
        {"", 1, 1, "'[' or '{' expected near end of file"},
        {"{\n  \"a\": 1,\n}", 3, 1, "string or '}' expected near '}'"},
        {"{\"a\": NaN}", 1, 9, "invalid token near 'NaN'"},
        {"{\"a\": 1 \"b\"}", 1, 11, "'}' expected near '\"b\"'"},
        {"{\"a\": '1'}", 1, 7, "invalid token near '''"},
        {"{} x", 1, 4, "end of file expected near 'x'"},
        {"{\"a\": \"\xff\"}", 1, 7, "unable to decode byte 0xff near '\"'"},
        {"// no comments\n{}", 1, 1, "'[' or '{' expected near '/'"},
        {"{\"a\": \"\\u0000\"}", 1, 14,
         "\\u0000 is not allowed without JSON_ALLOW_NUL near "
         "'\"\\u0000\"'"},
        {"{\"a\x1b\": 1}", 1, 3, "control character 0x1b near '\"a'"},
        {"[]", 1, 1, "must be an object, not a list"},
        {"{}", 1, 1, "missing; must be an object"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct spec_faults faults = refuse(rows[i].text, strlen(rows[i].text));

        assert_string_equal(faults.list[0].message, rows[i].message);
        assert_int_equal(faults.list[0].line, rows[i].line);
        assert_int_equal(faults.list[0].col, rows[i].col);
        spec_faults_fini(&faults);
    }
}

/* Repeated keys and numbers beyond double are found beside other faults. */
static void
test_spec_duplicates_and_overflow(void **state)
{
    char *text = spec_sample_text(
        "{'data': {'train': {'format': 'idx', 'input': 'x', 'target': 'y'},\n"
        "'batch_size': 8, 'batch_s\\u0069ze': 9},\n"
        "'model': [{'linear': {'out_features': 99999999999999999999}},\n"
        "{'batch_norm1d': {'eps': 1e400}}, 'relo'],\n"
        "'loss': 'mse', 'optimizer': 'adam'}");
    struct spec_faults faults = refuse(text, strlen(text));

    (void)state;
    assert_int_equal(faults.n, 4);
    expect(&faults.list[0], 2, 18, "data.batch_s\\u0069ze", "duplicate key");
    expect(&faults.list[1], 3, 39, "model[0].linear.out_features",
           "is too large an integer");
    expect(&faults.list[2], 4, 26, "model[1].batch_norm1d.eps",
           "is too large or too long a number");
    expect(&faults.list[3], 4, 35, "model[2]",
           "unknown layer \"relo\"; did you mean relu?");
    spec_faults_fini(&faults);
    free(text);
}

/* jansson skips a NUL behind a number; we do not. */
static void
test_spec_nul_byte(void **state)
{
    static const char text[] = "{\"seed\": 8\0}";
    struct spec_faults faults = refuse(text, sizeof(text) - 1);

    (void)state;
    assert_int_equal(faults.n, 1);
    expect(&faults.list[0], 1, 11, "", "unexpected byte");
    spec_faults_fini(&faults);
}

/* A number beyond double says so at its own place. */
static void
test_spec_huge_number(void **state)
{
    char *text = spec_sample_text(spec_sample_minimal), *changed;
    struct spec_faults faults;

    (void)state;
    assert_int_equal(spec_set(text, strlen(text), "amp.scaler.init_scale=65536",
                              &changed, NULL),
                     0);
    memcpy(strstr(changed, "65536"), "9e999", 5);
    faults = refuse(changed, strlen(changed));
    expect(&faults.list[0], 1, faults.list[0].col, "amp.scaler.init_scale",
           "is too large or too long a number");
    spec_faults_fini(&faults);
    free(changed);
    free(text);
}

static void
test_spec_cross_checks(void **state)
{
    char *text = spec_sample_text(
        "{'data': {'train': {'format': 'idx', 'input': 'x', 'target': 'y'},"
        "'validation': {'format': 'idx', 'input': 'x', 'target': 'y'},"
        "'batch_size': 8},\n"
        "'model': [{'name': 'head', 'linear': {'out_features': 1,"
        " 'bias': false}}, {'name': 'norm', 'batch_norm1d':"
        " {'affine': false}}],\n"
        "'loss': 'cross_entropy',\n"
        "'optimizer': {'adam': {'groups': [{'match':\n"
        "['head.weight',\n'head.bias',\n'norm.*']}]}},\n"
        "'amp': {'fp32_regions': ['norm', 'heda', 'norm.weight']},\n"
        "'evaluate': {'metrics': ['loss']},\n"
        "'checkpoint': {'best': 'accuracy'}}");
    struct spec_faults faults = refuse(text, strlen(text));

    (void)state;
    assert_int_equal(faults.n, 5);
    expect(&faults.list[0], 6, 1, "optimizer.adam.groups[0].match[1]",
           "matches no parameter; they are called head.weight, ...");
    expect(&faults.list[1], 7, 1, "optimizer.adam.groups[0].match[2]",
           "matches no parameter; they are called head.weight, ...");
    expect(&faults.list[2], 8, 34, "amp.fp32_regions[1]",
           "unknown layer; did you mean head?");
    expect(&faults.list[3], 8, 42, "amp.fp32_regions[2]",
           "unknown layer; did you mean norm?");
    expect(&faults.list[4], 10, 24, "checkpoint.best",
           "accuracy is not among evaluate.metrics");
    spec_faults_fini(&faults);
    free(text);
}

static void
test_spec_limits(void **state)
{
    size_t n = SPEC_MAX_BYTES + 1;
    char *text = malloc(n);
    struct spec_faults faults;

    (void)state;
    memset(text, ' ', n);
    faults = refuse(text, n);
    assert_string_equal(faults.list[0].message,
                        "the spec is 1048577 bytes long, at most 1048576 are "
                        "allowed");
    spec_faults_fini(&faults);
    memset(text, '[', n);
    faults = refuse(text, n - 1);
    assert_string_equal(faults.list[0].message, "nested deeper than 64");
    assert_int_equal(faults.list[0].col, 65);
    spec_faults_fini(&faults);
    free(text);
}

/* Fills text up with copies of a piece between head and tail. */
static char *
repeat(const char *head, const char *piece, int n, const char *tail)
{
    size_t size = strlen(head) + strlen(piece) * (size_t)n + strlen(tail) + 1;
    char *text = malloc(size), *at;

    assert_non_null(text);
    at = stpcpy(text, head);
    for (int i = 0; i < n; i++)
        at = stpcpy(at, piece);
    strcpy(at, tail);
    return text;
}

static void
test_spec_too_many_layers(void **state)
{
    char *text =
        repeat("{\"model\": [\"relu\"", ",\"relu\"", SPEC_MAX_LAYERS, "]}");
    struct spec_faults faults = refuse(text, strlen(text));

    (void)state;
    assert_string_equal(faults.list[faults.n - 1].message,
                        "has 4097 elements, at most 4096 are allowed");
    spec_faults_fini(&faults);
    free(text);
}

/* A text that can be read whose full print could not: every layer is spelled
 * out, far inside. */
static void
test_spec_too_long_in_full(void **state)
{
    static const char tail[] =
        "], \"loss\": \"mse\", \"optimizer\": \"adam\", \"data\": {\"train\": "
        "{\"format\": \"npy\", \"input\": \"x\", \"target\": \"y\"}, "
        "\"batch_size\": 1}}";
    char head[1000] = "{\"model\": [", end[1000] = "";
    struct spec_faults faults;
    char *text;

    (void)state;
    for (int i = 0; i < 28; i++) {
        strcat(head, "{\"residual\": [");
        strcat(end, "]}");
    }
    strcat(head, "\"relu\"");
    strcat(end, tail);
    text = repeat(head,
                  ", {\"conv_transpose2d\": {\"out_channels\": 1, "
                  "\"kernel_size\": 1000000000, \"stride\": 1000000000}}",
                  SPEC_MAX_LAYERS - 29, end);
    faults = refuse(text, strlen(text));
    assert_int_equal(faults.n, 1);
    assert_non_null(strstr(faults.list[0].message,
                           " bytes long with all that it stands for, at most "
                           "1048576 are allowed"));
    spec_faults_fini(&faults);
    free(text);
}

/* The first hundred in the text stay, and a hostile text costs little. */
static void
test_spec_many_faults(void **state)
{
    static const struct {
        const char *head, *piece, *tail;
    } rows[] = {
        {"{\"model\": [\"relo\"", ",\"relo\"", "]}"},
        {"{\"x\": 1", ",\"y\": 1", "}"},
        {"{\"seed\": 1", ",\"seed\": 1", "}"},
        {"{\"amp\": {\"fp32_regions\": [0", ",0", "]}}"},
        {"{\"data\": {\"normalize\": {\"std\": [0", ",0", "]}}}"},
        {"{\"optimizer\": {\"adam\": {\"groups\": [0", ",0", "]}}}"},
        {"{\"\\u0061", "\\u0061", "\": 1}"},
        {"{\"name\": \"", "\xc3\xa9", "\"}"},
        {"{\"seed\": 0.", "0", "}"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int n = (SPEC_MAX_BYTES - 100) / (int)strlen(rows[i].piece);
        char *text = repeat(rows[i].head, rows[i].piece, n, rows[i].tail);
        clock_t start = clock();
        struct spec_faults faults = refuse(text, strlen(text));

        /* About 0.1 s; the bound is for a slow machine and a sanitizer. */
        assert_true(clock() - start < 10 * CLOCKS_PER_SEC);
        spec_faults_fini(&faults);
        free(text);
    }
}

static void
test_spec_first_hundred(void **state)
{
    char *text = repeat("{\n\"x\": 1", ",\n\"y\": 1", 300, "}");
    struct spec_faults faults = refuse(text, strlen(text));

    (void)state;
    assert_int_equal(faults.n, 100);
    /* Four required keys are missing, at the brace; then the unknown ones. */
    assert_int_equal(faults.list[3].line, 1);
    assert_int_equal(faults.list[4].line, 2);
    assert_int_equal(faults.list[99].line, 97);
    spec_faults_fini(&faults);
    free(text);
}

/* Deep residuals are fine as long as what is printed can be read: a list, a
 * layer in it, its settings, a list in those. */
static void
test_spec_deep_residuals(void **state)
{
    (void)state;
    for (int depth = 28; depth <= 30; depth++) {
        char text[4096] = "{\"model\": [";
        struct spec_faults faults;

        for (int i = 0; i < depth; i++)
            strcat(text, "{\"residual\": [");
        strcat(text, "\"relu\"");
        for (int i = 0; i < depth; i++)
            strcat(text, "]}");
        strcat(text, "]}");
        faults = refuse(text, strlen(text));
        /* data, loss, optimizer */
        assert_int_equal(faults.n, depth <= 29 ? 3 : 4);
        if (faults.n == 4)
            assert_string_equal(faults.list[3].message,
                                "its layers are nested deeper than 64");
        spec_faults_fini(&faults);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec_five_faults),
        cmocka_unit_test(test_spec_single_faults),
        cmocka_unit_test(test_spec_syntax),
        cmocka_unit_test(test_spec_duplicates_and_overflow),
        cmocka_unit_test(test_spec_nul_byte),
        cmocka_unit_test(test_spec_huge_number),
        cmocka_unit_test(test_spec_cross_checks),
        cmocka_unit_test(test_spec_limits),
        cmocka_unit_test(test_spec_too_many_layers),
        cmocka_unit_test(test_spec_too_long_in_full),
        cmocka_unit_test(test_spec_many_faults),
        cmocka_unit_test(test_spec_first_hundred),
        cmocka_unit_test(test_spec_deep_residuals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
