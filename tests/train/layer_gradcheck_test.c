/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every layer of layers.def in a small model: the gradients of all parameters,
 * by both backends, against finite differences of the same model in double.
 *
 * What stands before the layer has parameters too, so a layer without any is
 * seen by the gradients that pass through it. The tolerance comes from the op
 * table: each gradient may be off by the sum of what the nodes of the graph may
 * be (ulps and reduction length, float32), relative to the largest gradient.
 *
 * lines: a third of them is the table of examples.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/graph/build.h"
#include "engine/pass/autodiff.h"
#include "engine/pass/program.h"
#include "engine/run/exec.h"
#include "proto/spec.h"
#include "tests/train/exact.h"

#define BATCH      3
#define N_OUT      2
#define N_PICKED   7 /* elements of a parameter that are looked at */
#define STEP_WIDTH 1e-5

enum feed { ROWS, SEQUENCE, IMAGE, SIGNAL, TOKENS };

struct example {
    enum spec_layer_kind kind;
    enum feed feed;
    const char *layers; /* ' stands for " */
    const char *loss;   /* NULL: mse on two numbers a sample */
};

/* What a model ends in. */
#define HEAD "'flatten', {'name': 'head', 'linear': {'out_features': 2}}"

/* What each layer is fed: something that depends on parameters. */
static const char *const stem[] = {
    [ROWS] = "{'name': 'stem', 'linear': {'out_features': 6}}",
    [SEQUENCE] = "{'name': 'stem', 'linear': {'out_features': 4}}",
    [IMAGE] = "{'name': 'stem', 'conv2d': {'out_channels': 4, "
              "'kernel_size': 3, 'padding': 1}}",
    [SIGNAL] = "{'name': 'stem', 'conv1d': {'out_channels': 4, "
               "'kernel_size': 3, 'padding': 1}}",
    [TOKENS] = "{'name': 'stem', 'embedding': {'num_embeddings': 7, "
               "'embedding_dim': 4}}",
};

static const struct build_data data_of[] = {
    [ROWS] = {.rank = 1, .dim = {6}},
    [SEQUENCE] = {.rank = 2, .dim = {6, 3}},
    [IMAGE] = {.rank = 3, .dim = {2, 6, 5}},
    [SIGNAL] = {.rank = 2, .dim = {2, 9}},
    [TOKENS] = {.rank = 1, .dim = {6}, .input_is_tokens = true},
};

