/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pass/autocast.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/pass/copy.h"

#define N_CASTS 3 /* f32, f16, bf16 */

struct autocast {
    struct copy copy;
    const struct autocast_policy *policy; /* borrowed */
    /* Owned. Copy of new value v in another dtype: cast[v * N_CASTS + i], or
     * -1. Rows are made for old values; casts are never cast again. */
    int *cast;
};

static int
dtype_column(enum dtype dtype)
{
    assert(dtype == DTYPE_F32 || dtype_is_half(dtype));
    return dtype == DTYPE_F32 ? 0 : dtype == DTYPE_F16 ? 1 : 2;
}

/* A region covers the layer of that path and everything inside it. */
static bool
in_region(const struct autocast_policy *policy, const char *layer)
{
    for (int i = 0; i < policy->n_fp32_regions; i++) {
        const char *region = policy->fp32_regions[i];
        const size_t n = strlen(region);

        if (n > 0 && strncmp(layer, region, n) == 0 &&
            (layer[n] == '\0' || layer[n] == '.'))
            return true;
    }
    return false;
}

/* ---- what dtype an input must have --------------------------------------- */

static const struct graph_value *
new_value(const struct autocast *ac, int old)
{
    return graph_value_at(ac->copy.to, ac->copy.value[old]);
}

static enum dtype
widest_input(const struct autocast *ac, const struct graph_node *node)
{
    enum dtype widest = DTYPE_NONE;

    for (int i = 0; i < node->n_in; i++) {
        enum dtype t;

        if (node->in[i] < 0)
            continue;
        t = new_value(ac, node->in[i])->desc.dtype;
        if (dtype_is_float(t))
            widest = widest == DTYPE_NONE ? t : dtype_widest_float(widest, t);
    }
    return widest;
}

/* The dtype for floating inputs of this node; NONE: leave them. */
static enum dtype
wanted_dtype(const struct autocast *ac, const struct graph_node *node,
             bool region)
{
    if (op_info(node->op)->cast == OP_CAST_NONE)
        return DTYPE_NONE;
    if (region)
        return DTYPE_F32;
    switch (op_info(node->op)->cast) {
    case OP_CAST_LOWER: return ac->policy->dtype;
    case OP_CAST_FP32: return DTYPE_F32;
    case OP_CAST_WIDEST: return widest_input(ac, node);
    case OP_CAST_GIVEN:
    case OP_CAST_NONE: return DTYPE_NONE;
    }
    return DTYPE_NONE;
}

/* ---- casts --------------------------------------------------------------- */

/* A cast belongs to the layer it feeds; one that feeds the loss, which is no
 * layer, to the layer whose output it casts. */
static const char *
cast_layer(const struct autocast *ac, const struct graph_value *v,
           const struct graph_node *node)
{
    if (node->layer[0] != '\0' || v->producer < 0)
        return node->layer;
    return graph_node_at(ac->copy.to, v->producer)->layer;
}

/* Old value `id` as `dtype` in the new graph: the value itself, the cast it
 * has, or a new one in front of `node`. */
static int
cast_value(struct autocast *ac, int id, enum dtype dtype,
           const struct graph_node *node, struct err *err)
{
    const struct graph_value *v = new_value(ac, id);
    int *known, made;
    char *name = NULL;

    if (dtype == DTYPE_NONE || !dtype_is_float(v->desc.dtype) ||
        v->desc.dtype == dtype)
        return ac->copy.value[id];
    known = &ac->cast[id * N_CASTS + dtype_column(dtype)];
    if (*known >= 0)
        return *known;
    if (asprintf(&name, "%s.to_%s", v->name, dtype_short_name(dtype)) < 0)
        return err_set(err, ERR_NOMEM, "no memory for the graph");
    made = graph_add_node(
        ac->copy.to,
        &(struct graph_node_args){.op = OP_CAST,
                                  .in = (int[]){ac->copy.value[id]},
                                  .out_dtype = dtype,
                                  .phase = node->phase,
                                  .layer = cast_layer(ac, v, node),
                                  .out_name = name,
                                  .out_value = GRAPH_NEW},
        err);
    free(name);
    if (made < 0)
        return made;
    *known = graph_node_at(ac->copy.to, made)->out[0];
    return *known;
}

static int
visit_node(struct autocast *ac, int id, struct err *err)
{
    const struct graph_node *node = graph_node_at(ac->copy.from, id);
    const bool on = ac->policy->dtype != DTYPE_F32;
    const bool region = on && in_region(ac->policy, node->layer);
    const enum dtype want = on ? wanted_dtype(ac, node, region) : DTYPE_NONE;
    int in[OP_MAX_IN];
    int rc;

    for (int i = 0; i < node->n_in; i++) {
        in[i] = node->in[i];
        if (in[i] < 0)
            continue;
        in[i] = cast_value(ac, node->in[i], want, node, err);
        if (in[i] < 0)
            return in[i];
    }
    rc = copy_add_node(&ac->copy, id, in, region || node->fp32_region, NULL,
                       err);
    return rc < 0 ? rc : 0;
}

int
autocast_apply(const struct graph *in, const struct autocast_policy *policy,
               struct graph **out, struct err *err)
{
    struct autocast ac = {.policy = policy};
    const size_t n = (size_t)graph_n_values(in) * N_CASTS;
    int rc;

    *out = NULL;
    rc = copy_init(&ac.copy, in, err);
    if (rc != 0)
        return rc;
    ac.cast = calloc(n + 1, sizeof(*ac.cast));
    if (ac.cast == NULL) {
        rc = err_set(err, ERR_NOMEM, "no memory for the graph");
        goto out;
    }
    for (size_t i = 0; i < n; i++)
        ac.cast[i] = -1;
    for (int i = 0; i < graph_n_nodes(in) && rc == 0; i++)
        rc = visit_node(&ac, i, err);
    if (rc != 0)
        goto out;
    copy_roles(&ac.copy);
    rc = graph_freeze(ac.copy.to, err);
out:
    if (rc != 0)
        graph_destroy(&ac.copy.to);
    *out = ac.copy.to;
    free(ac.cast);
    copy_fini(&ac.copy);
    return rc;
}

uint64_t
autocast_list_hash(void)
{
    static const char *const class_name[] = {
        [OP_CAST_NONE] = "none",   [OP_CAST_LOWER] = "lower",
        [OP_CAST_FP32] = "fp32",   [OP_CAST_WIDEST] = "widest",
        [OP_CAST_GIVEN] = "given",
    };
    uint64_t hash = 0;

    for (int i = 0; i < OP_COUNT; i++) {
        const struct op_info *info = op_info((enum op)i);
        char line[96];
        int n;

        if (info->cast == OP_CAST_NONE)
            continue;
        n = snprintf(line, sizeof(line), "%s %s\n", info->name,
                     class_name[info->cast]);
        hash = XXH3_64bits_withSeed(line, (size_t)n, hash);
    }
    return hash;
}
