/* SPDX-License-Identifier: Apache-2.0 */
/* Parameter groups over the flat blocks; the formulas are the kernels'. */
#include "engine/run/optimizer.h"

#include "kernels/backend.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define N_PARAMS 4

/* a.weight[3], a.bias[20], b.weight[16], b.bias[1]: gaps after three. */
static struct graph *
make_graph(void)
{
    static const struct {
        const char *name;
        int64_t n;
    } row[N_PARAMS] = {
        {"a.weight", 3}, {"a.bias", 20}, {"b.weight", 16}, {"b.bias", 1}};
    struct graph *g = graph_create();

    assert_non_null(g);
    for (int i = 0; i < N_PARAMS; i++) {
        const struct graph_param p = {
            .name = row[i].name,
            .desc = tensor_make(DTYPE_F32, 1, &row[i].n),
            .init = GRAPH_INIT_ONE,
        };
        assert_true(graph_add_param(g, &p) >= 0);
    }
    return g;
}

struct fixture {
    struct graph *graph;
    struct state *state;
    struct spec spec;
    struct spec_group group[2];
    const char *match[2];
    struct lrate lrate;
    struct kernel_flat flat;
};

static void
setup(struct fixture *f, enum spec_optimizer kind, const char *match)
{
    memset(f, 0, sizeof(*f));
    f->match[0] = match;
    f->group[0] =
        (struct spec_group){.lr = 0.5, .betas = {0.9, 0.999}, .eps = 1e-8};
    f->group[1] = (struct spec_group){.match = f->match,
                                      .n_match = 1,
                                      .lr = 0.25,
                                      .weight_decay = 1,
                                      .betas = {0.9, 0.999},
                                      .eps = 1e-8};
    f->spec.n_optim = 1;
    f->spec.optim[0].kind = kind;
    f->spec.optim[0].group = f->group;
    f->spec.optim[0].n_group = match != NULL ? 2 : 1;
    f->spec.schedule.kind = SPEC_SCHEDULE_CONSTANT;
    f->graph = make_graph();
    f->flat = backend_flat(backend_find("reference"));
    lrate_init(&f->lrate, &f->spec, 10);
    assert_int_equal(
        state_create(f->graph, optimizer_n_moments(&f->spec), &f->state, NULL),
        0);
    state_init_weights(f->state, f->graph);
}

static void
teardown(struct fixture *f)
{
    state_destroy(&f->state);
    graph_destroy(&f->graph);
}

static struct optimizer *
make(const struct fixture *f)
{
    struct optimizer *o = NULL;
    struct err err;

    err_clear(&err);
    if (optimizer_create(&f->spec, f->state, &f->flat, 1, &f->lrate, &o,
                         &err) != 0)
        fail_msg("%s", err.msg);
    return o;
}

/* After the spec changed: with the moments that it wants now. */
static struct optimizer *
make_again(struct fixture *f)
{
    state_destroy(&f->state);
    assert_int_equal(
        state_create(f->graph, optimizer_n_moments(&f->spec), &f->state, NULL),
        0);
    state_init_weights(f->state, f->graph);
    return make(f);
}

static void
fill_grads(struct state *s, float g)
{
    for (int i = 0; i < s->n_params; i++)
        for (int64_t k = 0; k < s->param[i].n_elems; k++)
            s->grads[s->param[i].offset + k] = g;
}

static void
assert_gaps_zero(const struct state *s, const float *block)
{
    for (int i = 0; i < s->n_params; i++) {
        const int64_t end = s->param[i].offset + s->param[i].n_elems;
        const int64_t next =
            i + 1 < s->n_params ? s->param[i + 1].offset : s->param_elems;
        for (int64_t k = end; k < next; k++)
            assert_true(block[k] == 0);
    }
}

static void
test_optimizer_layout_is_aligned(void **unused)
{
    struct fixture f;

    (void)unused;
    setup(&f, SPEC_OPTIMIZER_SGD, NULL);
    const int64_t offset[N_PARAMS] = {0, 16, 48, 64};
    for (int i = 0; i < N_PARAMS; i++)
        assert_int_equal(f.state->param[i].offset, offset[i]);
    assert_int_equal(f.state->param_elems, 80);
    assert_true((uintptr_t)f.state->weights % 64 == 0);
    assert_null(f.state->moment[0]);
    teardown(&f);
}