#define L(id) SPEC_LAYER_##id
static const struct example examples[] = {
    {L(SEQUENTIAL), ROWS,
     "{'sequential': ['tanh', {'linear': "
     "{'out_features': 3}}]}",
     NULL},
    {L(RESIDUAL), ROWS,
     "{'residual': [{'linear': {'out_features': 6}}, "
     "'tanh']}",
     NULL},
    {L(RESIDUAL), IMAGE,
     "{'residual': {'body': [{'conv2d': {'out_channels': 3, 'kernel_size': 3, "
     "'padding': 1, 'stride': 2}}], 'shortcut': [{'conv2d': {'out_channels': "
     "3, 'kernel_size': 1, 'stride': 2, 'bias': false}}]}}",
     NULL},
    {L(LINEAR), SEQUENCE, "{'linear': {'out_features': 5}}", NULL},
    {L(CONV1D), SIGNAL,
     "{'conv1d': {'out_channels': 6, 'kernel_size': 3, "
     "'stride': 2, 'groups': 2}}",
     NULL},
    {L(CONV2D), IMAGE,
     "{'conv2d': {'out_channels': 4, 'kernel_size': [3, 2], "
     "'padding': 1, 'groups': 2}}",
     NULL},
    {L(CONV_TRANSPOSE2D), IMAGE,
     "{'conv_transpose2d': {'out_channels': 4, 'kernel_size': 3, 'stride': 2, "
     "'padding': 1, 'output_padding': 1, 'groups': 2}}",
     NULL},
    {L(MATMUL), SEQUENCE,
     "{'matmul': {'transpose_b': true}, 'input': "
     "['stem', 'stem']}",
     NULL},
    {L(BMM), SEQUENCE,
     "{'name': 't', 'transpose': {'dim0': 1, 'dim1': 2}}, "
     "{'bmm': {}, 'input': ['stem', 't']}",
     NULL},
    {L(EMBEDDING), TOKENS, "'tanh'", NULL},
    {L(POSITIONAL_EMBEDDING), TOKENS,
     "{'positional_embedding': "
     "{'num_embeddings': 9}}",
     NULL},
    {L(MULTIHEAD_ATTENTION), SEQUENCE,
     "{'multihead_attention': {'num_heads': "
     "2, 'is_causal': true}}",
     NULL},
    {L(MULTIHEAD_ATTENTION), SEQUENCE,
     "{'name': 'kv', 'narrow': {'dim': 1, 'start': 1, 'length': 4}}, "
     "{'multihead_attention': {'num_heads': 2}, 'input': ['stem', 'kv', "
     "'kv']}",
     NULL},
    {L(SCALED_DOT_PRODUCT_ATTENTION), SEQUENCE,
     "{'name': 'qkv', 'linear': {'out_features': 12}}, "
     "{'scaled_dot_product_attention': {'num_heads': 2}}",
     NULL},
    {L(BATCH_NORM1D), ROWS, "'batch_norm1d'", NULL},
    {L(BATCH_NORM1D), SIGNAL, "'batch_norm1d'", NULL},
    {L(BATCH_NORM2D), IMAGE, "'batch_norm2d'", NULL},
    {L(LAYER_NORM), SEQUENCE, "'layer_norm'", NULL},
    {L(LAYER_NORM), IMAGE, "{'layer_norm': {'normalized_shape': [4, 6, 5]}}",
     NULL},
    {L(GROUP_NORM), IMAGE, "{'group_norm': {'num_groups': 2}}", NULL},
    {L(RMS_NORM), SEQUENCE, "'rms_norm'", NULL},
    {L(RELU), ROWS, "'relu'", NULL},
    {L(PRELU), ROWS, "{'prelu': {'num_parameters': 6}}", NULL},
    {L(PRELU), IMAGE, "'prelu'", NULL},
    {L(GELU), ROWS, "'gelu'", NULL},
    {L(GELU), ROWS, "{'gelu': {'approximate': 'tanh'}}", NULL},
    {L(TANH), ROWS, "'tanh'", NULL},
    {L(SIGMOID), ROWS, "'sigmoid'", NULL},
    {L(SILU), ROWS, "'silu'", NULL},
    {L(SOFTPLUS), ROWS, "{'softplus': {'beta': 2.0}}", NULL},
    {L(EXP), ROWS, "'exp'", NULL},
    {L(LOG), ROWS, "'exp', {'add': {'value': 0.5}}, 'log'", NULL},
    {L(POW), ROWS, "{'pow': {'exponent': 3.0}}", NULL},
    {L(RECIPROCAL), ROWS, "'exp', 'reciprocal'", NULL},
    {L(RSQRT), ROWS, "'exp', 'rsqrt'", NULL},
    {L(DROPOUT), ROWS, "{'dropout': {'p': 0.3}}", NULL},
    {L(IDENTITY), ROWS, "'identity'", NULL},
    {L(ADD), ROWS,
     "{'name': 't', 'tanh': {}}, {'add': {}, 'input': ['stem', 't']}", NULL},
    {L(SUB), SEQUENCE,
     "{'name': 'm', 'mean': {'dim': 1, 'keepdim': true}}, {'sub': {}, "
     "'input': ['stem', 'm']}",
     NULL},
    {L(MUL), IMAGE,
     "{'name': 'g', 'adaptive_avg_pool2d': {'output_size': 1}}, {'mul': {}, "
     "'input': ['g', 'stem']}",
     NULL},
    {L(DIV), ROWS,
     "{'name': 'e', 'exp': {}}, {'div': {}, 'input': ['stem', "
     "'e']}",
     NULL},
    {L(EQ), ROWS,
     "{'name': 'k', 'eq': {'value': 0.0}}, {'where': {}, 'input': "
     "['k', 'input', 'stem']}",
     NULL},
    {L(NE), TOKENS,
     "{'name': 'k', 'ne': {'value': 3}, 'input': 'input'}, "
     "{'name': 'k3', 'unflatten': {'dim': 1, "
     "'unflattened_size': [6, 1]}}, {'where': {'value': 0.5}, "
     "'input': ['k3', 'stem']}",
     NULL},
    {L(LT), ROWS,
     "{'name': 'k', 'lt': {'value': 0.1}}, {'where': {'value': "
     "-0.5}, 'input': ['k', 'stem']}",
     NULL},
    {L(LE), ROWS,
     "{'name': 'k', 'le': {'value': 0.1}}, {'where': {'value': "
     "-0.5}, 'input': ['k', 'stem']}",
     NULL},
    {L(GT), ROWS,
     "{'name': 'h', 'tanh': {}}, {'name': 'k', 'gt': {}, 'input': "
     "['stem', 'h']}, {'where': {}, 'input': ['k', 'stem', "
     "'h']}",
     NULL},
    {L(GE), ROWS,
     "{'name': 'k', 'ge': {'value': 0.1}}, {'where': {'value': "
     "-0.5}, 'input': ['k', 'stem']}",
     NULL},
    {L(WHERE), ROWS,
     "{'name': 'k', 'gt': {'value': 0.0}}, {'name': 't', "
     "'tanh': {}, 'input': 'stem'}, {'where': {}, 'input': "
     "['k', 't', 'stem']}",
     NULL},
    {L(COSINE_SIMILARITY), SEQUENCE,
     "{'name': 't', 'linear': {'out_features': 4}}, {'cosine_similarity': "
     "{'dim': 2}, 'input': ['stem', 't']}",
     NULL},
    {L(SOFTMAX), SEQUENCE, "{'softmax': {'dim': 1}}", NULL},
    {L(LOG_SOFTMAX), SEQUENCE, "{'log_softmax': {'dim': -1}}", NULL},
    {L(SUM), IMAGE, "{'sum': {'dim': [2, 3]}}", NULL},
    {L(MEAN), SEQUENCE, "{'mean': {'dim': 1}}", NULL},
    {L(PROD), SEQUENCE, "{'prod': {'dim': 2, 'keepdim': true}}", NULL},
    {L(CUMSUM), SEQUENCE, "{'cumsum': {'dim': 1}}", NULL},
    {L(NORM), SEQUENCE, "{'norm': {'dim': 2}}", NULL},
    {L(LOGSUMEXP), SEQUENCE, "{'logsumexp': {'dim': 1}}", NULL},
    {L(MAX_POOL2D), IMAGE, "{'max_pool2d': {'kernel_size': 2}}", NULL},
    {L(AVG_POOL2D), IMAGE, "{'avg_pool2d': {'kernel_size': 2}}", NULL},
    {L(ADAPTIVE_AVG_POOL2D), IMAGE,
     "{'adaptive_avg_pool2d': {'output_size': "
     "[2, 3]}}",
     NULL},
    {L(UPSAMPLE), IMAGE,
     "{'upsample': {'scale_factor': 2, 'mode': "
     "'bilinear'}}",
     NULL},
    {L(FLATTEN), IMAGE, "{'flatten': {'start_dim': 2}}", NULL},
    {L(UNFLATTEN), ROWS,
     "{'unflatten': {'dim': 1, 'unflattened_size': [2, "
     "3]}}",
     NULL},
    {L(RESHAPE), SEQUENCE, "{'reshape': {'shape': [3, -1]}}", NULL},
    {L(TRANSPOSE), SEQUENCE, "{'transpose': {'dim0': 1, 'dim1': 2}}", NULL},
    {L(NARROW), SEQUENCE, "{'narrow': {'dim': 1, 'start': 2, 'length': 3}}",
     NULL},
    {L(CAT), IMAGE,
     "{'name': 't', 'tanh': {}}, {'cat': {'dim': 1}, 'input': "
     "['stem', 't', 'stem']}",
     NULL},
    {L(STACK), ROWS,
     "{'name': 't', 'tanh': {}}, {'stack': {'dim': 1}, "
     "'input': ['t', 'stem']}",
     NULL},
    {L(SEQUENTIAL), TOKENS,
     "{'name': 'decoder', 'gpt': {'vocab_size': 7, 'block_size': 6, 'n_layer': "
     "1, 'n_head': 2, 'n_embd': 8, 'dropout': 0.1}, 'input': 'input'}, "
     "{'name': 'beside', 'linear': {'out_features': 7}, 'input': 'stem'}, "
     "{'add': {}, 'input': ['decoder', 'beside']}",
     NULL},
};

