/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/sampler.h"

#include "engine/run/ckpt.h"
#include "engine/run/variants.h"
#include "kernels/cpu/convert.h"
#include "kernels/philox.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct sampler {
    struct sampler_options options;
    struct variants *variants; /* owned, as all below */
    struct state *state;
    int64_t window;   /* tokens that the model sees */
    int64_t n_ids;    /* that it can give, and may be given */
    int32_t *context; /* window of them: the last n */
    int64_t n;        /* tokens so far that are in the context */
    int32_t *target;  /* window of them, all 0: the loss is not looked at */
    float *scores;    /* n_ids */
    double *scratch;  /* n_ids */
    uint64_t n_drawn;
};

/* ---- the choice -----------------------------------------------------------*/

static int
compare_falling(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x < y) - (x > y);
}

static int64_t
find_best(const float *scores, int64_t n)
{
    int64_t best = 0;

    for (int64_t i = 1; i < n; i++)
        if (scores[i] > scores[best])
            best = i;
    return best;
}

/* The k-th greatest of n scores. */
static double
find_bound(const float *scores, int64_t n, int64_t k, double *scratch)
{
    for (int64_t i = 0; i < n; i++)
        scratch[i] = (double)scores[i];
    qsort(scratch, (size_t)n, sizeof(*scratch), compare_falling);
    return scratch[k - 1];
}

/* Among equal scores at the bound the first ids are taken, so that never more
 * than k are left. */
static void
keep_top(const float *scores, int64_t n, int64_t k, double *weight,
         double bound)
{
    int64_t above = 0;

    for (int64_t i = 0; i < n; i++)
        above += (double)scores[i] > bound;
    for (int64_t i = 0; i < n; i++) {
        const double s = (double)scores[i];

        if (s == bound && above < k)
            above++;
        else if (s <= bound)
            weight[i] = 0;
    }
}

int64_t
sampler_choose(const float *scores, int64_t n, double temperature,
               int64_t top_k, double u, double *scratch)
{
    double best, bound = -INFINITY, sum = 0, at = 0;
    int64_t last = -1;

    for (int64_t i = 0; i < n; i++)
        if (isnan(scores[i]))
            return -1;
    if (temperature <= 0)
        return find_best(scores, n);
    best = (double)scores[find_best(scores, n)];
    if (!isfinite(best))
        return find_best(scores, n);
    if (top_k > 0 && top_k < n)
        bound = find_bound(scores, n, top_k, scratch);
    for (int64_t i = 0; i < n; i++)
        scratch[i] = exp(((double)scores[i] - best) / temperature);
    if (top_k > 0 && top_k < n)
        keep_top(scores, n, top_k, scratch, bound);
    for (int64_t i = 0; i < n; i++)
        sum += scratch[i];
    for (int64_t i = 0; i < n; i++) {
        if (scratch[i] <= 0)
            continue;
        last = i;
        at += scratch[i];
        if (u * sum < at)
            break;
    }
    return last;
}

/* ---- the model ------------------------------------------------------------*/

static int
compile(struct sampler *s, struct err *err)
{
    const struct build_data data = {
        .rank = 1,
        .dim = {s->window},
        .input_is_tokens = true,
        .target_is_class = true,
        .target_elems = s->window,
        .target_rank = 1,
        .target_dim = {s->window},
    };
    const struct variants_options o = {
        .spec = s->options.spec,
        .data = &data,
        .backend = s->options.backend,
        .threads = s->options.threads,
    };

    s->variants = variants_create();
    if (s->variants == NULL)
        return err_set(err, ERR_NOMEM, "sample: no memory");
    return variants_add(s->variants, &o, BUILD_EVAL, 1, err);
}

/* Scores [1, window, n_ids] is what a continuation is drawn from. */
static int
check_output(struct sampler *s, struct err *err)
{
    const struct graph *g = program_graph(variants_program_at(s->variants, 0));
    const struct tensor_desc *y =
        &graph_value_at(g, graph_roles(g)->output)->desc;
    char text[128];

    if (y->rank != 3 || y->dim[1] != s->window)
        return err_set(err, ERR_SPEC,
                       "sample: needs scores for each token, but the model "
                       "ends in %s",
                       tensor_format(y, text, sizeof(text)));
    s->n_ids = y->dim[2];
    return 0;
}

static int
make_state(struct sampler *s, struct err *err)
{
    const struct graph *g = program_graph(variants_program_at(s->variants, 0));
    int rc = state_create(g, 0, &s->state, err);

    if (rc == 0)
        rc = ckpt_read_weights(s->options.weights, s->state, err);
    if (rc != 0)
        return rc;
    s->state->weights_version++;
    return variants_bind(s->variants, s->state, err);
}

