/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model: a small model from a few words of JSON, for tests of graph and pass.
 *
 * model_spec() wraps "model" and "loss" into a whole spec; the shape of the
 * data is given beside it. Everything fails the running CMocka test when it
 * does not work. Header only.
 */
#ifndef TESTS_SUPPORT_MODEL_H
#define TESTS_SUPPORT_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/graph/build.h"
#include "engine/pass/autocast.h"
#include "engine/pass/autodiff.h"
#include "engine/pass/program.h"

#define MODEL_UNUSED __attribute__((unused))

/* Samples of K features, of C x H x W images; classes, or numbers [K]. */
#define MODEL_ROWS(k)      .rank = 1, .dim = {k}
#define MODEL_IMAGES(c, s) .rank = 3, .dim = {c, s, s}
#define MODEL_CLASSES      .target_is_class = true
#define MODEL_NUMBERS(k)   .target_rank = 1, .target_dim = {k}, .target_elems = k

static MODEL_UNUSED struct spec *
model_spec(const char *model, const char *loss)
{
    struct spec_faults faults = {NULL, 0};
    struct spec *spec = NULL;
    char text[4096];

    assert_true((size_t)snprintf(text, sizeof(text),
                                 "{\"data\": {\"train\": {\"format\": \"npy\", "
                                 "\"input\": \"x\", \"target\": \"y\"}, "
                                 "\"batch_size\": 4}, \"model\": %s, "
                                 "\"loss\": \"%s\", "
                                 "\"optimizer\": {\"sgd\": {\"lr\": 0.1}}}",
                                 model, loss) < sizeof(text));
    if (spec_parse(text, strlen(text), &spec, &faults) != 0)
        fail_msg("%s: %s", faults.list[0].path, faults.list[0].message);
    spec_faults_fini(&faults);
    return spec;
}

/* The graph for batches of n. */
static MODEL_UNUSED struct graph *
model_graph(const char *model, const char *loss, const struct build_data *data,
            enum build_mode mode, int64_t n)
{
    struct spec *spec = model_spec(model, loss);
    struct graph *g = NULL;
    struct err err;

    if (build_graph(spec, data, mode, n, &g, &err) != 0)
        fail_msg("%s", err.msg);
    spec_destroy(&spec);
    return g;
}

/* The sentence with which building fails. */
static MODEL_UNUSED const char *
model_refusal(const char *model, const char *loss,
              const struct build_data *data, enum build_mode mode, int64_t n,
              struct err *err)
{
    struct spec *spec = model_spec(model, loss);
    struct graph *g = NULL;

    assert_int_equal(build_graph(spec, data, mode, n, &g, err), ERR_SPEC);
    assert_int_equal(err->code, ERR_SPEC);
    assert_null(g);
    spec_destroy(&spec);
    return err->msg;
}

/* Each of these frees its graph and makes the next. */
static MODEL_UNUSED struct graph *
model_autocast(struct graph *g, enum dtype dtype, const char *region)
{
    const struct autocast_policy policy = {dtype, &region, region != NULL};
    struct graph *out = NULL;
    struct err err;

    if (autocast_apply(g, &policy, &out, &err) != 0)
        fail_msg("%s", err.msg);
    graph_destroy(&g);
    return out;
}

static MODEL_UNUSED struct graph *
model_autodiff(struct graph *g, bool wgrad_pytorch, bool accumulate)
{
    const struct autodiff_options options = {wgrad_pytorch, accumulate};
    struct graph *out = NULL;
    struct err err;

    if (autodiff_apply(g, &options, &out, &err) != 0)
        fail_msg("%s", err.msg);
    graph_destroy(&g);
    return out;
}

static MODEL_UNUSED struct program *
model_program(struct graph *g, bool keep_all)
{
    const struct program_options options = {.backend =
                                                backend_find("reference"),
                                            .threads = 1,
                                            .keep_all = keep_all};
    struct program *program = NULL;
    struct err err;

    if (program_compile_take(g, &options, &program, &err) != 0)
        fail_msg("%s", err.msg);
    return program;
}

/* The value of that name; fails when there is none. */
static MODEL_UNUSED int
model_value(const struct graph *g, const char *name)
{
    for (int i = 0; i < graph_n_values(g); i++)
        if (strcmp(graph_value_at(g, i)->name, name) == 0)
            return i;
    fail_msg("no value is called %s", name);
    return -1;
}

/* The first node of that op (the one of `layer`, when not NULL), or NULL. */
static MODEL_UNUSED const struct graph_node *
model_node(const struct graph *g, enum op op, const char *layer)
{
    for (int i = 0; i < graph_n_nodes(g); i++) {
        const struct graph_node *node = graph_node_at(g, i);

        if (node->op == op && (layer == NULL || !strcmp(node->layer, layer)))
            return node;
    }
    return NULL;
}

/* How many nodes have that op. */
static MODEL_UNUSED int
model_count(const struct graph *g, enum op op)
{
    int n = 0;

    for (int i = 0; i < graph_n_nodes(g); i++)
        n += graph_node_at(g, i)->op == op;
    return n;
}

#endif