static void
test_optimizer_groups_by_pattern(void **unused)
{
    struct fixture f;

    (void)unused;
    setup(&f, SPEC_OPTIMIZER_SGD, "*.bias");
    struct optimizer *o = make(&f);
    for (int i = 0; i < N_PARAMS; i++)
        assert_int_equal(optimizer_group_of(o, i), i % 2);
    fill_grads(f.state, 2);
    optimizer_step(o, f.state, 0, 0.5f);
    /* group 0: 1 - 0.5 x (2 x 0.5); group 1: 1 - 0.25 x (2 x 0.5 + 1). */
    for (int i = 0; i < N_PARAMS; i++)
        for (int64_t k = 0; k < f.state->param[i].n_elems; k++)
            assert_true(f.state->weights[f.state->param[i].offset + k] == 0.5f);
    assert_gaps_zero(f.state, f.state->weights);
    optimizer_destroy(&o);
    teardown(&f);
}

static void
test_optimizer_pattern_must_match(void **unused)
{
    struct optimizer *o = NULL;
    struct fixture f;
    struct err err;

    (void)unused;
    setup(&f, SPEC_OPTIMIZER_SGD, "hed.*");
    assert_int_equal(
        optimizer_create(&f.spec, f.state, &f.flat, 1, &f.lrate, &o, &err),
        ERR_SPEC);
    assert_null(o);
    assert_non_null(strstr(err.msg, "hed.*"));
    teardown(&f);
}

/* ---- several ------------------------------------------------------------- */

static const char *weights[] = {"*.weight"}, *a_only[] = {"a.*"},
                  *of_b[] = {"b.*"};

static void
add_optim(struct fixture *f, enum spec_optimizer kind, const char **match)
{
    f->spec.optim[f->spec.n_optim++] =
        (struct spec_optim){.kind = kind,
                            .match = match,
                            .n_match = match != NULL,
                            .group = f->group,
                            .n_group = 1};
}

static void
assert_refused(struct fixture *f, const char *sentence)
{
    struct optimizer *o = NULL;
    struct err err;

    err_clear(&err);
    assert_int_equal(
        optimizer_create(&f->spec, f->state, &f->flat, 1, &f->lrate, &o, &err),
        ERR_SPEC);
    assert_null(o);
    assert_string_equal(err.msg, sentence);
}

/* First match wins; the one without patterns takes the rest, wherever it
 * stands. */
static void
test_optimizer_several_share(void **unused)
{
    struct fixture f;
    const int owner[N_PARAMS] = {1, 0, 1, 2};

    (void)unused;
    setup(&f, SPEC_OPTIMIZER_ADAM, NULL);
    add_optim(&f, SPEC_OPTIMIZER_SGD, weights);
    add_optim(&f, SPEC_OPTIMIZER_SGD, of_b);
    struct optimizer *o = make(&f);
    assert_int_equal(optimizer_n(o), 3);
    assert_int_equal(f.state->n_optim, 3);
    for (int i = 0; i < N_PARAMS; i++) {
        assert_int_equal(f.state->param[i].optim, owner[i]);
        assert_int_equal(f.state->param[i].n_moments, owner[i] == 0 ? 2 : 0);
    }
    fill_grads(f.state, 2);
    struct kernel_unscale all = {0};
    for (int i = 0; i < 3; i++) {
        struct kernel_unscale one;
        optimizer_unscale(o, f.state, i, 0.5f, &one);
        all.sum_squares += one.sum_squares;
        all.found_inf |= one.found_inf;
    }
    assert_true(all.sum_squares == 40.0 && !all.found_inf);
    for (int i = 0; i < N_PARAMS; i++)
        assert_true(f.state->grads[f.state->param[i].offset] == 1);
    /* Only what it owns moves. */
    optimizer_step(o, f.state, 1, 1);
    for (int i = 0; i < N_PARAMS; i++)
        assert_true(f.state->weights[f.state->param[i].offset] ==
                    (owner[i] == 1 ? 0.5f : 1.0f));
    assert_gaps_zero(f.state, f.state->weights);
    optimizer_destroy(&o);
    teardown(&f);
}

