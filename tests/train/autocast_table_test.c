/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numerics, section 3, row by row and in bits: for every op that a spec can
 * name, inputs of every dtype, under autocast to each half type and inside a
 * float32 region.
 *
 * The table below is written from the page, not from ops.def. It says what
 * dtype the floating inputs of an op are cast to; from that the test casts by
 * hand, in a graph without autocast, and runs both graphs on both backends:
 * the same kernels in the same dtypes, so the same bits. Shapes, parameters
 * and numbers are those of the calls that PyTorch was asked about
 * (tests/kernels/oracle), each op's float32 ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/pass/autocast.h"
#include "kernels/backend.h"
#include "tests/kernels/check.h"
#include "tests/kernels/oracle/oracle.h"

#define DIRECTORY "tests/kernels/oracle"

enum row { NO_ROW, LOWER, FLOAT32, WIDEST, GIVEN };

/* The page's words; bmm is matmul, conv_transpose conv_transpose2d, pooling
 * three ops, comparisons compare; flatten, narrow and relayout are what
 * "reshape" is made of; batch_norm_eval is batch_norm in evaluation. */
static const enum row page[OP_COUNT] = {
    [OP_LINEAR] = LOWER,
    [OP_MATMUL] = LOWER,
    [OP_CONV1D] = LOWER,
    [OP_CONV2D] = LOWER,
    [OP_CONV_TRANSPOSE2D] = LOWER,
    [OP_ATTENTION] = LOWER,
    [OP_PRELU] = LOWER,

    [OP_LAYER_NORM] = FLOAT32,
    [OP_GROUP_NORM] = FLOAT32,
    [OP_RMS_NORM] = FLOAT32,
    [OP_SOFTMAX] = FLOAT32,
    [OP_LOG_SOFTMAX] = FLOAT32,
    [OP_SUM] = FLOAT32,
    [OP_CUMSUM] = FLOAT32,
    [OP_PROD] = FLOAT32,
    [OP_NORM] = FLOAT32,
    [OP_LOGSUMEXP] = FLOAT32,
    [OP_EXP] = FLOAT32,
    [OP_LOG] = FLOAT32,
    [OP_POW] = FLOAT32,
    [OP_RECIPROCAL] = FLOAT32,
    [OP_RSQRT] = FLOAT32,
    [OP_SOFTPLUS] = FLOAT32,
    [OP_CROSS_ENTROPY] = FLOAT32,
    [OP_NLL] = FLOAT32,
    [OP_MSE] = FLOAT32,
    [OP_L1] = FLOAT32,
    [OP_SMOOTH_L1] = FLOAT32,
    [OP_HUBER] = FLOAT32,
    [OP_BCE_WITH_LOGITS] = FLOAT32,
    [OP_KL_DIV] = FLOAT32,
    [OP_COSINE_SIMILARITY] = FLOAT32,
    [OP_UPSAMPLE] = FLOAT32,

    [OP_ADD] = WIDEST,
    [OP_SUB] = WIDEST,
    [OP_MUL] = WIDEST,
    [OP_DIV] = WIDEST,
    [OP_WHERE] = WIDEST,
    [OP_CAT] = WIDEST,
    [OP_STACK] = WIDEST,
    [OP_COMPARE] = WIDEST,

    [OP_BATCH_NORM] = GIVEN,
    [OP_BATCH_NORM_EVAL] = GIVEN,
    [OP_RELU] = GIVEN,
    [OP_GELU] = GIVEN,
    [OP_SILU] = GIVEN,
    [OP_TANH] = GIVEN,
    [OP_SIGMOID] = GIVEN,
    [OP_DROPOUT] = GIVEN,
    [OP_MAX_POOL2D] = GIVEN,
    [OP_AVG_POOL2D] = GIVEN,
    [OP_ADAPTIVE_AVG_POOL2D] = GIVEN,
    [OP_MEAN] = GIVEN,
    [OP_FLATTEN] = GIVEN,
    [OP_RELAYOUT] = GIVEN,
    [OP_RESHAPE] = GIVEN,
    [OP_NARROW] = GIVEN,
    [OP_TRANSPOSE] = GIVEN,
    [OP_EMBEDDING] = GIVEN,
};

/* ---- one combination ----------------------------------------------------- */

struct combination {
    const struct oracle_call *call; /* a float32 one */
    enum dtype low;                 /* autocast's */
    bool in_region;                 /* the layer is a float32 region */
    bool half;  /* inputs come from layers that made them half, not float32 */
    bool mixed; /* that holds for the first of them alone */
};

/* What a model's layers make, and may come in any dtype; parameters, targets
 * of losses and what the loop hands in are float32 as they come. */
