/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/build_private.h"

#include <inttypes.h>

#include "engine/graph/shape.h"
#include "proto/event.h"

static enum op
loss_op(enum spec_loss loss)
{
    switch (loss) {
    case SPEC_LOSS_CROSS_ENTROPY: return OP_CROSS_ENTROPY;
    case SPEC_LOSS_MSE: return OP_MSE;
    case SPEC_LOSS_L1: return OP_L1;
    case SPEC_LOSS_BCE_WITH_LOGITS: return OP_BCE_WITH_LOGITS;
    case SPEC_LOSS_NLL: return OP_NLL;
    case SPEC_LOSS_SMOOTH_L1: return OP_SMOOTH_L1;
    case SPEC_LOSS_HUBER: return OP_HUBER;
    case SPEC_LOSS_KL_DIV: return OP_KL_DIV;
    }
    return OP_COUNT;
}

/* Does it want class ids? */
static bool
is_of_classes(enum spec_loss loss)
{
    return loss == SPEC_LOSS_CROSS_ENTROPY || loss == SPEC_LOSS_NLL;
}

/* Relayouts belong to no layer; the last one's name says where. */
static int
turn(struct build *b, enum tensor_layout layout, struct err *err)
{
    const struct spec_layer *last = &b->spec->model[b->spec->n_model - 1];

    b->at = build_relayout(b, last, b->at, layout, err);
    return b->at < 0 ? b->at : 0;
}

/* ---- targets -------------------------------------------------------------- */

/* The targets of a batch, row-major. */
static struct tensor_desc
target_desc(const struct build *b, enum dtype dtype)
{
    struct tensor_desc t = {.dtype = dtype, .rank = b->data->target_rank + 1};

    t.dim[0] = b->batch_size;
    for (int i = 1; i < t.rank; i++)
        t.dim[i] = b->data->target_dim[i - 1];
    return t;
}

/* Scores of places of a sequence: dim 1 counts classes, as in PyTorch, or the
 * last dim. Where the targets are as long as one of both is, they tell. */
static int
turn_sequence(struct build *b, const struct tensor_desc *target,
              struct err *err)
{
    const struct tensor_desc *pred = &graph_value_at(b->graph, b->at)->desc;
    const bool last = pred->dim[1] == target->dim[1];
    const bool first = pred->dim[2] == target->dim[1];

    if (target->rank != 2 || first == last)
        return 0; /* as what made them takes them */
    return turn(b, last ? TENSOR_ROW : TENSOR_NHWC, err);
}

/* One class id for each row of scores: the last dim of rows and sequences
 * counts classes, dim 1 of images and signals. */
static int
class_target(struct build *b, struct tensor_desc *target, struct err *err)
{
    struct tensor_desc pred = graph_value_at(b->graph, b->at)->desc, rows;
    char have[SHAPE_TEXT_MAX], want[SHAPE_TEXT_MAX], is[SHAPE_TEXT_MAX];

    if (!b->data->target_is_class)
        return err_set(err, ERR_SPEC,
                       "%s: needs one class id a sample, but the targets are "
                       "numbers; use mse, l1 or bce_with_logits",
                       spec_loss_name(b->spec->loss.kind));
    *target = target_desc(b, DTYPE_I32);
    shape_format(&pred, have, sizeof(have));
    if (target->rank == 1 && pred.rank != 2)
        return err_set(err, ERR_SPEC,
                       "%s: needs scores (samples, classes) but the model ends "
                       "in %s%s",
                       spec_loss_name(b->spec->loss.kind), have,
                       pred.rank > 2 ? "; end it with flatten and linear" : "");
    if (pred.rank == 4 && turn(b, TENSOR_NHWC, err) != 0)
        return err->code;
    if (pred.rank == 3 && turn_sequence(b, target, err) != 0)
        return err->code;
    pred = graph_value_at(b->graph, b->at)->desc;
    rows = (struct tensor_desc){.layout = TENSOR_ROW};
    for (int i = 0; i < pred.rank; i++)
        if (i != (pred.layout == TENSOR_NHWC ? 1 : pred.rank - 1))
            rows.dim[rows.rank++] = pred.dim[i];
    if (!tensor_same_shape(&rows, target))
        return err_set(err, ERR_SPEC,
                       "%s: the model ends in %s, which takes class ids %s, "
                       "but the targets are %s",
                       spec_loss_name(b->spec->loss.kind), have,
                       shape_format(&rows, want, sizeof(want)),
                       shape_format(target, is, sizeof(is)));
    return 0;
}

