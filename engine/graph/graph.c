/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/graph.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/graph/shape.h"
#include "engine/graph/verify.h"

struct graph {
    struct arena *arena; /* owned: every name */
    struct graph_value *value;
    struct graph_node *node;
    struct graph_param *param;
    struct graph_buffer *buffer;
    int *param_value, *buffer_value; /* owned, as all lists here */
    int n_values, n_nodes, n_params, n_buffers;
    int cap_values, cap_nodes, cap_params, cap_buffers;
    int cap_param_value, cap_buffer_value;
    int input_value[GRAPH_INPUT_COUNT];
    struct graph_roles roles;
    bool frozen;
};

struct graph *
graph_create(void)
{
    struct graph *g = calloc(1, sizeof(*g));

    if (g == NULL)
        return NULL;
    g->arena = arena_create();
    if (g->arena == NULL) {
        free(g);
        return NULL;
    }
    for (int i = 0; i < GRAPH_INPUT_COUNT; i++)
        g->input_value[i] = -1;
    g->roles = (struct graph_roles){-1, -1, -1, -1, -1, -1};
    return g;
}

void
graph_destroy(struct graph **graph)
{
    struct graph *g = *graph;

    if (g == NULL)
        return;
    free(g->value);
    free(g->node);
    free(g->param);
    free(g->buffer);
    free(g->param_value);
    free(g->buffer_value);
    arena_destroy(&g->arena);
    free(g);
    *graph = NULL;
}

/* ---- building ------------------------------------------------------------ */

/* A list with room for item n; NULL: no memory, and the old list stands. */
static void *
list_reserve(void *list, int n, int *cap, size_t size)
{
    const int want = *cap == 0 ? 16 : 2 * *cap;
    void *bigger;

    if (n < *cap)
        return list;
    bigger = realloc(list, (size_t)want * size);
    if (bigger != NULL)
        *cap = want;
    return bigger;
}

static int
add_value(struct graph *g, enum graph_value_kind kind,
          const struct tensor_desc *desc, const char *name, int index)
{
    struct graph_value *list =
        list_reserve(g->value, g->n_values, &g->cap_values, sizeof(*list));
    char *copy = NULL;

    assert(!g->frozen && desc->dtype != DTYPE_NONE && shape_fits(desc));
    if (list == NULL)
        return ERR_NOMEM;
    g->value = list;
    copy = arena_copy(g->arena, name);
    if (copy == NULL)
        return ERR_NOMEM;
    list[g->n_values] = (struct graph_value){.kind = kind,
                                             .desc = *desc,
                                             .name = copy,
                                             .index = index,
                                             .producer = -1,
                                             .sample_axis = -1};
    return g->n_values++;
}

int
graph_add_input(struct graph *g, enum graph_input which,
                const struct tensor_desc *desc, const char *name)
{
    const int v = add_value(g, GRAPH_INPUT, desc, name, (int)which);

    assert(g->input_value[which] == -1);
    if (v < 0)
        return v;
    g->input_value[which] = v;
    if (which == GRAPH_INPUT_X || which == GRAPH_INPUT_TARGET)
        g->value[v].sample_axis = 0;
    return v;
}

int
graph_add_param(struct graph *g, const struct graph_param *param)
{
    const int i = g->n_params;
    struct graph_param *list =
        list_reserve(g->param, i, &g->cap_params, sizeof(*list));
    int *value, v;

    if (list == NULL)
        return ERR_NOMEM;
    g->param = list;
    value =
        list_reserve(g->param_value, i, &g->cap_param_value, sizeof(*value));
    if (value == NULL)
        return ERR_NOMEM;
    g->param_value = value;
    assert(param->desc.dtype == DTYPE_F32);
    v = add_value(g, GRAPH_PARAM, &param->desc, param->name, i);
    if (v < 0)
        return v;
    list[i] = *param;
    list[i].name = g->value[v].name;
    value[i] = v;
    g->n_params++;
    return v;
}