static bool
is_activation(enum op op, int i)
{
    const char *name = op_info(op)->in_name[i];

    return page[op] == WIDEST || strcmp(name, "x") == 0 || op == OP_MATMUL ||
           op == OP_COSINE_SIMILARITY ||
           (op == OP_ATTENTION && strcmp(name, "mask") != 0);
}

static bool
is_floating(const struct combination *c, int i)
{
    return dtype_is_float(c->call->sig.in[i].dtype);
}

/* Dtype in which input i reaches the layer. */
static enum dtype
arriving(const struct combination *c, int i)
{
    bool first = true;

    if (!is_floating(c, i))
        return c->call->sig.in[i].dtype;
    for (int k = 0; k < i; k++)
        first =
            first && !(is_floating(c, k) && is_activation(c->call->sig.op, k));
    return c->half && is_activation(c->call->sig.op, i) && (first || !c->mixed)
               ? c->low
               : DTYPE_F32;
}

/* The page: what dtype input i is computed in. */
static enum dtype
computed(const struct combination *c, int i)
{
    enum dtype widest = DTYPE_NONE;

    if (!is_floating(c, i))
        return c->call->sig.in[i].dtype;
    if (c->in_region)
        return DTYPE_F32;
    switch (page[c->call->sig.op]) {
    case LOWER: return c->low;
    case FLOAT32: return DTYPE_F32;
    case GIVEN: return arriving(c, i);
    case WIDEST:
        for (int k = 0; k < c->call->sig.n_in; k++)
            if (is_floating(c, k))
                widest = widest == DTYPE_NONE
                             ? arriving(c, k)
                             : dtype_widest_float(widest, arriving(c, k));
        return widest;
    case NO_ROW: break;
    }
    return DTYPE_NONE;
}

/* The dtype that output 0 must have. */
static enum dtype
promised(const struct combination *c)
{
    const struct kernel_sig *sig = &c->call->sig;

    if (!dtype_is_float(sig->out[0].dtype))
        return sig->out[0].dtype;
    for (int i = 0; i < sig->n_in; i++) /* the first floating input decides */
        if (is_floating(c, i))
            return computed(c, i);
    return DTYPE_F32;
}

/* ---- graphs -------------------------------------------------------------- */

static int
add_cast(struct graph *g, int value, enum dtype to, const char *layer)
{
    const struct tensor_desc *t = &graph_value_at(g, value)->desc;
    struct err err;
    char name[64];
    int id;

    if (!dtype_is_float(t->dtype) || t->dtype == to)
        return value;
    snprintf(name, sizeof(name), "%s as %s", graph_value_at(g, value)->name,
             dtype_short_name(to));
    id = graph_add_node(g,
                        &(struct graph_node_args){.op = OP_CAST,
                                                  .in = &value,
                                                  .out_dtype = to,
                                                  .phase = GRAPH_FORWARD,
                                                  .layer = layer,
                                                  .out_name = name,
                                                  .out_value = GRAPH_NEW},
                        &err);
    assert_true(id >= 0);
    return graph_node_at(g, id)->out[0];
}

/* What another layer makes of a parameter: prelu of slope 1, which changes no
 * number, and under autocast rounds it to the half. */
static int
add_front(struct graph *g, int value, int i)
{
    const struct tensor_desc one = tensor_make(DTYPE_F32, 1, (int64_t[]){1});
    struct err err;
    char name[32];
    int in[2] = {value, 0}, id;

    snprintf(name, sizeof(name), "one%d", i);
    in[1] = graph_add_param(
        g, &(struct graph_param){.name = name, .desc = one, .autocast = true});
    snprintf(name, sizeof(name), "front%d", i);
    id = graph_add_node(g,
                        &(struct graph_node_args){.op = OP_PRELU,
                                                  .in = in,
                                                  .phase = GRAPH_FORWARD,
                                                  .layer = "before",
                                                  .out_name = name,
                                                  .out_value = GRAPH_NEW},
                        &err);
    if (id < 0)
        fail_msg("%s", err.msg);
    return graph_node_at(g, id)->out[0];
}

/* Value of input i as the layer gets it. */
static int
add_source(struct graph *g, const struct combination *c, int i, bool by_hand)
{
    const struct tensor_desc *t = &c->call->sig.in[i];
    char name[32];
    int id;

    if (t->dtype == DTYPE_NONE)
        return -1;
    snprintf(name, sizeof(name), "in%d", i);
    if (!dtype_is_float(t->dtype))
        return graph_add_input(g, GRAPH_INPUT_TARGET, t, name);
    id = graph_add_param(g, &(struct graph_param){.name = name, .desc = *t});
    assert_true(id >= 0);
    if (arriving(c, i) == DTYPE_F32)
        return id;
    return by_hand ? add_cast(g, id, c->low, "hand") : add_front(g, id, i);
}