/* Every loss, and class scores of every kind. */
static const struct example losses[] = {
    {L(LINEAR), ROWS, HEAD, "'mse'"},
    {L(LINEAR), ROWS, HEAD, "'l1'"},
    {L(LINEAR), ROWS, HEAD, "{'smooth_l1': {'beta': 0.25}}"},
    {L(LINEAR), ROWS, HEAD, "{'huber': {'delta': 0.5}}"},
    {L(LINEAR), ROWS, HEAD, "'bce_with_logits'"},
    {L(LINEAR), ROWS, HEAD ", 'log_softmax'", "'kl_div'"},
    {L(LINEAR), ROWS, HEAD ", 'log_softmax'",
     "{'kl_div': {'log_target': true, 'reduction': 'batchmean'}}"},
    {L(LINEAR), ROWS, "{'linear': {'out_features': 4}}",
     "{'cross_entropy': {'label_smoothing': 0.1}}"},
    {L(LINEAR), ROWS, "{'linear': {'out_features': 4}}, 'log_softmax'",
     "'nll'"},
    {L(EMBEDDING), TOKENS, "{'linear': {'out_features': 4}}",
     "{'cross_entropy': {'ignore_index': 2}}"},
    {L(CONV2D), IMAGE, "'tanh'", "'cross_entropy'"},
};
#undef L
#define N_LOSSES   (int)(sizeof(losses) / sizeof(losses[0]))
#define N_EXAMPLES (int)(sizeof(examples) / sizeof(examples[0]))