int
graph_add_buffer(struct graph *g, const struct graph_buffer *buffer)
{
    const int i = g->n_buffers;
    struct graph_buffer *list =
        list_reserve(g->buffer, i, &g->cap_buffers, sizeof(*list));
    int *value, v;

    if (list == NULL)
        return ERR_NOMEM;
    g->buffer = list;
    value =
        list_reserve(g->buffer_value, i, &g->cap_buffer_value, sizeof(*value));
    if (value == NULL)
        return ERR_NOMEM;
    g->buffer_value = value;
    assert(buffer->desc.dtype == DTYPE_F32);
    v = add_value(g, GRAPH_BUFFER, &buffer->desc, buffer->name, i);
    if (v < 0)
        return v;
    list[i] = *buffer;
    list[i].name = g->value[v].name;
    value[i] = v;
    g->n_buffers++;
    return v;
}

int
graph_add_grad(struct graph *g, int param)
{
    char *name;

    assert(param >= 0 && param < g->n_params);
    name = arena_format(g->arena, "%s.grad", g->param[param].name);
    if (name == NULL)
        return ERR_NOMEM;
    return add_value(g, GRAPH_GRAD, &g->param[param].desc, name, param);
}

static void
gather_inputs(const struct graph *g, const struct graph_node_args *args,
              struct shape_query *q)
{
    *q = (struct shape_query){.op = args->op,
                              .params = args->params,
                              .out_dtype = args->out_dtype,
                              .like = args->like};
    for (int i = 0; i < op_info(args->op)->n_in; i++) {
        assert(args->in[i] >= -1 && args->in[i] < g->n_values);
        if (args->in[i] >= 0)
            q->in[i] = g->value[args->in[i]].desc;
    }
}

/* What becomes of output i: an existing value, GRAPH_NEW or GRAPH_ABSENT. */
static int
wanted_output(const struct graph_node_args *args, int i)
{
    if (args->out != NULL)
        return args->out[i].value;
    return i == 0 && args->out_value >= 0 ? args->out_value : GRAPH_NEW;
}

/* "fc1.out" -> "fc1.mean" for an output called "mean". */
static char *
name_output(struct graph *g, const struct graph_node_args *args, int i)
{
    const char *base = args->out_name;
    int n;

    if (args->out != NULL && args->out[i].name != NULL)
        return arena_copy(g->arena, args->out[i].name);
    assert(base != NULL);
    if (i == 0)
        return arena_copy(g->arena, base);
    n = (int)strlen(base);
    if (n > 4 && strcmp(base + n - 4, ".out") == 0)
        n -= 4;
    return arena_format(g->arena, "%.*s.%s", n, base,
                        op_info(args->op)->out_name[i]);
}

/* Does dim 0 of output i count samples, because an input's does? */
static bool
counts_samples(const struct graph *g, const struct graph_node *node, int i,
               const struct tensor_desc *out)
{
    for (int k = 0; k < node->n_in; k++) {
        const struct graph_value *v;

        if (node->in[k] < 0)
            continue;
        v = &g->value[node->in[k]];
        if (v->sample_axis == 0 &&
            shape_keeps_samples(node->op, i, &v->desc, out))
            return true;
    }
    return false;
}

static int
add_output(struct graph *g, const struct graph_node_args *args,
           struct graph_node *node, int i, const struct tensor_desc *desc)
{
    const int want = wanted_output(args, i);
    char *name;
    int v;

    node->out[i] = -1;
    if (want == GRAPH_ABSENT)
        return 0;
    if (want >= 0) {
        const struct graph_value *old = &g->value[want];

        assert(want < g->n_values && old->desc.dtype == desc->dtype);
        assert(tensor_same_shape(&old->desc, desc));
        assert(old->kind == GRAPH_GRAD || old->kind == GRAPH_BUFFER);
        node->out[i] = want;
        g->value[want].producer = g->n_nodes;
        return 0;
    }
    name = name_output(g, args, i);
    v = name == NULL ? ERR_NOMEM : add_value(g, GRAPH_TEMP, desc, name, -1);
    if (v < 0)
        return v;
    g->value[v].producer = g->n_nodes;
    if (counts_samples(g, node, i, desc))
        g->value[v].sample_axis = 0;
    node->out[i] = v;
    return 0;
}

