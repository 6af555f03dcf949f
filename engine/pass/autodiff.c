/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pass/autodiff.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/graph/shape.h"
#include "engine/pass/autodiff_rules.h"
#include "engine/pass/copy.h"

/* What is known about the gradient of an old value. */
struct sink {
    bool needs;   /* a parameter lies behind it */
    bool weight;  /* nothing but parameters does */
    bool gets;    /* a gradient arrives */
    bool read;    /* some op reads the value itself, forward or backward */
    int root;     /* the value whose gradient this one's is: the weight of a
                     half copy, else itself */
    int expected; /* gradients that will meet here */
    int seen;
    int grad; /* new value: their sum so far */
};

struct autodiff {
    struct copy copy;
    const struct autodiff_options *options; /* borrowed */
    struct sink *sink;                      /* owned, of each old value */
    int *param_grad; /* owned: GRAD value of each parameter */
};

static int
no_memory(struct err *err)
{
    return err_set(err, ERR_NOMEM, "no memory for the graph");
}

static const struct graph_value *
old_value(const struct autodiff *ad, int id)
{
    return graph_value_at(ad->copy.from, id);
}

static bool
is_param(const struct autodiff *ad, int id)
{
    return old_value(ad, id)->kind == GRAPH_PARAM;
}

/* The gradient of a half copy of a weight (or of what moves weights about, as
 * a part of one) goes straight to float32: such a cast needs no gradient of
 * its own. */
static bool
is_weight_copy(const struct autodiff *ad, const struct graph_node *node)
{
    return node->op == OP_CAST && ad->sink[node->in[0]].weight &&
           !ad->options->wgrad_pytorch;
}

/* ---- who needs a gradient, who gets one ---------------------------------- */

/* What a node's output inherits from its inputs. */
static void
mark_output(struct autodiff *ad, const struct graph_node *node)
{
    struct sink *out = &ad->sink[node->out[0]];
    bool needs = false, weight = true;

    assert(node->out[0] >= 0);
    for (int k = 0; k < node->n_in; k++) {
        if (node->in[k] < 0)
            continue;
        ad->sink[node->in[k]].read = true;
        needs = needs || ad->sink[node->in[k]].needs;
        weight = weight && ad->sink[node->in[k]].weight;
    }
    /* Masks have no gradient, whatever they were compared from. */
    if (node->phase == GRAPH_METRIC ||
        !dtype_is_float(old_value(ad, node->out[0])->desc.dtype))
        return;
    out->needs = out->needs || needs;
    out->weight = weight;
    if (is_weight_copy(ad, node))
        out->root = ad->sink[node->in[0]].root;
}

/* Forwards: a value needs a gradient when a parameter lies behind it. */
static int
mark_needs(struct autodiff *ad, struct err *err)
{
    const struct graph *g = ad->copy.from;

    for (int i = 0; i < graph_n_values(g); i++)
        ad->sink[i] = (struct sink){.needs = is_param(ad, i),
                                    .weight = is_param(ad, i),
                                    .root = i,
                                    .grad = -1};
    for (int i = 0; i < graph_n_nodes(g); i++) {
        const struct graph_node *node = graph_node_at(g, i);
        int n;

        mark_output(ad, node);
        autodiff_rules_find(node->op, &n);
        if (n == 0 && ad->sink[node->out[0]].needs)
            return err_set(err, ERR_UNSUPPORTED,
                           "%s (%s): has no gradient, build the graph for "
                           "training",
                           node->layer, op_info(node->op)->name);
    }
    return 0;
}

/* Is output i of this row's op the gradient of something that needs one? */
static bool
is_wanted(const struct autodiff *ad, const struct graph_node *node,
          const struct autodiff_row *row, int i)
{
    const int v = node->in[row->to[i]];

    return v >= 0 && ad->sink[v].needs;
}

static void
mark_row(struct autodiff *ad, const struct graph_node *node,
         const struct autodiff_row *row)
{
    bool any = false;

    for (int i = 0; i < row->n_to; i++) {
        struct sink *to;

        if (!is_wanted(ad, node, row, i))
            continue;
        any = true;
        to = &ad->sink[node->in[row->to[i]]];
        to->gets = true;
        ad->sink[to->root].gets = true;
        ad->sink[to->root].expected++;
    }
    for (int i = 0; i < row->n_reads && any; i++) {
        const struct autodiff_operand *r = &row->reads[i];
        const int v = r->source == AUTODIFF_IN    ? node->in[r->index]
                      : r->source == AUTODIFF_OUT ? node->out[r->index]
                                                  : -1;

        if (v >= 0)
            ad->sink[v].read = true;
    }
}