/* ---- a model --------------------------------------------------------------*/

struct model {
    struct spec *spec;
    struct build_data data;
    struct graph *graph; /* forward, float32 */
    struct exact *exact;
    float *x, *target; /* 64-byte aligned; x may hold ids */
    int64_t x_elems;
};

static float
uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(*state >> 40) * 0x1p-24 * 2 - 1);
}

static bool
is_class_loss(const struct spec *spec)
{
    return spec->loss.kind == SPEC_LOSS_CROSS_ENTROPY ||
           spec->loss.kind == SPEC_LOSS_NLL;
}

static struct spec *
parse(const struct example *e)
{
    struct spec_faults faults = {NULL, 0};
    struct spec *spec = NULL;
    char text[4096];

    snprintf(text, sizeof(text),
             "{'data': {'train': {'format': 'npy', 'input': 'x', 'target': "
             "'y'}, 'batch_size': 3}, 'optimizer': {'sgd': {'lr': 0.1}}, "
             "'loss': %s, 'model': [%s, %s%s]}",
             e->loss != NULL ? e->loss : "'mse'", stem[e->feed], e->layers,
             e->loss != NULL ? "" : ", " HEAD);
    for (char *p = text; *p != '\0'; p++)
        if (*p == '\'')
            *p = '"';
    if (spec_parse(text, strlen(text), &spec, &faults) != 0)
        fail_msg("%s: %s: %s", text, faults.list[0].path,
                 faults.list[0].message);
    spec_faults_fini(&faults);
    return spec;
}

/* Numbers in (0, 1), which are probabilities too; or classes. */
static void
fill_target(struct model *m, uint64_t *state)
{
    const int t = graph_input_value(m->graph, GRAPH_INPUT_TARGET);
    const int64_t n = exact_n_elems(m->exact, t);
    double *exact = exact_value(m->exact, t);

    m->target = aligned_alloc(64, ((size_t)n * 4 / 64 + 1) * 64);
    for (int64_t i = 0; i < n; i++) {
        const int32_t class = (int32_t)(i * 3 % 4);

        m->target[i] = (uniform(state) + 1.01f) / 2.02f;
        exact[i] = (double)m->target[i];
        if (!is_class_loss(m->spec))
            continue;
        memcpy(&m->target[i], &class, sizeof(class));
        exact[i] = class;
    }
}

static void
fill_inputs(struct model *m, const struct example *e)
{
    uint64_t state = (uint64_t)e->kind + 1;
    const int x = graph_input_value(m->graph, GRAPH_INPUT_X);
    double *exact_x = exact_value(m->exact, x);

    m->x_elems = exact_n_elems(m->exact, x);
    m->x = aligned_alloc(64, ((size_t)m->x_elems * 4 / 64 + 1) * 64);
    for (int64_t i = 0; i < m->x_elems; i++) {
        if (m->data.input_is_tokens) {
            const int32_t id = (int32_t)(i * 5 % 7);
            memcpy(&m->x[i], &id, sizeof(id));
            exact_x[i] = id;
        } else {
            exact_x[i] = (double)(m->x[i] = uniform(&state));
        }
    }
    fill_target(m, &state);
    exact_value(m->exact,
                graph_input_value(m->graph, GRAPH_INPUT_INV_COUNT))[0] =
        (double)(1.0f / (BATCH * N_OUT));
    exact_value(m->exact, graph_input_value(m->graph, GRAPH_INPUT_SCALE))[0] =
        1;
}