/* Numbers, as many as the prediction has. A single number a sample fits a
 * prediction of one column: the same elements in the same places. */
static int
number_target(struct build *b, struct tensor_desc *target, struct err *err)
{
    struct tensor_desc pred;
    char have[SHAPE_TEXT_MAX], want[SHAPE_TEXT_MAX];

    if (b->data->target_is_class)
        return err_set(err, ERR_SPEC,
                       "%s: needs numbers, but the targets are class ids; "
                       "use cross_entropy",
                       spec_loss_name(b->spec->loss.kind));
    if (turn(b, TENSOR_ROW, err) != 0)
        return err->code;
    pred = graph_value_at(b->graph, b->at)->desc;
    shape_format(&pred, have, sizeof(have));
    *target = target_desc(b, DTYPE_F32);
    if (target->rank == 1 && pred.rank == 2 && pred.dim[1] == 1)
        *target = pred;
    if (!tensor_same_shape(&pred, target))
        return err_set(err, ERR_SPEC,
                       "%s: the model ends in %s but the targets are %s; "
                       "both must have the same shape",
                       spec_loss_name(b->spec->loss.kind), have,
                       shape_format(target, want, sizeof(want)));
    return 0;
}

/* ---- nodes --------------------------------------------------------------- */

/* An input that is one float32. */
static int
add_scalar(struct build *b, enum graph_input which, const char *name,
           struct err *err)
{
    const struct tensor_desc one = tensor_make(DTYPE_F32, 0, NULL);
    const int v = graph_add_input(b->graph, which, &one, name);

    return v < 0 ? build_no_memory(err) : v;
}

/* The spec's, or what a mask over the labels made of them. */
static void
set_ignore_index(const struct build *b, union op_params *params)
{
    const bool by_spec = b->spec->loss.has_ignore_index;

    params->loss.has_ignore_index = by_spec || b->data->has_ignore_index;
    params->loss.ignore_index =
        by_spec ? b->spec->loss.ignore_index : b->data->ignore_index;
}

/* The spec's settings, as far as this op reads them: params of other ops are
 * zero, so that listings say only what counts. */
static union op_params
choose_params(const struct build *b, enum op op, int64_t k)
{
    const struct spec *s = b->spec;
    const struct tensor_desc pred = graph_value_at(b->graph, b->at)->desc;
    union op_params params = {.loss = {.k = k, .factor = 1}};

    if (is_of_classes(s->loss.kind))
        set_ignore_index(b, &params);
    if (op == OP_CROSS_ENTROPY)
        params.loss.label_smoothing = s->loss.label_smoothing;
    if (op == OP_SMOOTH_L1)
        params.loss.beta = s->loss.beta;
    if (op == OP_HUBER)
        params.loss.delta = s->loss.delta;
    if (op != OP_KL_DIV)
        return params;
    params.loss.log_target = s->loss.log_target;
    if (s->loss.reduction == SPEC_REDUCTION_BATCHMEAN)
        params.loss.factor =
            (double)(tensor_n_elems(&pred) / (pred.rank > 0 ? pred.dim[0] : 1));
    return params;
}

/* A node of the loss; its output's value id, or an error. */
static int
add_node(struct build *b, enum op op, int64_t k, enum graph_phase phase,
         const int *in, const char *name, struct err *err)
{
    const union op_params params = choose_params(b, op, k);
    const int id =
        graph_add_node(b->graph,
                       &(struct graph_node_args){.op = op,
                                                 .params = &params,
                                                 .in = in,
                                                 .phase = phase,
                                                 .layer = "",
                                                 .out_name = name,
                                                 .out_value = GRAPH_NEW},
                       err);

    return id < 0 ? id : graph_node_at(b->graph, id)->out[0];
}