/* Backwards from the loss: where gradients arrive, how many, and what their
 * computation reads. */
static void
mark_gets(struct autodiff *ad)
{
    const struct graph *g = ad->copy.from;

    ad->sink[graph_roles(g)->scaled_loss].gets = true;
    for (int i = graph_n_nodes(g) - 1; i >= 0; i--) {
        const struct graph_node *node = graph_node_at(g, i);
        int n;
        const struct autodiff_row *row = autodiff_rules_find(node->op, &n);

        if (node->out[0] < 0 || !ad->sink[node->out[0]].gets ||
            is_weight_copy(ad, node))
            continue;
        for (int k = 0; k < n; k++)
            mark_row(ad, node, &row[k]);
    }
}

/* A weight that the loss does not hang on would never be trained. */
static int
check_reached(const struct autodiff *ad, struct err *err)
{
    const struct graph *g = ad->copy.from;

    if (graph_n_params(g) == 0)
        return err_set(
            err, ERR_SPEC,
            "model: it has no weights, so there is nothing to train");
    for (int i = 0; i < graph_n_params(g); i++)
        if (ad->sink[graph_param_value(g, i)].expected == 0)
            return err_set(err, ERR_SPEC,
                           "model: %s: no gradient reaches it: the loss does "
                           "not depend on what its layer makes",
                           graph_param_at(g, i)->name);
    return 0;
}

/* ---- the forward part, without outputs that nobody reads ----------------- */

static int
copy_forward(struct autodiff *ad, struct err *err)
{
    const struct graph *g = ad->copy.from;

    for (int i = 0; i < graph_n_nodes(g); i++) {
        const struct graph_node *node = graph_node_at(g, i);
        bool absent[OP_MAX_OUT] = {false};
        int in[OP_MAX_IN], rc;

        for (int k = 0; k < node->n_in; k++)
            in[k] = node->in[k] < 0 ? -1 : ad->copy.value[node->in[k]];
        for (int k = 1; k < node->n_out; k++)
            absent[k] = node->out[k] >= 0 &&
                        old_value(ad, node->out[k])->kind == GRAPH_TEMP &&
                        !ad->sink[node->out[k]].read;
        rc = copy_add_node(&ad->copy, i, in, node->fp32_region, absent, err);
        if (rc < 0)
            return rc;
    }
    for (int i = 0; i < graph_n_params(g); i++) {
        ad->param_grad[i] = graph_add_grad(ad->copy.to, i);
        if (ad->param_grad[i] < 0)
            return no_memory(err);
    }
    return 0;
}

/* ---- the backward part --------------------------------------------------- */

/* "fc1.out.grad"; ".micro" when it is still to be accumulated; malloc'd. */
static char *name_grad(const struct autodiff *ad, int root, const char *fmt,
                       ...) __attribute__((format(printf, 3, 4)));

static char *
name_grad(const struct autodiff *ad, int root, const char *fmt, ...)
{
    const bool micro = ad->options->accumulate && is_param(ad, root);
    char tail[32], *name = NULL;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(tail, sizeof(tail), fmt, ap);
    va_end(ap);
    if (asprintf(&name, "%s.grad%s%s", old_value(ad, root)->name,
                 micro ? ".micro" : "", tail) < 0)
        return NULL;
    return name;
}

/* Where the gradient that completes this sink is written. */
static int
final_place(const struct autodiff *ad, int root)
{
    if (!is_param(ad, root) || ad->options->accumulate)
        return GRAPH_NEW;
    return ad->param_grad[old_value(ad, root)->index];
}

/* A node of the backward part with the forward node's layer. */
static int
add_backward(struct autodiff *ad, const struct graph_node *node,
             struct graph_node_args args, struct err *err)
{
    args.phase = GRAPH_BACKWARD;
    args.layer = node->layer;
    args.fp32_region = node->fp32_region;
    return graph_add_node(ad->copy.to, &args, err);
}

/* sum = sum + grad, in the dtype that both have. */
static int
join(struct autodiff *ad, const struct graph_node *node, int root, int grad,
     struct err *err)
{
    struct sink *s = &ad->sink[root];
    const bool last = s->seen == s->expected;
    char *name = last ? name_grad(ad, root, "%s", "")
                      : name_grad(ad, root, ".sum%d", s->seen - 1);
    const struct graph_out out = {last ? final_place(ad, root) : GRAPH_NEW,
                                  name};
    int id;