/* The op on its sources; by hand: with the casts of the page. */
static struct graph *
make_graph(const struct combination *c, bool by_hand)
{
    const struct kernel_sig *sig = &c->call->sig;
    struct graph *g = graph_create();
    struct err err;
    int in[OP_MAX_IN];

    assert_non_null(g);
    for (int i = 0; i < sig->n_in; i++) {
        in[i] = add_source(g, c, i, by_hand);
        if (in[i] >= 0 && by_hand)
            in[i] = add_cast(g, in[i], computed(c, i), "hand");
    }
    err_clear(&err);
    if (graph_add_node(g,
                       &(struct graph_node_args){
                           .op = sig->op,
                           .params = &sig->params,
                           .in = in,
                           .phase = GRAPH_FORWARD,
                           .layer = "it",
                           .out_name = "y",
                           .out_value = GRAPH_NEW,
                           .like = &sig->out[0],
                       },
                       &err) < 0)
        fail_msg("%s: %s", op_info(sig->op)->name, err.msg);
    graph_set_roles(g, &(struct graph_roles){-1, -1, -1, -1, -1, -1});
    if (graph_freeze(g, &err) != 0)
        fail_msg("%s: %s", op_info(sig->op)->name, err.msg);
    return g;
}

static struct graph *
cast_graph(struct graph *g, const struct autocast_policy *policy)
{
    struct graph *out;
    struct err err;

    if (autocast_apply(g, policy, &out, &err) != 0)
        fail_msg("%s", err.msg);
    graph_destroy(&g);
    return out;
}

static struct graph *
automatic(const struct combination *c)
{
    static const char *const regions[] = {"it"};
    const struct autocast_policy policy = {.dtype = c->low,
                                           .fp32_regions = regions,
                                           .n_fp32_regions =
                                               c->in_region ? 1 : 0};

    return cast_graph(make_graph(c, false), &policy);
}

static struct graph *
manual(const struct combination *c)
{
    return cast_graph(make_graph(c, true),
                      &(struct autocast_policy){.dtype = DTYPE_F32});
}

/* ---- running ------------------------------------------------------------- */

#define MAX_VALUES 64

struct memory {
    const struct graph *g;
    struct check_buf value[MAX_VALUES];
};

/* "in3" is the call's input 3, whatever graph it stands in; "one0" is 1. */
static void
memory_open(struct memory *m, const struct graph *g,
            const struct oracle_call *call)
{
    static const float one = 1;

    memset(m, 0, sizeof(*m));
    m->g = g;
    assert_true(graph_n_values(g) <= MAX_VALUES);
    for (int i = 0; i < graph_n_values(g); i++) {
        const struct graph_value *v = graph_value_at(g, i);
        const bool slope = strncmp(v->name, "one", 3) == 0;

        check_buf_make(&m->value[i], tensor_n_bytes(&v->desc));
        if (v->producer < 0)
            memcpy(m->value[i].data,
                   slope ? (const void *)&one : call->in[v->name[2] - '0'],
                   m->value[i].bytes);
    }
}

static void
memory_close(struct memory *m)
{
    for (int i = 0; i < MAX_VALUES; i++)
        check_buf_free(&m->value[i]);
}

static void
run_node(struct memory *m, const struct backend *backend,
         const struct graph_node *node)
{
    static const struct kernel_step step = {.seed = 42, .iteration = 3};
    struct kernel_sig sig = {.op = node->op,
                             .params = node->params,
                             .n_in = node->n_in,
                             .n_out = node->n_out,
                             .threads = 1};
    struct kernel_call call = {.sig = &sig, .step = &step};
    struct check_buf workspace;
    const struct kernel *k;
    struct err err;

    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0) {
            sig.in[i] = graph_value_at(m->g, node->in[i])->desc;
            call.in[i] = m->value[node->in[i]].data;
        }
    for (int i = 0; i < node->n_out; i++)
        if (node->out[i] >= 0) {
            sig.out[i] = graph_value_at(m->g, node->out[i])->desc;
            call.out[i] = m->value[node->out[i]].data;
        }
    k = backend_find_kernel(backend, &sig, NULL, &err);
    if (k == NULL)
        fail_msg("%s", err.msg);
    if (k->prepare != NULL)
        assert_int_equal(k->prepare(&sig, &call.state, &err), 0);
    check_buf_make(&workspace, k->workspace_bytes != NULL
                                   ? k->workspace_bytes(&sig, call.state)
                                   : 0);
    call.workspace = workspace.data;
    k->run(&call);
    if (k->release != NULL)
        k->release(call.state);
    check_buf_free(&workspace);
}