/* A non-finite gradient belongs to its owner alone. */
static void
test_optimizer_found_inf_is_of_the_owner(void **unused)
{
    struct fixture f;
    struct kernel_unscale one;

    (void)unused;
    setup(&f, SPEC_OPTIMIZER_ADAM, NULL);
    add_optim(&f, SPEC_OPTIMIZER_SGD, weights);
    struct optimizer *o = make(&f);
    fill_grads(f.state, 1);
    f.state->grads[f.state->param[2].offset + 15] = INFINITY;
    optimizer_unscale(o, f.state, 0, 1, &one);
    assert_false(one.found_inf);
    optimizer_unscale(o, f.state, 1, 1, &one);
    assert_true(one.found_inf);
    optimizer_destroy(&o);
    teardown(&f);
}

static void
test_optimizer_several_refused(void **unused)
{
    struct fixture f;

    (void)unused;
    setup(&f, SPEC_OPTIMIZER_ADAM, NULL);
    f.spec.n_optim = 0;
    add_optim(&f, SPEC_OPTIMIZER_ADAM, a_only);
    add_optim(&f, SPEC_OPTIMIZER_SGD, weights);
    assert_refused(&f, "optimizer: none of 2 takes b.bias: one without "
                       "\"match\" would take all that is left");
    f.spec.n_optim = 0;
    add_optim(&f, SPEC_OPTIMIZER_ADAM, NULL);
    add_optim(&f, SPEC_OPTIMIZER_SGD, NULL);
    assert_refused(&f, "optimizer 1: no parameter is left for it");
    f.spec.n_optim = 0;
    f.match[0] = "c.*";
    add_optim(&f, SPEC_OPTIMIZER_ADAM, NULL);
    add_optim(&f, SPEC_OPTIMIZER_SGD, f.match);
    assert_refused(&f, "optimizer 1: \"c.*\" matches no parameter (there are "
                       "a.weight ... b.bias)");
    /* A group takes from what its optimizer owns. */
    f.match[0] = "b.*";
    f.group[1].match = f.match;
    f.group[1].n_match = 1;
    f.spec.optim[1].match = a_only;
    f.spec.optim[1].n_group = 2;
    assert_refused(&f, "optimizer 1: group 1: \"b.*\" matches no parameter of "
                       "its own (there are a.weight ... b.bias)");
    teardown(&f);
}

/* Where the schedule counts iterations, skips move it. */
static void
test_optimizer_schedule_counts(void **unused)
{
    struct fixture f;

    (void)unused;
    setup(&f, SPEC_OPTIMIZER_SGD, NULL);
    f.spec.schedule.kind = SPEC_SCHEDULE_LINEAR;
    lrate_init(&f.lrate, &f.spec, 10);
    struct optimizer *o = make(&f);
    f.state->count.iteration = 5;
    f.state->optim_steps[0] = 2;
    assert_true(optimizer_lr(o, f.state) == 0.5 * 0.8);
    f.spec.schedule.count = SPEC_COUNT_ITERATIONS;
    assert_true(optimizer_lr(o, f.state) == 0.5 * 0.5);
    optimizer_destroy(&o);
    teardown(&f);
}

/* ---- moments ------------------------------------------------------------- */

static void
test_optimizer_moments_by_kind(void **unused)
{
    struct fixture f;

    (void)unused;
    setup(&f, SPEC_OPTIMIZER_SGD, "a.*");
    assert_int_equal(optimizer_n_moments(&f.spec), 0);
    f.group[1].momentum = 0.9;
    assert_int_equal(optimizer_n_moments(&f.spec), 1);
    struct optimizer *o = make_again(&f);
    assert_string_equal(f.state->param[0].moment_name[0], "momentum");
    optimizer_destroy(&o);
    f.spec.optim[0].kind = SPEC_OPTIMIZER_ADAMW;
    assert_int_equal(optimizer_n_moments(&f.spec), 2);
    o = make_again(&f);
    assert_string_equal(f.state->param[3].moment_name[1], "v");
    optimizer_destroy(&o);
    f.spec.optim[0].kind = SPEC_OPTIMIZER_RMSPROP;
    f.group[1].momentum = 0;
    assert_int_equal(optimizer_n_moments(&f.spec), 1);
    f.group[0].centered = true;
    assert_int_equal(optimizer_n_moments(&f.spec), 2);
    f.group[1].momentum = 0.9;
    assert_int_equal(optimizer_n_moments(&f.spec), 3);
    teardown(&f);
}

