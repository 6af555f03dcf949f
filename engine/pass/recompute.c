/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pass/recompute.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/graph/shape.h"
#include "engine/pass/copy.h"

#define NO_BLOCK (-1)

struct recompute {
    struct copy copy;
    const struct recompute_options *options; /* borrowed */
    int *block;  /* owned, of each old node: the block to run it again for */
    bool *inner; /* owned, of each old value: not kept */
    int *again;  /* owned, of each old value: what it became anew, or -1 */
};

static int
no_memory(struct err *err)
{
    return err_set(err, ERR_NOMEM, "no memory for the graph");
}

/* ---- what is not kept ----------------------------------------------------- */

/* The block that a layer lies in. */
static int
find_block(const struct recompute_options *o, const char *layer)
{
    for (int i = 0; i < o->n_blocks; i++) {
        const size_t n = strlen(o->block[i]);

        if (strncmp(layer, o->block[i], n) == 0 &&
            (layer[n] == '\0' || layer[n] == '.'))
            return i;
    }
    return NO_BLOCK;
}

/* Does the node read anything but weights, and copies and parts of them? Those
 * are made once an update, not in every step. */
static bool
is_of_step(const struct graph *g, const struct graph_node *node,
           const bool *weight)
{
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0 &&
            graph_value_at(g, node->in[i])->kind != GRAPH_PARAM &&
            !weight[node->in[i]])
            return true;
    return false;
}

/* Nodes of blocks that make temporaries alone. */
static int
mark_blocks(struct recompute *r, struct err *err)
{
    const struct graph *g = r->copy.from;
    bool *weight = calloc((size_t)graph_n_values(g) + 1, sizeof(*weight));

    if (weight == NULL)
        return no_memory(err);
    for (int i = 0; i < graph_n_nodes(g); i++) {
        const struct graph_node *node = graph_node_at(g, i);
        const bool step = is_of_step(g, node, weight);
        bool temps = true;

        for (int k = 0; k < node->n_out; k++) {
            if (node->out[k] < 0)
                continue;
            weight[node->out[k]] = !step;
            temps =
                temps && graph_value_at(g, node->out[k])->kind == GRAPH_TEMP;
        }
        r->block[i] = step && temps && node->phase == GRAPH_FORWARD
                          ? find_block(r->options, node->layer)
                          : NO_BLOCK;
    }
    free(weight);
    return 0;
}

/* A node whose values are read outside of its block, or by the loop, keeps
 * them all. */
static void
keep_node(struct recompute *r, int value)
{
    const int node =
        value < 0 ? -1 : graph_value_at(r->copy.from, value)->producer;

    if (node >= 0)
        r->block[node] = NO_BLOCK;
}

static void
mark_inner(struct recompute *r)
{
    const struct graph *g = r->copy.from;
    const struct graph_roles *roles = graph_roles(g);

    keep_node(r, roles->output);
    keep_node(r, roles->loss);
    keep_node(r, roles->scaled_loss);
    for (int i = 0; i < graph_n_nodes(g); i++) {
        const struct graph_node *node = graph_node_at(g, i);
        const int here = find_block(r->options, node->layer);

        if (node->phase == GRAPH_BACKWARD)
            continue;
        for (int k = 0; k < node->n_in; k++) {
            const int v = node->in[k];
            const int made = v < 0 ? -1 : graph_value_at(g, v)->producer;

            if (made >= 0 &&
                (node->phase != GRAPH_FORWARD || r->block[made] != here))
                keep_node(r, v);
        }
    }
    for (int i = 0; i < graph_n_nodes(g); i++) {
        const struct graph_node *node = graph_node_at(g, i);

        for (int k = 0; k < node->n_out; k++)
            if (node->out[k] >= 0)
                r->inner[node->out[k]] = r->block[i] != NO_BLOCK;
    }
}

/* ---- the new graph -------------------------------------------------------- */

/* The new value of an old one, for a node of the backward phase: what was kept,
 * or what has been made again. */
static int
backward_value(const struct recompute *r, int value)
{
    return value < 0         ? -1
           : r->inner[value] ? r->again[value]
                             : r->copy.value[value];
}