static void
describe(const struct combination *c, char *text, size_t size)
{
    snprintf(text, size, "ops.txt:%d: %s of %s%s under %s%s", c->call->line,
             op_info(c->call->sig.op)->name, c->half ? "halves" : "float32",
             c->mixed ? " and float32" : "", dtype_name(c->low),
             c->in_region ? ", in a float32 region" : "");
}

static void
compare_bits(const struct combination *c, const struct backend *backend,
             const struct graph *a, const struct graph *b)
{
    const struct graph_node *last[2] = {graph_node_at(a, graph_n_nodes(a) - 1),
                                        graph_node_at(b, graph_n_nodes(b) - 1)};
    struct memory m[2];
    char text[160];

    memory_open(&m[0], a, c->call);
    memory_open(&m[1], b, c->call);
    for (int i = 0; i < graph_n_nodes(a); i++)
        run_node(&m[0], backend, graph_node_at(a, i));
    for (int i = 0; i < graph_n_nodes(b); i++)
        run_node(&m[1], backend, graph_node_at(b, i));
    describe(c, text, sizeof(text));
    for (int i = 0; i < last[0]->n_out; i++) {
        const struct check_buf *x = &m[0].value[last[0]->out[i]];
        const struct check_buf *y = &m[1].value[last[1]->out[i]];

        if (x->bytes != y->bytes || memcmp(x->data, y->data, x->bytes) != 0)
            fail_msg("%s on %s: %s has other bits than cast by hand", text,
                     backend->name, op_info(last[0]->op)->out_name[i]);
    }
    memory_close(&m[0]);
    memory_close(&m[1]);
}

static void
check_combination(const struct combination *c)
{
    struct graph *a = automatic(c), *b = manual(c);
    const struct graph_node *node = graph_node_at(a, graph_n_nodes(a) - 1);
    const enum dtype got = graph_value_at(a, node->out[0])->desc.dtype;
    char text[160];

    describe(c, text, sizeof(text));
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0 &&
            graph_value_at(a, node->in[i])->desc.dtype != computed(c, i))
            fail_msg("%s: %s arrives as %s, the page says %s", text,
                     op_info(node->op)->in_name[i],
                     dtype_name(graph_value_at(a, node->in[i])->desc.dtype),
                     dtype_name(computed(c, i)));
    if (got != promised(c))
        fail_msg("%s: gives %s, the page says %s", text, dtype_name(got),
                 dtype_name(promised(c)));
    for (int k = 0; backend_at(k) != NULL; k++)
        compare_bits(c, backend_at(k), a, b);
    graph_destroy(&a);
    graph_destroy(&b);
}

/* ---- the tests ----------------------------------------------------------- */

static bool
all_float32(const struct kernel_sig *sig)
{
    for (int i = 0; i < sig->n_in; i++)
        if (dtype_is_half(sig->in[i].dtype))
            return false;
    return true;
}

static void
check_call(const struct oracle_call *call)
{
    for (int i = 0; i < 16; i++)
        check_combination(&(struct combination){
            .call = call,
            .low = i & 1 ? DTYPE_BF16 : DTYPE_F16,
            .in_region = i & 2,
            .half = i & 4,
            .mixed = i & 8,
        });
}

static void
test_autocast_table_rows(void **state)
{
    struct oracle *oracle = oracle_open(DIRECTORY);
    int n_calls[OP_COUNT] = {0};
    struct oracle_call call;

    (void)state;
    while (oracle_next(oracle, &call)) {
        if (page[call.sig.op] == NO_ROW || !all_float32(&call.sig))
            continue;
        check_call(&call);
        n_calls[call.sig.op]++;
    }
    oracle_close(&oracle);
    for (int op = 0; op < OP_COUNT; op++)
        if (page[op] != NO_ROW && n_calls[op] == 0)
            fail_msg("no call of %s", op_info((enum op)op)->name);
}

/* What a spec can name stands on the page, in the class of ops.def. */
static void
test_autocast_table_is_ops_def(void **state)
{
    static const enum op_cast classes[] = {[NO_ROW] = OP_CAST_NONE,
                                           [LOWER] = OP_CAST_LOWER,
                                           [FLOAT32] = OP_CAST_FP32,
                                           [WIDEST] = OP_CAST_WIDEST,
                                           [GIVEN] = OP_CAST_GIVEN};

    (void)state;
    for (int op = 0; op < OP_COUNT; op++)
        if (op_info((enum op)op)->cast != classes[page[op]])
            fail_msg("ops.def has %s in another class than the page",
                     op_info((enum op)op)->name);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_autocast_table_is_ops_def),
        cmocka_unit_test(test_autocast_table_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