    if (name == NULL)
        return no_memory(err);
    id = add_backward(ad, node,
                      (struct graph_node_args){.op = OP_ADD,
                                               .in = (int[]){s->grad, grad},
                                               .out = &out},
                      err);
    free(name);
    if (id >= 0)
        s->grad = graph_node_at(ad->copy.to, id)->out[0];
    return id < 0 ? id : 0;
}

/* Takes a gradient of `root`; the last of a parameter ends in its GRAD. */
static int
deliver(struct autodiff *ad, const struct graph_node *node, int root, int grad,
        struct err *err)
{
    struct sink *s = &ad->sink[root];
    int rc = 0, sum;

    assert(s->seen < s->expected);
    assert(tensor_same_shape(&graph_value_at(ad->copy.to, grad)->desc,
                             &old_value(ad, root)->desc));
    if (s->seen++ == 0)
        s->grad = grad;
    else
        rc = join(ad, node, root, grad, err);
    if (rc != 0 || s->seen < s->expected || !is_param(ad, root))
        return rc;
    sum = ad->param_grad[old_value(ad, root)->index];
    if (!ad->options->accumulate) {
        assert(s->grad == sum);
        return 0;
    }
    rc = add_backward(ad, node,
                      (struct graph_node_args){.op = OP_GRAD_ACCUMULATE,
                                               .in = (int[]){sum, s->grad},
                                               .out_value = sum},
                      err);
    return rc < 0 ? rc : 0;
}

/* New value of an operand of a gradient op; -1: absent. */
static int
read_operand(const struct autodiff *ad, const struct graph_node *node,
             const struct autodiff_operand *r)
{
    const struct sink *dy;

    switch (r->source) {
    case AUTODIFF_DY:
        dy = &ad->sink[node->out[0]];
        assert(dy->grad >= 0 && dy->seen == dy->expected);
        return dy->grad;
    case AUTODIFF_IN:
        return node->in[r->index] < 0 ? -1 : ad->copy.value[node->in[r->index]];
    case AUTODIFF_OUT:
        assert(node->out[r->index] >= 0);
        return ad->copy.value[node->out[r->index]];
    }
    return -1;
}

/* Outputs of this row before the i-th that go to the same sum, as when q, k
 * and v are one tensor. */
static int
n_before(const struct autodiff *ad, const struct graph_node *node,
         const struct autodiff_row *row, int i, int root)
{
    int n = 0;

    for (int k = 0; k < i; k++)
        if (is_wanted(ad, node, row, k) &&
            ad->sink[node->in[row->to[k]]].root == root)
            n++;
    return n;
}

/* Fills out[i] for what output i of the row becomes; names are malloc'd. */
static int
choose_outputs(const struct autodiff *ad, const struct graph_node *node,
               const struct autodiff_row *row, struct graph_out *out,
               char **name, struct err *err)
{
    for (int i = 0; i < row->n_to; i++) {
        const struct sink *root;
        int r;

        out[i].value = GRAPH_ABSENT;
        if (!is_wanted(ad, node, row, i))
            continue;
        r = ad->sink[node->in[row->to[i]]].root;
        root = &ad->sink[r];
        out[i].value = GRAPH_NEW;
        if (root->expected == 1)
            out[i].value = final_place(ad, r);
        name[i] = root->expected == 1
                      ? name_grad(ad, r, "%s", "")
                      : name_grad(ad, r, ".%d",
                                  root->seen + n_before(ad, node, row, i, r));
        if (name[i] == NULL)
            return no_memory(err);
        out[i].name = name[i];
    }
    return 0;
}

/* The dtype of a gradient op's output 0, where its rule leaves a choice. */
static enum dtype
choose_dtype(const struct autodiff *ad, enum op op, int to)
{
    return shape_dtype_is_asked(op)
               ? old_value(ad, ad->sink[to].root)->desc.dtype
               : DTYPE_NONE;
}

/* The forward op's parameters, as the gradient op of this row takes them. */
static union op_params
choose_params(const struct autodiff *ad, const struct graph_node *node,
              const struct autodiff_row *row)
{
    union op_params params = node->params;
    const int axis = params.axis.axis, to = row->to[0];

    if (row->how == AUTODIFF_NTH)
        params.axis.start = to;
    if (row->how != AUTODIFF_PART)
        return params;
    params.axis.start = 0;
    for (int i = 0; i < to; i++)
        params.axis.start += old_value(ad, node->in[i])->desc.dim[axis];
    params.axis.length = old_value(ad, node->in[to])->desc.dim[axis];
    return params;
}

/* Is operand 0 of this row already the gradient? A parameter's is written to
 * its own place, by an op. */