/* One class a row, a token or a pixel. */
static void
give_classes(struct build_data *data, enum feed feed)
{
    data->target_is_class = true;
    data->target_rank = feed == ROWS ? 0 : feed == TOKENS ? 1 : 2;
    data->target_dim[0] = data->dim[feed == IMAGE ? 1 : 0];
    data->target_dim[1] = data->dim[2];
    data->target_elems = 1;
    for (int i = 0; i < data->target_rank; i++)
        data->target_elems *= data->target_dim[i];
}

static void
open_model(struct model *m, const struct example *e)
{
    struct err err;

    memset(m, 0, sizeof(*m));
    m->spec = parse(e);
    m->data = data_of[e->feed];
    m->data.target_elems = N_OUT;
    m->data.target_rank = 1;
    m->data.target_dim[0] = N_OUT;
    if (is_class_loss(m->spec))
        give_classes(&m->data, e->feed);
    if (build_graph(m->spec, &m->data, BUILD_TRAIN, BATCH, &m->graph, &err) !=
        0)
        fail_msg("%s: %s", e->layers, err.msg);
    m->exact = exact_create(m->graph);
    fill_inputs(m, e);
}

static void
close_model(struct model *m)
{
    exact_destroy(&m->exact);
    graph_destroy(&m->graph);
    spec_destroy(&m->spec);
    free(m->x);
    free(m->target);
}

/* ---- gradients by a backend -----------------------------------------------*/

static double
bound_error(const struct graph *g)
{
    double ulps = 0;

    for (int i = 0; i < graph_n_nodes(g); i++) {
        const struct graph_node *n = graph_node_at(g, i);
        struct tensor_desc in[OP_MAX_IN] = {{0}}, out[OP_MAX_OUT] = {{0}};

        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] >= 0)
                in[k] = graph_value_at(g, n->in[k])->desc;
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k] >= 0)
                out[k] = graph_value_at(g, n->out[k])->desc;
        ulps += op_info(n->op)->ulps +
                (double)op_reduce_length(n->op, &n->params, in, out);
    }
    return ulps * 0x1p-24;
}

static void
run_backend(const struct model *m, const char *backend, struct state **state,
            double *tolerance)
{
    const struct kernel_step step = {.seed = 5, .iteration = 1};
    const struct program_options o = {.backend = backend_find(backend),
                                      .threads = 2};
    const float inv_count = 1.0f / (BATCH * N_OUT), one = 1;
    struct program *program = NULL;
    struct graph *diff = NULL;
    struct exec *exec = NULL;
    struct err err;
    void *block;

    if (autodiff_apply(m->graph, &(struct autodiff_options){0}, &diff, &err) !=
        0)
        fail_msg("%s", err.msg);
    *tolerance = bound_error(diff);
    assert_int_equal(state_create(diff, 0, state, &err), 0);
    (*state)->seed = 11;
    state_init_weights(*state, diff);
    if (program_compile_take(diff, &o, &program, &err) != 0)
        fail_msg("%s", err.msg);
    block = aligned_alloc(64, (program_block_bytes(program) / 64 + 1) * 64);
    assert_int_equal(exec_create(program, *state, block, true, &exec, &err), 0);
    exec_set_input(exec, GRAPH_INPUT_X, m->x);
    exec_set_input(exec, GRAPH_INPUT_TARGET, m->target);
    exec_set_input(exec, GRAPH_INPUT_INV_COUNT, &inv_count);
    exec_set_input(exec, GRAPH_INPUT_SCALE, &one);
    exec_run(exec, &step);
    exec_destroy(&exec);
    program_destroy(&program);
    free(block);
}

/* ---- the comparison -------------------------------------------------------*/

static void
take_weights(struct model *m, const struct state *s)
{
    for (int i = 0; i < s->n_params; i++) {
        double *w = exact_value(m->exact, graph_param_value(m->graph, i));

        for (int64_t k = 0; k < s->param[i].n_elems; k++)
            w[k] = (double)s->weights[s->param[i].offset + k];
    }
}

static double
slope(struct model *m, double *w)
{
    const struct kernel_step step = {.seed = 5, .iteration = 1};
    const double middle = *w, h = STEP_WIDTH * fmax(1, fabs(middle));
    double up, down;

    *w = middle + h;
    up = exact_run(m->exact, &step);
    *w = middle - h;
    down = exact_run(m->exact, &step);
    *w = middle;
    return (up - down) / (2 * h);
}