/* Momentum in one group only; the other group's stays untouched. */
static void
test_optimizer_momentum_of_one_group(void **unused)
{
    struct fixture f;

    (void)unused;
    setup(&f, SPEC_OPTIMIZER_SGD, NULL);
    f.group[1].match = f.match;
    f.match[0] = "a.*";
    f.group[1].momentum = 0.5;
    f.group[1].weight_decay = 0;
    f.spec.optim[0].n_group = 2;
    state_destroy(&f.state);
    assert_int_equal(state_create(f.graph, 1, &f.state, NULL), 0);
    struct optimizer *o = make(&f);
    for (int step = 0; step < 2; step++) {
        fill_grads(f.state, 1);
        optimizer_step(o, f.state, 0, 1);
        f.state->optim_steps[0]++;
    }
    const struct state_tensor *t = f.state->param;
    /* a: buffers 1, 1.5 at lr 0.25; b: plain at lr 0.5. */
    assert_true(f.state->weights[t[0].offset] == -0.625f);
    assert_true(f.state->moment[0][t[1].offset + 19] == 1.5f);
    assert_true(f.state->weights[t[2].offset] == -1.0f);
    assert_true(f.state->moment[0][t[3].offset] == 0);
    assert_gaps_zero(f.state, f.state->moment[0]);
    optimizer_destroy(&o);
    teardown(&f);
}

/* eps 0 and the zeros between tensors would give 0 / 0. */
static void
test_optimizer_adam_without_eps_keeps_gaps(void **unused)
{
    struct fixture f;

    (void)unused;
    setup(&f, SPEC_OPTIMIZER_ADAM, NULL);
    f.group[0].eps = 0;
    struct optimizer *o = make(&f);
    fill_grads(f.state, 0.25f);
    optimizer_step(o, f.state, 0, 1);
    assert_gaps_zero(f.state, f.state->weights);
    assert_true(fabs((double)f.state->weights[16] - 0.5) < 1e-6);
    optimizer_destroy(&o);
    teardown(&f);
}

/* The same seed and parameter give the same weights, whatever came before. */
static void
test_optimizer_state_init_is_keyed(void **unused)
{
    struct fixture f;
    const int64_t n = 37;
    const struct graph_param p = {.name = "c.weight",
                                  .desc = tensor_make(DTYPE_F32, 1, &n),
                                  .init = GRAPH_INIT_UNIFORM,
                                  .bound = 0.25};
    float first[37];
    double sum = 0;

    (void)unused;
    setup(&f, SPEC_OPTIMIZER_SGD, NULL);
    assert_true(graph_add_param(f.graph, &p) >= 0);
    state_destroy(&f.state);
    assert_int_equal(state_create(f.graph, 0, &f.state, NULL), 0);
    f.state->seed = 9;
    state_init_weights(f.state, f.graph);
    const int64_t at = f.state->param[4].offset;
    memcpy(first, f.state->weights + at, sizeof(first));
    for (int i = 0; i < n; i++) {
        assert_true(fabsf(first[i]) <= 0.25f);
        sum += fabs((double)first[i]);
    }
    assert_true(sum / (double)n > 0.05 && sum / (double)n < 0.2);
    state_init_weights(f.state, f.graph);
    assert_memory_equal(first, f.state->weights + at, sizeof(first));
    f.state->seed = 10;
    state_init_weights(f.state, f.graph);
    assert_memory_not_equal(first, f.state->weights + at, sizeof(first));
    teardown(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimizer_layout_is_aligned),
        cmocka_unit_test(test_optimizer_groups_by_pattern),
        cmocka_unit_test(test_optimizer_pattern_must_match),
        cmocka_unit_test(test_optimizer_several_share),
        cmocka_unit_test(test_optimizer_found_inf_is_of_the_owner),
        cmocka_unit_test(test_optimizer_several_refused),
        cmocka_unit_test(test_optimizer_schedule_counts),
        cmocka_unit_test(test_optimizer_moments_by_kind),
        cmocka_unit_test(test_optimizer_momentum_of_one_group),
        cmocka_unit_test(test_optimizer_adam_without_eps_keeps_gaps),
        cmocka_unit_test(test_optimizer_state_init_is_keyed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