/* What evaluation counts of a classifier. */
static int
add_metrics(struct build *b, int target, struct graph_roles *roles,
            struct err *err)
{
    const int64_t k = b->spec->evaluate.top_k;
    const int in[2] = {b->at, target};

    roles->correct =
        add_node(b, OP_CORRECT, 1, GRAPH_METRIC, in, "correct", err);
    if (roles->correct < 0)
        return roles->correct;
    if (b->spec->evaluate.metric[SPEC_METRIC_TOP_K]) {
        roles->top_k =
            add_node(b, OP_CORRECT, k, GRAPH_METRIC, in, "top_k", err);
        if (roles->top_k < 0)
            return roles->top_k;
    }
    if (b->spec->evaluate.metric[SPEC_METRIC_CONFUSION]) {
        roles->confusion =
            add_node(b, OP_CONFUSION, 1, GRAPH_METRIC, in, "confusion", err);
        if (roles->confusion < 0)
            return roles->confusion;
    }
    return 0;
}

/* The loss as training scales it, or what evaluation counts. */
static int
add_rest(struct build *b, int target, struct graph_roles *roles,
         struct err *err)
{
    int scale;

    if (b->mode == BUILD_EVAL)
        return is_of_classes(b->spec->loss.kind)
                   ? add_metrics(b, target, roles, err)
                   : 0;
    scale = add_scalar(b, GRAPH_INPUT_SCALE, "scale", err);
    if (scale < 0)
        return scale;
    roles->scaled_loss =
        add_node(b, OP_SCALE_LOSS, 1, GRAPH_LOSS, (int[]){roles->loss, scale},
                 "scaled_loss", err);
    return roles->scaled_loss < 0 ? roles->scaled_loss : 0;
}

int
build_loss_append(struct build *b, struct err *err)
{
    struct graph_roles roles = {-1, -1, -1, -1, -1, -1};
    struct tensor_desc target;
    int rc, target_id, count_id;

    if (!dtype_is_float(graph_value_at(b->graph, b->at)->desc.dtype))
        return err_set(err, ERR_SPEC, "the model ends in no numbers");
    rc = is_of_classes(b->spec->loss.kind) ? class_target(b, &target, err)
                                           : number_target(b, &target, err);
    if (rc != 0)
        return rc;
    target_id =
        graph_add_input(b->graph, GRAPH_INPUT_TARGET, &target, "target");
    if (target_id < 0)
        return build_no_memory(err);
    count_id = add_scalar(b, GRAPH_INPUT_INV_COUNT, "inv_count", err);
    if (count_id < 0)
        return count_id;
    roles.output = b->at;
    roles.loss = add_node(b, loss_op(b->spec->loss.kind), 1, GRAPH_LOSS,
                          (int[]){b->at, target_id, count_id}, "loss", err);
    if (roles.loss < 0)
        return roles.loss;
    rc = add_rest(b, target_id, &roles, err);
    if (rc == 0)
        graph_set_roles(b->graph, &roles);
    return rc;
}

int
build_loss_check_metrics(const struct build *b, struct err *err)
{
    const struct tensor_desc pred = graph_value_at(b->graph, b->at)->desc;
    const int64_t n = pred.dim[pred.layout == TENSOR_NHWC ? 1 : pred.rank - 1];
    const bool *asked = b->spec->evaluate.metric;
    const int64_t k = b->spec->evaluate.top_k;

    if (asked[SPEC_METRIC_TOP_K] && (k < 1 || k > n))
        return err_set(err, ERR_SPEC,
                       "evaluate.top_k: %" PRId64 " of %" PRId64 " classes", k,
                       n);
    if (asked[SPEC_METRIC_CONFUSION] && n > EVENT_MAX_CLASSES)
        return err_set(err, ERR_SPEC,
                       "evaluate.metrics: confusion: a table of %" PRId64
                       " classes, where %d fit",
                       n, EVENT_MAX_CLASSES);
    return 0;
}