/* Of all gradients: one that should be 0 is what is left of such as these. */
static double
largest(const struct state *s)
{
    double most = 0;

    for (int64_t i = 0; i < s->param_elems; i++)
        most = fmax(most, fabs((double)s->grads[i]));
    return most;
}

/* Picked elements of parameter i; the number of those that matter at all. */
static int
check_param(struct model *m, const struct example *e, const char *backend,
            const struct state *s, int i, double tolerance)
{
    const struct state_tensor *t = &s->param[i];
    double *w = exact_value(m->exact, graph_param_value(m->graph, i));
    const float *grad = s->grads + t->offset;
    const double scale = largest(s);
    const int64_t stride = t->n_elems / N_PICKED + 1;
    int n = 0;

    for (int64_t k = 0; k < t->n_elems; k += stride) {
        const double want = slope(m, &w[k]), got = (double)grad[k];
        /* Central differences are off by h^2 times a third derivative. */
        const double allowed =
            tolerance * fmax(scale, fabs(want)) + 100 * STEP_WIDTH * STEP_WIDTH;

        if (!(fabs(got - want) <= allowed))
            fail_msg("%s on %s: %s[%lld]: gradient %.9g, differences %.9g, "
                     "allowed %.3g",
                     e->layers, backend, t->name, (long long)k, got, want,
                     allowed);
        n += want != 0;
    }
    return n;
}

static void
check_example(const struct example *e, const char *backend)
{
    struct state *state = NULL;
    struct model m;
    double tolerance;
    int seen = 0;

    open_model(&m, e);
    run_backend(&m, backend, &state, &tolerance);
    take_weights(&m, state);
    for (int i = 0; i < state->n_params; i++)
        seen += check_param(&m, e, backend, state, i, tolerance);
    if (seen == 0)
        fail_msg("%s: no gradient is other than 0", e->layers);
    state_destroy(&state);
    close_model(&m);
}

static void
test_layers_have_examples(void **unused)
{
    (void)unused;
    for (int k = 0; k < SPEC_LAYER_COUNT; k++) {
        bool there = false;

        for (int i = 0; i < N_EXAMPLES; i++)
            there = there || (int)examples[i].kind == k;
        if (!there)
            fail_msg("no example of %s",
                     spec_layer_name((enum spec_layer_kind)k));
    }
}

static void
test_layer_reference(void **example)
{
    check_example(*example, "reference");
}

static void
test_layer_cpu(void **example)
{
    check_example(*example, "cpu");
}

static void
test_losses_have_examples(void **unused)
{
    (void)unused;
    for (int k = 0; k <= SPEC_LOSS_BCE_WITH_LOGITS; k++) {
        const char *name = spec_loss_name((enum spec_loss)k);
        bool there = false;

        for (int i = 0; i < N_LOSSES; i++)
            there = there || strstr(losses[i].loss, name) != NULL;
        if (!there)
            fail_msg("no example of %s", name);
    }
}

/* One test for each example and backend, so that one failure hides no other. */
#define N_TESTS (2 + 2 * (N_EXAMPLES + N_LOSSES))

static void
add_tests(struct CMUnitTest *tests, const struct example *e)
{
    static char names[N_TESTS][64];
    static int n;

    for (int i = 0; i < 2; i++, n++) {
        snprintf(names[n], sizeof(names[n]), "test_%d_%s_%s", n / 2,
                 e->loss != NULL ? "loss" : spec_layer_name(e->kind),
                 i == 0 ? "reference" : "cpu");
        tests[i] = (struct CMUnitTest){
            .name = names[n],
            .test_func = i == 0 ? test_layer_reference : test_layer_cpu,
            .initial_state = (void *)(uintptr_t)e,
        };
    }
}

int
main(void)
{
    static struct CMUnitTest tests[N_TESTS] = {
        cmocka_unit_test(test_layers_have_examples),
        cmocka_unit_test(test_losses_have_examples),
    };

    for (int i = 0; i < N_EXAMPLES; i++)
        add_tests(&tests[2 + 2 * i], &examples[i]);
    for (int i = 0; i < N_LOSSES; i++)
        add_tests(&tests[2 + 2 * (N_EXAMPLES + i)], &losses[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
