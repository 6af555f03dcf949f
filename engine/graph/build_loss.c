/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/build_private.h"

#include "engine/graph/shape.h"

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

/* One class id a sample against rows of scores. */
static int
class_target(const struct build *b, const struct tensor_desc *pred,
             struct tensor_desc *target, struct err *err)
{
    char text[SHAPE_TEXT_MAX];

    if (!b->data->target_is_class)
        return err_set(err, ERR_SPEC,
                       "cross_entropy: needs one class id a sample, but the "
                       "targets are numbers; use mse, l1 or bce_with_logits");
    shape_format(pred, text, sizeof(text));
    if (pred->rank > 2)
        return err_set(err, ERR_SPEC,
                       "cross_entropy: needs scores (samples, classes) but "
                       "the model ends in %s; end it with flatten and linear",
                       text);
    if (pred->rank < 2)
        return err_set(err, ERR_SPEC,
                       "cross_entropy: needs scores (samples, classes) but "
                       "the model ends in %s",
                       text);
    *target = tensor_make(DTYPE_I32, 1, &b->batch_size);
    return 0;
}

/* Numbers, as many as the prediction has. A single number a sample fits a
 * prediction of one column: the same elements in the same places. */
static int
number_target(const struct build *b, const struct tensor_desc *pred,
              struct tensor_desc *target, struct err *err)
{
    const char *name = spec_loss_name(b->spec->loss.kind);
    char have[SHAPE_TEXT_MAX], want[SHAPE_TEXT_MAX];

    if (b->data->target_is_class)
        return err_set(err, ERR_SPEC,
                       "%s: needs numbers, but the targets are class ids; "
                       "use cross_entropy",
                       name);
    shape_format(pred, have, sizeof(have));
    if (pred->layout == TENSOR_NHWC)
        return err_set(err, ERR_SPEC,
                       "%s: the model ends in images %s; put a \"flatten\" "
                       "layer at its end",
                       name, have);
    *target = (struct tensor_desc){.dtype = DTYPE_F32,
                                   .rank = b->data->target_rank + 1};
    target->dim[0] = b->batch_size;
    for (int i = 1; i < target->rank; i++)
        target->dim[i] = b->data->target_dim[i - 1];
    if (target->rank == 1 && pred->rank == 2 && pred->dim[1] == 1)
        *target = *pred;
    if (!tensor_same_shape(pred, target))
        return err_set(err, ERR_SPEC,
                       "%s: the model ends in %s but the targets are %s; "
                       "both must have the same shape",
                       name, have, shape_format(target, want, sizeof(want)));
    return 0;
}

/* An input that is one float32. */
static int
add_scalar(struct build *b, enum graph_input which, const char *name,
           struct err *err)
{
    const struct tensor_desc one = tensor_make(DTYPE_F32, 0, NULL);
    const int v = graph_add_input(b->graph, which, &one, name);

    return v < 0 ? err_set(err, ERR_NOMEM, "no memory for the graph") : v;
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

/* A node of the loss; its output's value id, or an error. */
static int
add_node(struct build *b, enum op op, enum graph_phase phase, const int *in,
         const char *name, struct err *err)
{
    union op_params params = {.loss = {0}};
    struct graph_node_args args = {.op = op,
                                   .params = &params,
                                   .in = in,
                                   .phase = phase,
                                   .layer = "",
                                   .out_name = name,
                                   .out_value = GRAPH_NEW};
    int id;

    if (op == OP_CROSS_ENTROPY || op == OP_CORRECT) {
        params.loss.label_smoothing =
            op == OP_CORRECT ? 0 : b->spec->loss.label_smoothing;
        set_ignore_index(b, &params);
    }
    id = graph_add_node(b->graph, &args, err);
    return id < 0 ? id : graph_node_at(b->graph, id)->out[0];
}

int
build_loss_append(struct build *b, struct err *err)
{
    const struct tensor_desc pred = graph_value_at(b->graph, b->at)->desc;
    const bool classes = b->spec->loss.kind == SPEC_LOSS_CROSS_ENTROPY;
    struct graph_roles roles = {b->at, -1, -1, -1, -1, -1};
    struct tensor_desc target;
    int rc, target_id, count_id, scale_id;

    rc = classes ? class_target(b, &pred, &target, err)
                 : number_target(b, &pred, &target, err);
    if (rc != 0)
        return rc;
    target_id =
        graph_add_input(b->graph, GRAPH_INPUT_TARGET, &target, "target");
    if (target_id < 0)
        return err_set(err, ERR_NOMEM, "no memory for the graph");
    count_id = add_scalar(b, GRAPH_INPUT_INV_COUNT, "inv_count", err);
    if (count_id < 0)
        return count_id;
    roles.loss = add_node(b, loss_op(b->spec->loss.kind), GRAPH_LOSS,
                          (int[]){b->at, target_id, count_id}, "loss", err);
    if (roles.loss < 0)
        return roles.loss;
    if (b->mode == BUILD_TRAIN) {
        scale_id = add_scalar(b, GRAPH_INPUT_SCALE, "scale", err);
        if (scale_id < 0)
            return scale_id;
        roles.scaled_loss =
            add_node(b, OP_SCALE_LOSS, GRAPH_LOSS,
                     (int[]){roles.loss, scale_id}, "scaled_loss", err);
        if (roles.scaled_loss < 0)
            return roles.scaled_loss;
    } else if (classes) {
        roles.correct = add_node(b, OP_CORRECT, GRAPH_METRIC,
                                 (int[]){b->at, target_id}, "correct", err);
        if (roles.correct < 0)
            return roles.correct;
    }
    graph_set_roles(b->graph, &roles);
    return 0;
}