/* Old node `id` once more. Its inputs stand already. */
static int
run_again(struct recompute *r, int id, struct err *err)
{
    const struct graph_node *node = graph_node_at(r->copy.from, id);
    struct graph_out out[OP_MAX_OUT] = {{0, NULL}};
    char *name[OP_MAX_OUT] = {NULL};
    int in[OP_MAX_IN], made = 0;
    struct graph_node_args args = {.op = node->op,
                                   .params = &node->params,
                                   .in = in,
                                   .phase = GRAPH_BACKWARD,
                                   .layer = node->layer,
                                   .fp32_region = node->fp32_region,
                                   .out = out};

    for (int k = 0; k < node->n_in; k++)
        in[k] = backward_value(r, node->in[k]);
    for (int k = 0; k < node->n_out; k++) {
        out[k].value = node->out[k] < 0 ? GRAPH_ABSENT : GRAPH_NEW;
        if (node->out[k] < 0)
            continue;
        if (asprintf(&name[k], "%s.again",
                     graph_value_at(r->copy.from, node->out[k])->name) < 0) {
            name[k] = NULL;
            made = no_memory(err);
        }
        out[k].name = name[k];
    }
    if (node->out[0] >= 0)
        args.like = &graph_value_at(r->copy.from, node->out[0])->desc;
    if (shape_dtype_is_asked(node->op))
        args.out_dtype = args.like->dtype;
    if (made == 0)
        made = graph_add_node(r->copy.to, &args, err);
    for (int k = 0; k < node->n_out; k++) {
        free(name[k]);
        if (made >= 0 && node->out[k] >= 0)
            r->again[node->out[k]] = graph_node_at(r->copy.to, made)->out[k];
    }
    return made < 0 ? made : 0;
}

/* Marks the producers of `value`, as far as they are not kept, in `need`. */
static void
mark_needed(const struct recompute *r, int value, bool *need)
{
    const struct graph_node *node;
    int id;

    if (value < 0 || !r->inner[value] || r->again[value] >= 0)
        return;
    id = graph_value_at(r->copy.from, value)->producer;
    if (need[id])
        return;
    need[id] = true;
    node = graph_node_at(r->copy.from, id);
    for (int k = 0; k < node->n_in; k++)
        mark_needed(r, node->in[k], need);
}

/* Makes again what node `id` reads and was not kept. */
static int
restore_inputs(struct recompute *r, int id, bool *need, struct err *err)
{
    const struct graph_node *node = graph_node_at(r->copy.from, id);
    int rc = 0;

    memset(need, 0, sizeof(*need) * (size_t)id);
    for (int k = 0; k < node->n_in; k++)
        mark_needed(r, node->in[k], need);
    for (int i = 0; i < id && rc == 0; i++)
        if (need[i])
            rc = run_again(r, i, err);
    return rc;
}

static int
copy_nodes(struct recompute *r, struct err *err)
{
    const struct graph *g = r->copy.from;
    bool *need = calloc((size_t)graph_n_nodes(g) + 1, sizeof(*need));
    int rc = need == NULL ? no_memory(err) : 0;

    for (int i = 0; i < graph_n_nodes(g) && rc >= 0; i++) {
        const struct graph_node *node = graph_node_at(g, i);
        const bool back = node->phase == GRAPH_BACKWARD;
        int in[OP_MAX_IN];

        if (back)
            rc = restore_inputs(r, i, need, err);
        for (int k = 0; k < node->n_in; k++)
            in[k] = back              ? backward_value(r, node->in[k])
                    : node->in[k] < 0 ? -1
                                      : r->copy.value[node->in[k]];
        if (rc >= 0)
            rc = copy_add_node(&r->copy, i, in, node->fp32_region, NULL, err);
    }
    free(need);
    return rc < 0 ? rc : 0;
}

int
recompute_apply(const struct graph *in, const struct recompute_options *options,
                struct graph **out, struct err *err)
{
    struct recompute r = {.options = options};
    const size_t n_values = (size_t)graph_n_values(in) + 1;
    int rc;

    *out = NULL;
    rc = copy_init(&r.copy, in, err);
    if (rc != 0)
        return rc;
    r.block = calloc((size_t)graph_n_nodes(in) + 1, sizeof(*r.block));
    r.inner = calloc(n_values, sizeof(*r.inner));
    r.again = calloc(n_values, sizeof(*r.again));
    rc = r.block == NULL || r.inner == NULL || r.again == NULL
             ? no_memory(err)
             : mark_blocks(&r, err);
    if (rc != 0)
        goto out;
    for (size_t i = 0; i < n_values; i++)
        r.again[i] = -1;
    mark_inner(&r);
    rc = copy_nodes(&r, err);
    if (rc != 0)
        goto out;
    copy_roles(&r.copy);
    rc = graph_freeze(r.copy.to, err);
out:
    if (rc != 0)
        graph_destroy(&r.copy.to);
    *out = r.copy.to;
    free(r.block);
    free(r.inner);
    free(r.again);
    copy_fini(&r.copy);
    return rc;
}
