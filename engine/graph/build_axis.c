/* SPDX-License-Identifier: Apache-2.0 */
/* Builders of layers along one axis, and of sums over several. */
#include "engine/graph/build_private.h"

#include "engine/graph/shape.h"

/* softmax, log_softmax, cumsum, prod. */
int
build_softmax(struct build *b, const struct spec_layer *layer, struct err *err)
{
    static const enum op ops[SPEC_LAYER_COUNT] = {
        [SPEC_LAYER_SOFTMAX] = OP_SOFTMAX,
        [SPEC_LAYER_LOG_SOFTMAX] = OP_LOG_SOFTMAX,
        [SPEC_LAYER_CUMSUM] = OP_CUMSUM,
        [SPEC_LAYER_PROD] = OP_PROD,
    };
    union op_params params = {.axis = {.keepdim = layer->u.axis.keepdim}};

    if (build_resolve_axis(layer, layer->u.axis.dim, build_desc(b, 0).rank,
                           &params.axis.axis, err) != 0)
        return err->code;
    return build_add_unary(b, layer, ops[layer->kind], &params, NULL, err);
}

/* sum, mean, norm, logsumexp. */
int
build_reduce(struct build *b, const struct spec_layer *layer, struct err *err)
{
    static const enum op ops[SPEC_LAYER_COUNT] = {
        [SPEC_LAYER_SUM] = OP_SUM,
        [SPEC_LAYER_MEAN] = OP_MEAN,
        [SPEC_LAYER_NORM] = OP_NORM,
        [SPEC_LAYER_LOGSUMEXP] = OP_LOGSUMEXP,
    };
    const struct tensor_desc x = build_desc(b, 0);
    const int n = layer->u.reduce.n_dim;
    union op_params params = {
        .reduce = {.keepdim = layer->u.reduce.keepdim, .p = layer->u.reduce.p}};
    char text[SHAPE_TEXT_MAX];
    int axis;

    if (x.rank < 2)
        return build_refuse(layer, err, "its input %s has one number a sample",
                            shape_format(&x, text, sizeof(text)));
    for (int i = 1; i < x.rank && n == 0; i++)
        params.reduce.dims |= 1U << i;
    for (int i = 0; i < n; i++) {
        if (build_resolve_axis(layer, layer->u.reduce.dim[i], x.rank, &axis,
                               err) != 0)
            return err->code;
        if (params.reduce.dims >> axis & 1)
            return build_refuse(layer, err, "names axis %d twice", axis);
        params.reduce.dims |= 1U << axis;
    }
    return build_add_unary(b, layer, ops[layer->kind], &params, NULL, err);
}

int
build_cosine(struct build *b, const struct spec_layer *layer, struct err *err)
{
    union op_params params = {.axis = {.eps = layer->u.axis.eps}};
    char one[SHAPE_TEXT_MAX], other[SHAPE_TEXT_MAX];
    struct tensor_desc x, y;
    int id;

    if (build_want_alike(b, layer, 0, err) != 0)
        return err->code;
    x = build_desc(b, 0);
    y = build_desc(b, 1);
    if (!tensor_same_shape(&x, &y))
        return build_refuse(layer, err,
                            "its inputs %s and %s must have one shape",
                            shape_format(&x, one, sizeof(one)),
                            shape_format(&y, other, sizeof(other)));
    if (build_resolve_axis(layer, layer->u.axis.dim, x.rank, &params.axis.axis,
                           err) != 0)
        return err->code;
    id = build_add_node(b, layer,
                        &(struct graph_node_args){.op = OP_COSINE_SIMILARITY,
                                                  .params = &params,
                                                  .in = b->in},
                        err);
    return id < 0 ? id : 0;
}
