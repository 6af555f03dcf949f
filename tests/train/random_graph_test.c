/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any small job that random_spec makes: trains alike on both backends, goes on
 * from a checkpoint as if it had never stopped, and its programs read nothing
 * that was written over.
 *
 * TRAIND_SEEDS=FROM-TO runs other seeds than those of every test run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/run/variants.h"
#include "tests/support/shadow.h"
#include "tests/train/harness.h"
#include "tests/train/random_spec.h"

#define FIRST_SEED 1
#define LAST_SEED  60

static uint64_t first_seed = FIRST_SEED, last_seed = LAST_SEED;

/* ---- data -----------------------------------------------------------------*/

static void
write_data(struct harness *h, const struct random_spec *s, uint64_t seed)
{
    uint64_t state = seed + 77;
    const int64_t dim[4] = {s->n_samples, s->dim[0], s->dim[1], s->dim[2]};
    float x[4096], y[64];
    int64_t ids[64], n = 1;

    for (int i = 0; i <= s->rank; i++)
        n *= dim[i];
    assert_true(n <= 4096 && s->n_samples * RANDOM_SPEC_OUT <= 64);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(random_spec_draw(&state, 2001) - 1000) / 500;
    for (int i = 0; i < 64; i++) {
        y[i] = (float)(random_spec_draw(&state, 2001) - 1000) / 1000;
        ids[i] = random_spec_draw(&state, RANDOM_SPEC_OUT);
    }
    harness_npy_f32(h, "x.npy", s->rank + 1, dim, x);
    if (s->classes)
        harness_npy_i64(h, "y.npy", s->n_samples, ids);
    else
        harness_npy_f32(h, "y.npy", 2,
                        (int64_t[]){s->n_samples, RANDOM_SPEC_OUT}, y);
}

static void
open_job(struct harness *h, struct random_spec *s, uint64_t seed)
{
    random_spec_make(s, seed);
    harness_init(h);
    write_data(h, s, seed);
    harness_spec(h, s->text);
}

static void
run_whole(struct harness *h, const struct random_spec *s, const char *backend)
{
    h->backend = backend;
    if (harness_run(h, NULL) != 0)
        fail_msg("%s\n%s", h->err.msg, s->text);
    assert_int_equal(h->outcome, EVENT_OUTCOME_COMPLETED);
}

/* ---- both backends --------------------------------------------------------*/

struct result {
    double loss[3];
    bool skipped[3];
    int n_steps;
    float *weights; /* owned, without gaps */
    int64_t n;
};

static void
take_result(const struct harness *h, struct result *r)
{
    const struct state *s = engine_state(h->engine);

    r->n_steps = harness_count(h, EVENT_STEP);
    assert_int_equal(r->n_steps, 3);
    for (int i = 0; i < 3; i++) {
        const struct event *e = harness_event(h, EVENT_STEP, i);

        r->loss[i] = e->u.step.loss;
        r->skipped[i] = e->u.step.skipped;
    }
    r->n = s->param_elems;
    r->weights = malloc((size_t)r->n * sizeof(float) + 1);
    memcpy(r->weights, s->weights, (size_t)r->n * sizeof(float));
}

static double
ulp_of(enum dtype t)
{
    return t == DTYPE_F16 ? 0x1p-11 : t == DTYPE_BF16 ? 0x1p-8 : 0x1p-24;
}

/* What the nodes of the training graph may be off by, relative to their size,
 * each as the op table says; carried once from the input to the loss. */
static double
bound_error(const struct graph *g)
{
    double sum = 0;

    for (int i = 0; i < graph_n_nodes(g); i++) {
        const struct graph_node *n = graph_node_at(g, i);
        struct tensor_desc in[OP_MAX_IN] = {{0}}, out[OP_MAX_OUT] = {{0}};

        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] >= 0)
                in[k] = graph_value_at(g, n->in[k])->desc;
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k] >= 0)
                out[k] = graph_value_at(g, n->out[k])->desc;
        sum += op_info(n->op)->ulps * ulp_of(out[0].dtype) +
               0x1p-24 * (double)op_reduce_length(n->op, &n->params, in, out);
    }
    return sum;
}

static double
bound_job(const struct spec *spec, const struct random_spec *s)
{
    struct build_data data = {.rank = s->rank,
                              .target_is_class = s->classes,
                              .target_elems = s->classes ? 1 : RANDOM_SPEC_OUT,
                              .target_rank = s->classes ? 0 : 1,
                              .target_dim = {RANDOM_SPEC_OUT}};
    const struct variants_options o = {.spec = spec,
                                       .data = &data,
                                       .backend = backend_find("cpu"),
                                       .threads = 1};
    struct program *p = NULL;
    struct err err;
    double bound;

    memcpy(data.dim, s->dim, sizeof(s->dim));
    assert_int_equal(variants_compile(&o, BUILD_TRAIN, 4, false, &p, &err), 0);
    bound = bound_error(program_graph(p));
    program_destroy(&p);
    return bound;
}

