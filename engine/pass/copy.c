/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pass/copy.h"

#include <assert.h>
#include <stdlib.h>

#include "engine/graph/shape.h"

static int
no_memory(struct err *err)
{
    return err_set(err, ERR_NOMEM, "no memory for the graph");
}

static int
copy_outside(struct copy *copy, int id)
{
    const struct graph_value *v = graph_value_at(copy->from, id);

    switch (v->kind) {
    case GRAPH_INPUT:
        return graph_add_input(copy->to, (enum graph_input)v->index, &v->desc,
                               v->name);
    case GRAPH_PARAM:
        return graph_add_param(copy->to, graph_param_at(copy->from, v->index));
    case GRAPH_BUFFER:
        return graph_add_buffer(copy->to,
                                graph_buffer_at(copy->from, v->index));
    case GRAPH_GRAD: return graph_add_grad(copy->to, v->index);
    case GRAPH_TEMP: return -1;
    }
    return -1;
}

int
copy_init(struct copy *copy, const struct graph *from, struct err *err)
{
    const int n = graph_n_values(from);

    *copy = (struct copy){.from = from, .to = graph_create()};
    copy->value = calloc((size_t)n + 1, sizeof(*copy->value));
    if (copy->to == NULL || copy->value == NULL)
        goto fail;
    for (int i = 0; i < n; i++) {
        copy->value[i] = -1;
        if (graph_value_at(from, i)->kind == GRAPH_TEMP)
            continue;
        copy->value[i] = copy_outside(copy, i);
        if (copy->value[i] < 0)
            goto fail;
    }
    return 0;
fail:
    graph_destroy(&copy->to);
    copy_fini(copy);
    return no_memory(err);
}

void
copy_fini(struct copy *copy)
{
    free(copy->value);
    copy->value = NULL;
}

int
copy_add_node(struct copy *copy, int id, const int *in, bool fp32_region,
              const bool *absent, struct err *err)
{
    const struct graph_node *node = graph_node_at(copy->from, id);
    struct graph_out out[OP_MAX_OUT] = {{0, NULL}};
    struct graph_node_args args = {.op = node->op,
                                   .params = &node->params,
                                   .in = in,
                                   .phase = node->phase,
                                   .layer = node->layer,
                                   .fp32_region = fp32_region,
                                   .out = out};
    int made;

    for (int i = 0; i < node->n_out; i++) {
        const int old = node->out[i];

        if (old < 0 || (absent != NULL && absent[i])) {
            out[i].value = GRAPH_ABSENT;
            continue;
        }
        out[i].name = graph_value_at(copy->from, old)->name;
        out[i].value = graph_value_at(copy->from, old)->kind == GRAPH_TEMP
                           ? GRAPH_NEW
                           : copy->value[old];
    }
    if (node->out[0] >= 0)
        args.like = &graph_value_at(copy->from, node->out[0])->desc;
    if (shape_dtype_is_asked(node->op))
        args.out_dtype = args.like->dtype;
    made = graph_add_node(copy->to, &args, err);
    if (made < 0)
        return made;
    for (int i = 0; i < node->n_out; i++)
        if (node->out[i] >= 0)
            copy->value[node->out[i]] = graph_node_at(copy->to, made)->out[i];
    return made;
}

static int
moved(const struct copy *copy, int id)
{
    assert(id < 0 || copy->value[id] >= 0);
    return id < 0 ? -1 : copy->value[id];
}

void
copy_roles(struct copy *copy)
{
    const struct graph_roles *roles = graph_roles(copy->from);

    graph_set_roles(
        copy->to,
        &(struct graph_roles){.output = moved(copy, roles->output),
                              .loss = moved(copy, roles->loss),
                              .scaled_loss = moved(copy, roles->scaled_loss),
                              .correct = moved(copy, roles->correct),
                              .top_k = moved(copy, roles->top_k),
                              .confusion = moved(copy, roles->confusion)});
}
