/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_print(): a graph as text for people, and for golden tests.
 *
 * First what comes from outside, then the nodes in order, one line each (one
 * more for every further output):
 *
 *    0 forward  fc1   linear  fc1.out f32[64,128] <- x, fc1.weight, fc1.bias
 */
#include "engine/graph/graph.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const phase_name[] = {
    [GRAPH_FORWARD] = "forward",
    [GRAPH_LOSS] = "loss",
    [GRAPH_BACKWARD] = "backward",
    [GRAPH_METRIC] = "metric",
};

static int
wider(int width, const char *s)
{
    const int n = (int)strlen(s);

    return n > width ? n : width;
}

/* ---- parameters of an op ------------------------------------------------- */

/* " (a, b)", or nothing. */
struct list {
    FILE *f;
    bool any;
};

static void list_put(struct list *l, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void
list_put(struct list *l, const char *fmt, ...)
{
    va_list ap;

    fputs(l->any ? ", " : " (", l->f);
    l->any = true;
    va_start(ap, fmt);
    vfprintf(l->f, fmt, ap);
    va_end(ap);
}

static void
print_pair(struct list *l, const char *name, const int64_t pair[2],
           int64_t usual)
{
    if (pair[0] == usual && pair[1] == usual)
        return;
    if (pair[1] == pair[0])
        list_put(l, "%s %" PRId64, name, pair[0]);
    else
        list_put(l, "%s %" PRId64 "x%" PRId64, name, pair[0], pair[1]);
}

static void
put_loss(struct list *l, enum op op, const union op_params *p)
{
    if (p->loss.label_smoothing != 0)
        list_put(l, "label_smoothing %g", p->loss.label_smoothing);
    if (p->loss.has_ignore_index)
        list_put(l, "ignore_index %" PRId64, p->loss.ignore_index);
    if (op == OP_CORRECT && p->loss.k > 1)
        list_put(l, "k %" PRId64, p->loss.k);
    if (op == OP_SMOOTH_L1 || op == OP_SMOOTH_L1_BWD)
        list_put(l, "beta %g", p->loss.beta);
    if (op == OP_HUBER || op == OP_HUBER_BWD)
        list_put(l, "delta %g", p->loss.delta);
    if (op != OP_KL_DIV && op != OP_KL_DIV_BWD)
        return;
    if (p->loss.log_target)
        list_put(l, "log_target");
    if (p->loss.factor != 1)
        list_put(l, "factor %g", p->loss.factor);
}

static void
put_conv(struct list *l, const union op_params *p)
{
    print_pair(l, "stride", p->conv.stride, 1);
    print_pair(l, "padding", p->conv.padding, 0);
    print_pair(l, "output_padding", p->conv.output_padding, 0);
    print_pair(l, "dilation", p->conv.dilation, 1);
    if (p->conv.groups != 1)
        list_put(l, "groups %" PRId64, p->conv.groups);
}

static void
put_pool(struct list *l, const union op_params *p)
{
    print_pair(l, "kernel", p->pool.kernel, 0);
    print_pair(l, "stride", p->pool.stride, 0);
    print_pair(l, "padding", p->pool.padding, 0);
    if (p->pool.count_include_pad)
        list_put(l, "count_include_pad");
}

static void
put_attention(struct list *l, const union op_params *p)
{
    list_put(l, "heads %" PRId64 " scale %g", p->attention.n_heads,
             p->attention.scale);
    if (p->attention.causal)
        list_put(l, "causal");
    if (p->attention.p > 0)
        list_put(l, "p %g stream %" PRIu32, p->attention.p,
                 p->attention.stream);
}

static void
put_reduce(struct list *l, enum op op, const union op_params *p)
{
    bool any = false;

    fprintf(l->f, "%s", l->any ? ", dims" : " (dims");
    l->any = true;
    for (int i = 0; i < TENSOR_MAX_RANK; i++) {
        if (!(p->reduce.dims >> i & 1))
            continue;
        fprintf(l->f, "%s%d", any ? "," : " ", i);
        any = true;
    }
    if (p->reduce.keepdim)
        list_put(l, "keepdim");
    if (op == OP_NORM || op == OP_NORM_BWD)
        list_put(l, "p %g", p->reduce.p);
}

static void
put_axis(struct list *l, enum op op, const union op_params *p)
{
    list_put(l, "axis %d", p->axis.axis);
    if (op == OP_NARROW || op == OP_NARROW_BWD)
        list_put(l, "start %" PRId64 " length %" PRId64, p->axis.start,
                 p->axis.length);
    if (op == OP_STACK_BWD)
        list_put(l, "entry %" PRId64, p->axis.start);
    if (p->axis.keepdim && (op == OP_PROD || op == OP_PROD_BWD))
        list_put(l, "keepdim");
}

static const char *
compare_sign(enum op_compare how)
{
    switch (how) {
    case OP_COMPARE_EQ: return "=";
    case OP_COMPARE_NE: return "!=";
    case OP_COMPARE_LT: return "<";
    case OP_COMPARE_LE: return "<=";
    case OP_COMPARE_GT: return ">";
    case OP_COMPARE_GE: return ">=";
    }
    return "";
}

/* The operand that is a number stands for an absent input. */
static void
put_operand(struct list *l, const struct graph_node *node)
{
    const union op_params *p = &node->params;
    bool absent = false;

    for (int i = 0; i < node->n_in; i++)
        absent = absent || node->in[i] < 0;
    if (node->op == OP_COMPARE && absent)
        list_put(l, "%s %g", compare_sign(p->compare.how), p->compare.value);
    else if (node->op == OP_COMPARE)
        list_put(l, "%s", compare_sign(p->compare.how));
    else if (absent)
        list_put(l, "with %g", p->binary.value);
}

static void
put_norm(struct list *l, enum op op, const union op_params *p)
{
    if (op == OP_STATS_TRACK)
        list_put(l, "momentum %g n %" PRId64, p->batch_norm.momentum,
                 p->batch_norm.n);
    else if (op == OP_BATCH_NORM || op == OP_BATCH_NORM_BWD ||
             op == OP_BATCH_NORM_EVAL)
        list_put(l, "eps %g", p->batch_norm.eps);
    else if (op == OP_GROUP_NORM || op == OP_GROUP_NORM_BWD)
        list_put(l, "eps %g groups %" PRId64, p->group_norm.eps,
                 p->group_norm.n_groups);
    else
        list_put(l, "eps %g dims %d", p->layer_norm.eps, p->layer_norm.n_dims);
}

static void
put_function(struct list *l, enum op op, const union op_params *p)
{
    if ((op == OP_GELU || op == OP_GELU_BWD) && p->gelu.tanh)
        list_put(l, "tanh");
    else if (op == OP_POW || op == OP_POW_BWD)
        list_put(l, "exponent %g", p->pow.exponent);
    else if (op == OP_SOFTPLUS || op == OP_SOFTPLUS_BWD)
        list_put(l, "beta %g threshold %g", p->softplus.beta,
                 p->softplus.threshold);
    else if (op == OP_DROPOUT || op == OP_DROPOUT_BWD)
        list_put(l, "p %g stream %" PRIu32, p->dropout.p, p->dropout.stream);
}

static void
put_move(struct list *l, enum op op, const union op_params *p)
{
    if (op == OP_TRANSPOSE)
        list_put(l, "dims %d,%d", p->transpose.dim0, p->transpose.dim1);
    else if (op == OP_EMBEDDING || op == OP_EMBEDDING_BWD) {
        if (p->embedding.has_padding)
            list_put(l, "padding %" PRId64, p->embedding.padding_index);
    } else if (op == OP_UPSAMPLE || op == OP_UPSAMPLE_BWD) {
        list_put(l, "%s",
                 p->upsample.mode == OP_UPSAMPLE_NEAREST ? "nearest"
                                                         : "bilinear");
        if (p->upsample.align_corners)
            list_put(l, "align_corners");
    }
}

static void
put_matmul(struct list *l, const union op_params *p)
{
    if (p->matmul.a_transposed)
        list_put(l, "a transposed");
    if (p->matmul.b_transposed)
        list_put(l, "b transposed");
}

/* Which set of parameters an op reads; kernels/op.h. */
static const enum set {
    NO_SET,
    CONV,
    POOL,
    NORM,
    LOSS,
    AXIS,
    REDUCE,
    FUNCTION,
    MOVE,
    MATMUL,
    ATTENTION,
    OPERAND
} sets[OP_COUNT] = {
    [OP_CONV2D... OP_CONV_TRANSPOSE2D_DW] = CONV,
    [OP_MATMUL... OP_MATMUL_DB] = MATMUL,
    [OP_ATTENTION... OP_ATTENTION_BWD] = ATTENTION,
    [OP_EMBEDDING... OP_EMBEDDING_BWD] = MOVE,
    [OP_STATS_TRACK] = NORM,
    [OP_BATCH_NORM... OP_RMS_NORM_BWD] = NORM,
    [OP_SOFTMAX... OP_PROD_BWD] = AXIS,
    [OP_SUM... OP_LOGSUMEXP_BWD] = REDUCE,
    [OP_COSINE_SIMILARITY... OP_COSINE_SIMILARITY_BWD] = AXIS,
    [OP_RELU... OP_SOFTPLUS_BWD] = FUNCTION,
    [OP_ADD... OP_DIV] = OPERAND,
    [OP_MUL_BWD... OP_DIV_BWD_A] = OPERAND,
    [OP_COMPARE... OP_WHERE] = OPERAND,
    [OP_DROPOUT... OP_DROPOUT_BWD] = FUNCTION,
    [OP_MAX_POOL2D... OP_AVG_POOL2D_BWD] = POOL,
    [OP_TRANSPOSE] = MOVE,
    [OP_NARROW... OP_STACK_BWD] = AXIS,
    [OP_UPSAMPLE... OP_UPSAMPLE_BWD] = MOVE,
    [OP_CROSS_ENTROPY... OP_CONFUSION] = LOSS,
};

/* Says what differs from the usual. */
static void
put_params(struct list *l, const struct graph_node *node)
{
    const union op_params *p = &node->params;

    switch (sets[node->op]) {
    case NO_SET: break;
    case CONV: put_conv(l, p); break;
    case POOL: put_pool(l, p); break;
    case NORM: put_norm(l, node->op, p); break;
    case LOSS: put_loss(l, node->op, p); break;
    case AXIS: put_axis(l, node->op, p); break;
    case REDUCE: put_reduce(l, node->op, p); break;
    case FUNCTION: put_function(l, node->op, p); break;
    case MOVE: put_move(l, node->op, p); break;
    case MATMUL: put_matmul(l, p); break;
    case ATTENTION: put_attention(l, p); break;
    case OPERAND: put_operand(l, node); break;
    }
}

static void
print_params(FILE *f, const struct graph_node *node)
{
    struct list l = {f, false};

    put_params(&l, node);
    if (l.any)
        fputs(")", f);
}

/* ---- what comes from outside --------------------------------------------- */

static const char *
outside_words(const struct graph *g, const struct graph_value *v, char *text,
              size_t size)
{
    static const char *const init_name[] = {[GRAPH_INIT_UNIFORM] = "uniform",
                                            [GRAPH_INIT_NORMAL] = "normal",
                                            [GRAPH_INIT_ZERO] = "zeros",
                                            [GRAPH_INIT_ONE] = "ones",
                                            [GRAPH_INIT_CONSTANT] = "all"};

    text[0] = '\0';
    if (v->kind == GRAPH_PARAM) {
        const struct graph_param *p = graph_param_at(g, v->index);

        if (p->init == GRAPH_INIT_UNIFORM)
            snprintf(text, size, "uniform +-%.4g%s", p->bound,
                     p->autocast ? ", may be cast" : "");
        else if (p->init == GRAPH_INIT_NORMAL || p->init == GRAPH_INIT_CONSTANT)
            snprintf(text, size, "%s %.4g%s", init_name[p->init], p->bound,
                     p->autocast ? ", may be cast" : "");
        else
            snprintf(text, size, "%s%s", init_name[p->init],
                     p->autocast ? ", may be cast" : "");
    } else if (v->kind == GRAPH_BUFFER) {
        snprintf(text, size, "%s",
                 init_name[graph_buffer_at(g, v->index)->init]);
    }
    return text;
}

static void
print_outside(FILE *f, const struct graph *g, enum graph_value_kind kind,
              const char *title, int width)
{
    char desc[96], words[64];
    bool any = false;

    for (int i = 0; i < graph_n_values(g); i++) {
        const struct graph_value *v = graph_value_at(g, i);

        if (v->kind != kind)
            continue;
        if (!any)
            fprintf(f, "%s\n", title);
        any = true;
        tensor_format(&v->desc, desc, sizeof(desc));
        outside_words(g, v, words, sizeof(words));
        if (words[0] == '\0')
            fprintf(f, "     %-*s %s\n", width, v->name, desc);
        else
            fprintf(f, "     %-*s %-20s %s\n", width, v->name, desc, words);
    }
    if (any)
        fprintf(f, "\n");
}

/* ---- nodes --------------------------------------------------------------- */

struct widths {
    int value, layer, op, out, desc;
};

static void
measure(const struct graph *g, struct widths *w)
{
    char desc[96];

    *w = (struct widths){0};
    for (int i = 0; i < graph_n_values(g); i++)
        if (graph_value_at(g, i)->kind != GRAPH_TEMP)
            w->value = wider(w->value, graph_value_at(g, i)->name);
    for (int i = 0; i < graph_n_nodes(g); i++) {
        const struct graph_node *node = graph_node_at(g, i);

        w->layer = wider(w->layer, node->layer);
        w->op = wider(w->op, op_info(node->op)->name);
        for (int k = 0; k < node->n_out; k++) {
            if (node->out[k] < 0)
                continue;
            w->out = wider(w->out, graph_value_at(g, node->out[k])->name);
            w->desc = wider(
                w->desc, tensor_format(&graph_value_at(g, node->out[k])->desc,
                                       desc, sizeof(desc)));
        }
    }
}

static void
print_inputs(FILE *f, const struct graph *g, const struct graph_node *node)
{
    bool any = false;

    fprintf(f, " <-");
    for (int i = 0; i < node->n_in; i++) {
        if (node->in[i] < 0)
            continue;
        fprintf(f, "%s %s", any ? "," : "",
                graph_value_at(g, node->in[i])->name);
        any = true;
    }
}

static void
print_node(FILE *f, const struct graph *g, int id, const struct widths *w)
{
    const struct graph_node *node = graph_node_at(g, id);
    const int indent = 4 + 1 + 8 + 1 + w->layer + 1 + w->op + 1;
    bool first = true;
    char desc[96];

    fprintf(f, "%4d %-8s %-*s %-*s ", id, phase_name[node->phase], w->layer,
            node->layer, w->op, op_info(node->op)->name);
    for (int k = 0; k < node->n_out; k++) {
        const struct graph_value *v;

        if (node->out[k] < 0)
            continue;
        v = graph_value_at(g, node->out[k]);
        tensor_format(&v->desc, desc, sizeof(desc));
        if (!first) {
            fprintf(f, "%*s%-*s %s\n", indent, "", w->out, v->name, desc);
            continue;
        }
        first = false;
        fprintf(f, "%-*s %-*s", w->out, v->name, w->desc, desc);
        print_inputs(f, g, node);
        print_params(f, node);
        fprintf(f, "%s\n", node->fp32_region ? "  [fp32 region]" : "");
    }
}

static void
print_summary(FILE *f, const struct graph *g)
{
    int64_t n = 0;

    for (int i = 0; i < graph_n_params(g); i++)
        n += tensor_n_elems(&graph_param_at(g, i)->desc);
    fprintf(f, "graph: %d nodes, %d parameters of %" PRId64 " elements\n\n",
            graph_n_nodes(g), graph_n_params(g), n);
}

char *
graph_print(const struct graph *g)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    struct widths w;

    if (f == NULL)
        return NULL;
    measure(g, &w);
    print_summary(f, g);
    print_outside(f, g, GRAPH_INPUT, "inputs", w.value);
    print_outside(f, g, GRAPH_PARAM, "parameters", w.value);
    print_outside(f, g, GRAPH_BUFFER, "buffers", w.value);
    fprintf(f, "nodes\n");
    for (int i = 0; i < graph_n_nodes(g); i++)
        print_node(f, g, i, &w);
    if (fclose(f) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