static int
make_memory(struct sampler *s, struct err *err)
{
    const size_t window = (size_t)s->window, n = (size_t)s->n_ids;

    /* Inputs of kernels are 64-byte aligned. */
    s->context = aligned_alloc(64, (window * sizeof(int32_t) / 64 + 1) * 64);
    s->target = aligned_alloc(64, (window * sizeof(int32_t) / 64 + 1) * 64);
    s->scores = calloc(n, sizeof(*s->scores));
    s->scratch = calloc(n, sizeof(*s->scratch));
    if (s->context == NULL || s->target == NULL || s->scores == NULL ||
        s->scratch == NULL)
        return err_set(err, ERR_NOMEM, "sample: no memory");
    memset(s->context, 0, window * sizeof(int32_t));
    memset(s->target, 0, window * sizeof(int32_t));
    return 0;
}

int
sampler_create(const struct sampler_options *options, struct sampler **out,
               struct err *err)
{
    const struct spec *spec = options->spec;
    struct sampler *s = NULL;
    int rc;

    *out = NULL;
    if (spec->data.sequence_length < 1 || spec->loss.kind > SPEC_LOSS_NLL)
        return err_set(err, ERR_SPEC,
                       "sample: the job's data are no tokens, or its loss is "
                       "not that of a language model");
    s = calloc(1, sizeof(*s));
    if (s == NULL)
        return err_set(err, ERR_NOMEM, "sample: no memory");
    s->options = *options;
    s->window = spec->data.sequence_length;
    rc = compile(s, err);
    if (rc == 0)
        rc = check_output(s, err);
    if (rc == 0)
        rc = make_state(s, err);
    if (rc == 0)
        rc = make_memory(s, err);
    if (rc != 0)
        sampler_destroy(&s);
    *out = s;
    return rc;
}

void
sampler_destroy(struct sampler **sampler)
{
    struct sampler *s = *sampler;

    *sampler = NULL;
    if (s == NULL)
        return;
    variants_destroy(&s->variants);
    state_destroy(&s->state);
    free(s->context);
    free(s->target);
    free(s->scores);
    free(s->scratch);
    free(s);
}

/* ---- tokens ---------------------------------------------------------------*/

int
sampler_feed(struct sampler *s, const int32_t *ids, int64_t n, struct err *err)
{
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= s->n_ids)
            return err_set(err, ERR_DATA,
                           "prompt: token %lld is %ld, allowed 0..%lld",
                           (long long)i, (long)ids[i], (long long)s->n_ids - 1);
    for (int64_t i = 0; i < n; i++) {
        if (s->n == s->window) {
            memmove(s->context, s->context + 1,
                    (size_t)(s->window - 1) * sizeof(*s->context));
            s->n--;
        }
        s->context[s->n++] = ids[i];
    }
    return 0;
}

/* Scores of what comes after token n - 1; what stands behind it in the window
 * is not seen by a causal model. */
static void
run_model(struct sampler *s)
{
    static const float one = 1.0f;
    const struct kernel_step numbers = {.seed = s->options.seed};
    struct exec *exec = variants_use(s->variants, BUILD_EVAL, 1);
    const struct graph *g = program_graph(exec_program(exec));
    const int output = graph_roles(g)->output;

    exec_set_input(exec, GRAPH_INPUT_X, s->context);
    exec_set_input(exec, GRAPH_INPUT_TARGET, s->target);
    exec_set_input(exec, GRAPH_INPUT_INV_COUNT, &one);
    exec_run(exec, &numbers);
    const enum dtype t = graph_value_at(g, output)->desc.dtype;
    const char *row = (const char *)exec_value(exec, output) +
                      (size_t)((s->n - 1) * s->n_ids) * dtype_size_bytes(t);
    convert_to_f32(s->scores, row, t, s->n_ids);
}

int
sampler_next(struct sampler *s, int32_t *id, struct err *err)
{
    uint32_t word[4];
    int64_t next;

    assert(s->n > 0);
    memset(s->context + s->n, 0,
           (size_t)(s->window - s->n) * sizeof(*s->context));
    run_model(s);
    philox_words(s->options.seed, PHILOX_STREAM_SAMPLE, s->n_drawn++, 0, 0,
                 word);
    const double u = ((double)word[0] * 0x1p32 + (double)word[1]) * 0x1p-64;
    next = sampler_choose(s->scores, s->n_ids, s->options.temperature,
                          s->options.top_k, u, s->scratch);
    if (next < 0)
        return err_set(err, ERR_NUMERICS, "sample: a score is NaN");
    *id = (int32_t)next;
    return sampler_feed(s, id, 1, err);
}