/* Sizes that cannot be, told before anything is made of them. */
static int
check_sizes(const struct graph_node *node, const struct tensor_desc *out,
            struct err *err)
{
    char text[SHAPE_TEXT_MAX];

    for (int i = 0; i < node->n_out; i++)
        if (!shape_fits(&out[i]))
            return err_set(err, ERR_SPEC,
                           "its output %s has more than 2^40 elements",
                           shape_format(&out[i], text, sizeof(text)));
    return 0;
}

int
graph_add_node(struct graph *g, const struct graph_node_args *args,
               struct err *err)
{
    static const union op_params no_params;
    const struct op_info *info = op_info(args->op);
    struct graph_node node = {.op = args->op,
                              .n_in = info->n_in,
                              .n_out = info->n_out,
                              .phase = args->phase,
                              .fp32_region = args->fp32_region};
    struct tensor_desc desc[OP_MAX_OUT];
    struct graph_node *list;
    struct shape_query q;
    int rc;

    assert(!g->frozen);
    gather_inputs(g, args, &q);
    node.params = args->params == NULL ? no_params : *args->params;
    q.params = &node.params;
    memcpy(node.in, args->in, sizeof(int) * (size_t)node.n_in);
    rc = shape_infer(&q, desc, err);
    if (rc == 0)
        rc = check_sizes(&node, desc, err);
    if (rc != 0) {
        if (args->layer[0] != '\0')
            err_prefix(err, "%s (%s)", args->layer, info->name);
        return rc;
    }
    list = list_reserve(g->node, g->n_nodes, &g->cap_nodes, sizeof(*list));
    if (list == NULL)
        return err_set(err, ERR_NOMEM, "no memory for the graph");
    g->node = list;
    node.layer = arena_copy(g->arena, args->layer);
    if (node.layer == NULL)
        return err_set(err, ERR_NOMEM, "no memory for the graph");
    for (int i = 0; i < node.n_out; i++)
        if (add_output(g, args, &node, i, &desc[i]) != 0)
            return err_set(err, ERR_NOMEM, "no memory for the graph");
    list[g->n_nodes] = node;
    return g->n_nodes++;
}

void
graph_set_roles(struct graph *g, const struct graph_roles *roles)
{
    assert(!g->frozen);
    g->roles = *roles;
}

int
graph_freeze(struct graph *g, struct err *err)
{
    const int rc = verify_graph(g, err);

    assert(!g->frozen);
    g->frozen = rc == 0;
    return rc;
}

/* ---- reading ------------------------------------------------------------- */

int
graph_n_values(const struct graph *g)
{
    return g->n_values;
}

const struct graph_value *
graph_value_at(const struct graph *g, int id)
{
    assert(id >= 0 && id < g->n_values);
    return &g->value[id];
}

int
graph_n_nodes(const struct graph *g)
{
    return g->n_nodes;
}

const struct graph_node *
graph_node_at(const struct graph *g, int id)
{
    assert(id >= 0 && id < g->n_nodes);
    return &g->node[id];
}

int
graph_n_params(const struct graph *g)
{
    return g->n_params;
}

const struct graph_param *
graph_param_at(const struct graph *g, int i)
{
    assert(i >= 0 && i < g->n_params);
    return &g->param[i];
}

int
graph_n_buffers(const struct graph *g)
{
    return g->n_buffers;
}

const struct graph_buffer *
graph_buffer_at(const struct graph *g, int i)
{
    assert(i >= 0 && i < g->n_buffers);
    return &g->buffer[i];
}

const struct graph_roles *
graph_roles(const struct graph *g)
{
    return &g->roles;
}

int
graph_param_value(const struct graph *g, int i)
{
    assert(i >= 0 && i < g->n_params);
    return g->param_value[i];
}

int
graph_buffer_value(const struct graph *g, int i)
{
    assert(i >= 0 && i < g->n_buffers);
    return g->buffer_value[i];
}

int
graph_input_value(const struct graph *g, enum graph_input which)
{
    return g->input_value[which];
}