static void
compare_results(const struct result *a, const struct result *b, double bound,
                uint64_t seed, const struct random_spec *s)
{
    double largest = 0;

    for (int i = 0; i < 3; i++) {
        if (a->skipped[i] != b->skipped[i])
            fail_msg("seed %" PRIu64 ": step %d is skipped on one backend\n%s",
                     seed, i, s->text);
        if (!(fabs(a->loss[i] - b->loss[i]) <=
              bound * (1 + i) * fmax(1, fabs(a->loss[i]))))
            fail_msg("seed %" PRIu64 ": loss %d: %.9g and %.9g, allowed %.3g\n"
                     "%s",
                     seed, i, a->loss[i], b->loss[i],
                     bound * (1 + i) * fmax(1, fabs(a->loss[i])), s->text);
    }
    if (s->by_signs)
        return;
    for (int64_t i = 0; i < a->n; i++)
        largest = fmax(largest, fabs((double)a->weights[i]));
    for (int64_t i = 0; i < a->n; i++)
        if (!(fabs((double)a->weights[i] - (double)b->weights[i]) <=
              3 * bound * largest))
            fail_msg("seed %" PRIu64 ": weight %" PRId64 ": %.9g and %.9g\n%s",
                     seed, i, (double)a->weights[i], (double)b->weights[i],
                     s->text);
}

static void
test_random_backends_agree(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed; seed <= last_seed; seed++) {
        struct result fast = {0}, reference = {0};
        struct random_spec s;
        struct harness h;

        open_job(&h, &s, seed);
        const double bound = bound_job(h.spec, &s);
        run_whole(&h, &s, "cpu");
        take_result(&h, &fast);
        harness_reset(&h);
        run_whole(&h, &s, "reference");
        take_result(&h, &reference);
        compare_results(&fast, &reference, bound, seed, &s);
        free(fast.weights);
        free(reference.weights);
        harness_fini(&h);
    }
}

/* ---- stopping and going on -------------------------------------------------*/

static void
test_random_resume(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed; seed <= last_seed; seed++) {
        struct harness_snapshot whole, resumed;
        struct random_spec s;
        struct harness h;

        open_job(&h, &s, seed);
        run_whole(&h, &s, "cpu");
        whole = harness_snapshot(&h);
        harness_reset(&h);
        harness_order(&h, 2, REPORT_STOP);
        assert_int_equal(harness_run(&h, NULL), 0);
        assert_int_equal(h.outcome, EVENT_OUTCOME_STOPPED);
        harness_forget(&h);
        if (harness_run(&h, "it000000002-a1") != 0)
            fail_msg("seed %" PRIu64 ": %s", seed, h.err.msg);
        resumed = harness_snapshot(&h);
        if (whole.n != resumed.n ||
            memcmp(whole.bytes, resumed.bytes, whole.n) != 0)
            fail_msg("seed %" PRIu64 ": other bits after going on\n%s", seed,
                     s.text);
        free(whole.bytes);
        free(resumed.bytes);
        harness_fini(&h);
    }
}

/* ---- memory ---------------------------------------------------------------*/

static void
check_plans(const struct spec *spec, const struct random_spec *s,
            const char *backend, uint64_t seed)
{
    struct build_data data = {.rank = s->rank,
                              .target_is_class = s->classes,
                              .target_elems = s->classes ? 1 : RANDOM_SPEC_OUT,
                              .target_rank = s->classes ? 0 : 1,
                              .target_dim = {RANDOM_SPEC_OUT}};
    const struct variants_options o = {.spec = spec,
                                       .data = &data,
                                       .backend = backend_find(backend),
                                       .threads = 2};

    memcpy(data.dim, s->dim, sizeof(s->dim));
    for (int i = 0; i < 3; i++) {
        struct program *p = NULL;
        struct err err;
        if (variants_compile(&o, i == 1 ? BUILD_EVAL : BUILD_TRAIN, 4, i == 2,
                             &p, &err) != 0)
            fail_msg("seed %" PRIu64 ": %s\n%s", seed, err.msg, s->text);
        shadow_check(p, i == 2);
        program_destroy(&p);
    }
}

static void
test_random_plans_keep_values(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed; seed <= last_seed; seed++) {
        struct random_spec s;
        struct harness h;

        open_job(&h, &s, seed);
        check_plans(h.spec, &s, "cpu", seed);
        check_plans(h.spec, &s, "reference", seed);
        harness_fini(&h);
    }
}

static void
count_layers(const struct spec_layer *list, int n, int layers[SPEC_LAYER_COUNT])
{
    for (int i = 0; i < n; i++) {
        layers[list[i].kind]++;
        count_layers(list[i].body, list[i].n_body, layers);
        count_layers(list[i].shortcut, list[i].n_shortcut, layers);
    }
}

/* Nothing of the above is worth much if all jobs are alike. */
static void
test_random_specs_differ(void **state)
{
    int layers[SPEC_LAYER_COUNT] = {0}, dtypes[DTYPE_COUNT] = {0};
    int kinds = 0;

    (void)state;
    for (uint64_t seed = FIRST_SEED; seed <= LAST_SEED; seed++) {
        struct random_spec s;
        struct harness h;

        random_spec_make(&s, seed);
        harness_init(&h);
        harness_spec(&h, s.text);
        count_layers(h.spec->model, h.spec->n_model, layers);
        dtypes[h.spec->amp.dtype]++;
        harness_fini(&h);
    }
    for (int k = 0; k < SPEC_LAYER_COUNT; k++)
        kinds += layers[k] > 0;
    assert_true(kinds >= 30);
    assert_true(dtypes[DTYPE_F32] > 5 && dtypes[DTYPE_F16] > 5 &&
                dtypes[DTYPE_BF16] > 5);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_specs_differ),
        cmocka_unit_test(test_random_plans_keep_values),
        cmocka_unit_test(test_random_backends_agree),
        cmocka_unit_test(test_random_resume),
    };
    const char *range = getenv("TRAIND_SEEDS");

    if (range != NULL &&
        sscanf(range, "%" SCNu64 "-%" SCNu64, &first_seed, &last_seed) != 2) {
        fprintf(stderr, "TRAIND_SEEDS=FROM-TO\n");
        return 2;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