static bool
is_elided(const struct autodiff *ad, const struct autodiff_row *row, int to,
          int dy)
{
    const struct tensor_desc *have, *want = &old_value(ad, to)->desc;

    if (row->op == OP_COUNT)
        return true;
    if (row->how != AUTODIFF_ELIDE || is_param(ad, ad->sink[to].root))
        return false;
    have = &graph_value_at(ad->copy.to, dy)->desc;
    return tensor_same_shape(have, want) && have->layout == want->layout;
}

/* Hands on what the outputs of the new node are the gradients of. */
static int
deliver_outputs(struct autodiff *ad, const struct graph_node *node,
                const struct autodiff_row *row, int id, struct err *err)
{
    int made[OP_MAX_OUT], rc = 0;

    for (int i = 0; i < row->n_to; i++)
        made[i] = graph_node_at(ad->copy.to, id)->out[i];
    for (int i = 0; i < row->n_to && rc == 0; i++)
        if (made[i] >= 0)
            rc = deliver(ad, node, ad->sink[node->in[row->to[i]]].root, made[i],
                         err);
    return rc;
}

static int
emit_row(struct autodiff *ad, const struct graph_node *node,
         const struct autodiff_row *row, struct err *err)
{
    const int first = node->in[row->to[0]];
    const union op_params params = choose_params(ad, node, row);
    struct graph_out out[OP_MAX_OUT] = {{GRAPH_ABSENT, NULL}};
    char *name[OP_MAX_OUT] = {NULL};
    struct graph_node_args args = {
        .op = row->op, .params = &params, .out = out};
    int in[OP_MAX_IN], rc;

    for (int i = 0; i < row->n_reads; i++)
        in[i] = read_operand(ad, node, &row->reads[i]);
    if (is_elided(ad, row, first, in[0]))
        return deliver(ad, node, ad->sink[first].root, in[0], err);
    args.in = in;
    if (first >= 0) {
        args.like = &old_value(ad, first)->desc;
        args.out_dtype = choose_dtype(ad, row->op, first);
    }
    rc = choose_outputs(ad, node, row, out, name, err);
    if (rc == 0)
        rc = add_backward(ad, node, args, err);
    for (int i = 0; i < OP_MAX_OUT; i++)
        free(name[i]);
    return rc < 0 ? rc : deliver_outputs(ad, node, row, rc, err);
}

static bool
is_row_wanted(const struct autodiff *ad, const struct graph_node *node,
              const struct autodiff_row *row)
{
    for (int i = 0; i < row->n_to; i++)
        if (is_wanted(ad, node, row, i))
            return true;
    return false;
}

static int
append_backward(struct autodiff *ad, struct err *err)
{
    const struct graph *g = ad->copy.from;

    for (int i = graph_n_nodes(g) - 1; i >= 0; i--) {
        const struct graph_node *node = graph_node_at(g, i);
        int n, rc;
        const struct autodiff_row *row = autodiff_rules_find(node->op, &n);

        if (node->out[0] < 0 || !ad->sink[node->out[0]].gets ||
            is_weight_copy(ad, node))
            continue;
        for (int k = 0; k < n; k++) {
            if (!is_row_wanted(ad, node, &row[k]))
                continue;
            rc = emit_row(ad, node, &row[k], err);
            if (rc != 0)
                return rc;
        }
    }
    return 0;
}

int
autodiff_apply(const struct graph *in, const struct autodiff_options *options,
               struct graph **out, struct err *err)
{
    struct autodiff ad = {.options = options};
    int rc;

    *out = NULL;
    assert(graph_roles(in)->scaled_loss >= 0);
    rc = copy_init(&ad.copy, in, err);
    if (rc != 0)
        return rc;
    ad.sink = calloc((size_t)graph_n_values(in) + 1, sizeof(*ad.sink));
    ad.param_grad =
        calloc((size_t)graph_n_params(in) + 1, sizeof(*ad.param_grad));
    if (ad.sink == NULL || ad.param_grad == NULL) {
        rc = no_memory(err);
        goto out;
    }
    rc = mark_needs(&ad, err);
    if (rc != 0)
        goto out;
    mark_gets(&ad);
    rc = check_reached(&ad, err);
    if (rc == 0)
        rc = copy_forward(&ad, err);
    if (rc == 0)
        rc = append_backward(&ad, err);
    if (rc != 0)
        goto out;
    copy_roles(&ad.copy);
    rc = graph_freeze(ad.copy.to, err);
out:
    if (rc != 0)
        graph_destroy(&ad.copy.to);
    *out = ad.copy.to;
    free(ad.sink);
    free(ad.param_grad);
    copy_fini(&ad.copy);
    return rc;
}
