/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/verify.h"

#include <stdlib.h>
#include <string.h>

#include "engine/graph/shape.h"

/* Does this op update its inputs 0 .. n-1 where they lie? */
static int
n_updated(enum op op)
{
    if (op == OP_STATS_TRACK)
        return 2;
    return op == OP_GRAD_ACCUMULATE ? 1 : 0;
}

static int
verify_inputs(const struct graph *g, int id, struct err *err)
{
    const struct graph_node *node = graph_node_at(g, id);
    const struct op_info *info = op_info(node->op);

    for (int i = 0; i < info->n_in; i++) {
        const struct graph_value *v;

        if (node->in[i] < 0) {
            if (!info->in_optional[i])
                return err_set(err, ERR_INTERNAL, "node %d (%s) lacks its %s",
                               id, info->name, info->in_name[i]);
            continue;
        }
        v = graph_value_at(g, node->in[i]);
        if (v->kind == GRAPH_TEMP && v->producer >= id)
            return err_set(err, ERR_INTERNAL,
                           "node %d (%s) reads %s before node %d makes it", id,
                           info->name, v->name, v->producer);
    }
    return 0;
}

static int
verify_outputs(const struct graph *g, int id, struct err *err)
{
    const struct graph_node *node = graph_node_at(g, id);
    const struct op_info *info = op_info(node->op);
    bool any = false;

    for (int i = 0; i < info->n_out; i++) {
        const struct graph_value *v;

        if (node->out[i] < 0)
            continue;
        any = true;
        v = graph_value_at(g, node->out[i]);
        if (i < n_updated(node->op) && node->out[i] != node->in[i])
            return err_set(err, ERR_INTERNAL,
                           "node %d (%s) must update %s in place", id,
                           info->name, info->in_name[i]);
        if (v->kind == GRAPH_INPUT || v->kind == GRAPH_PARAM)
            return err_set(err, ERR_INTERNAL, "node %d (%s) writes to %s", id,
                           info->name, v->name);
        if (v->kind != GRAPH_BUFFER && v->producer != id)
            return err_set(err, ERR_INTERNAL,
                           "%s has two makers, nodes %d and %d", v->name, id,
                           v->producer);
    }
    if (!any)
        return err_set(err, ERR_INTERNAL, "node %d (%s) has no output", id,
                       info->name);
    return 0;
}

/* Shapes and dtypes of the outputs against the op's rule. */
static int
verify_rule(const struct graph *g, int id, struct err *err)
{
    const struct graph_node *node = graph_node_at(g, id);
    struct shape_query q = {.op = node->op, .params = &node->params};
    struct tensor_desc want[OP_MAX_OUT];

    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0)
            q.in[i] = graph_value_at(g, node->in[i])->desc;
    if (node->out[0] >= 0) {
        q.like = &graph_value_at(g, node->out[0])->desc;
        q.out_dtype = q.like->dtype;
    }
    if (shape_infer(&q, want, err) != 0)
        return err_prefix(err, "node %d (%s)", id, op_info(node->op)->name);
    for (int i = 0; i < node->n_out; i++) {
        const struct tensor_desc *have;

        if (node->out[i] < 0)
            continue;
        have = &graph_value_at(g, node->out[i])->desc;
        if (have->dtype != want[i].dtype || have->layout != want[i].layout ||
            !tensor_same_shape(have, &want[i]))
            return err_set(
                err, ERR_INTERNAL, "node %d (%s) does not make %s as it is", id,
                op_info(node->op)->name, graph_value_at(g, node->out[i])->name);
    }
    return 0;
}

static int
verify_values(const struct graph *g, struct err *err)
{
    for (int i = 0; i < graph_n_values(g); i++) {
        const struct graph_value *v = graph_value_at(g, i);

        if ((v->kind == GRAPH_TEMP || v->kind == GRAPH_GRAD) && v->producer < 0)
            return err_set(err, ERR_INTERNAL, "nobody makes %s", v->name);
    }
    return 0;
}

static int
compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int
verify_names(const struct graph *g, struct err *err)
{
    const int n = graph_n_values(g);
    const char **name = calloc((size_t)n + 1, sizeof(*name));
    int rc = 0;

    if (name == NULL)
        return err_set(err, ERR_NOMEM, "no memory to verify the graph");
    for (int i = 0; i < n; i++)
        name[i] = graph_value_at(g, i)->name;
    qsort(name, (size_t)n, sizeof(*name), compare_names);
    for (int i = 1; i < n && rc == 0; i++)
        if (strcmp(name[i - 1], name[i]) == 0)
            rc =
                err_set(err, ERR_INTERNAL, "two values are called %s", name[i]);
    free(name);
    return rc;
}

static int
verify_role(const struct graph *g, int id, const char *role, bool scalar,
            struct err *err)
{
    const struct graph_value *v;

    if (id < 0)
        return 0;
    v = graph_value_at(g, id);
    if (scalar && (v->desc.rank != 0 || v->desc.dtype != DTYPE_F32))
        return err_set(err, ERR_INTERNAL, "%s cannot be the %s", v->name, role);
    return 0;
}

int
verify_graph(const struct graph *g, struct err *err)
{
    const struct graph_roles *roles = graph_roles(g);
    int rc = 0;

    for (int i = 0; i < graph_n_nodes(g) && rc == 0; i++) {
        rc = verify_inputs(g, i, err);
        if (rc == 0)
            rc = verify_outputs(g, i, err);
        if (rc == 0)
            rc = verify_rule(g, i, err);
    }
    if (rc == 0)
        rc = verify_values(g, err);
    if (rc == 0)
        rc = verify_names(g, err);
    if (rc == 0)
        rc = verify_role(g, roles->output, "output", false, err);
    if (rc == 0)
        rc = verify_role(g, roles->loss, "loss", true, err);
    if (rc == 0)
        rc = verify_role(g, roles->scaled_loss, "scaled loss", true, err);
    if (rc == 0)
        rc = verify_role(g, roles->correct, "count", true, err);
    return rc;
}
