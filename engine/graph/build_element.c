/* SPDX-License-Identifier: Apache-2.0 */
/* Builders of functions of each element, of one input or of several. */
#include "engine/graph/build_private.h"

#include <inttypes.h>
#include <math.h>

#include "engine/graph/shape.h"

int
build_function(struct build *b, const struct spec_layer *layer, struct err *err)
{
    static const enum op ops[SPEC_LAYER_COUNT] = {
        [SPEC_LAYER_RELU] = OP_RELU,   [SPEC_LAYER_GELU] = OP_GELU,
        [SPEC_LAYER_TANH] = OP_TANH,   [SPEC_LAYER_SIGMOID] = OP_SIGMOID,
        [SPEC_LAYER_SILU] = OP_SILU,   [SPEC_LAYER_SOFTPLUS] = OP_SOFTPLUS,
        [SPEC_LAYER_EXP] = OP_EXP,     [SPEC_LAYER_LOG] = OP_LOG,
        [SPEC_LAYER_POW] = OP_POW,     [SPEC_LAYER_RECIPROCAL] = OP_RECIPROCAL,
        [SPEC_LAYER_RSQRT] = OP_RSQRT,
    };
    union op_params params = {.gelu = {false}};

    if (layer->kind == SPEC_LAYER_GELU)
        params.gelu.tanh = layer->u.gelu.approximate == SPEC_GELU_TANH;
    if (layer->kind == SPEC_LAYER_POW)
        params.pow.exponent = layer->u.pow.exponent;
    if (layer->kind == SPEC_LAYER_SOFTPLUS) {
        params.softplus.beta = layer->u.softplus.beta;
        params.softplus.threshold = layer->u.softplus.threshold;
    }
    return build_add_unary(b, layer, ops[layer->kind], &params, NULL, err);
}

/* Channels are dim 1, as in PyTorch; they must lie last. */
int
build_prelu(struct build *b, const struct spec_layer *layer, struct err *err)
{
    const int64_t n = layer->u.prelu.num_parameters;
    const struct tensor_desc x = build_desc(b, 0);
    const struct build_param args = {.what = "weight",
                                     .desc = tensor_make(DTYPE_F32, 1, &n),
                                     .init = GRAPH_INIT_CONSTANT,
                                     .bound = layer->u.prelu.init,
                                     .autocast = true};
    char text[SHAPE_TEXT_MAX];
    int in[2], id = 0;

    if (n != 1 && (x.rank < 2 || x.rank > 4 || x.dim[1] != n))
        return build_refuse(layer, err,
                            "num_parameters %" PRId64 " is neither 1 nor the "
                            "channels of its input %s",
                            n, shape_format(&x, text, sizeof(text)));
    if (n != 1 && x.rank == 3)
        id = build_want_signal(b, layer, 0, err);
    else if (n != 1 && x.rank == 4)
        id = build_want_image(b, layer, 0, err);
    if (id != 0)
        return id;
    in[0] = b->in[0];
    in[1] = build_add_param(b, layer, &args, err);
    if (in[1] < 0)
        return in[1];
    id = build_add_node(
        b, layer, &(struct graph_node_args){.op = OP_PRELU, .in = in}, err);
    return id < 0 ? id : 0;
}

/* Every dropout has its own random numbers, also when others are taken out. */
int
build_dropout(struct build *b, const struct spec_layer *layer, struct err *err)
{
    const union op_params params = {
        .dropout = {.p = layer->u.dropout.p, .stream = b->n_dropout++}};

    if (b->mode == BUILD_EVAL || layer->u.dropout.p == 0) {
        b->at = b->in[0];
        return 0;
    }
    return build_add_unary(b, layer, OP_DROPOUT, &params, NULL, err);
}

/* ---- two inputs, or one and a number -------------------------------------- */

/* A node of the inputs in order; -1 where there is none. */
static int
add_inputs(struct build *b, const struct spec_layer *layer, enum op op,
           const union op_params *params, struct err *err)
{
    int in[SPEC_MAX_INPUTS], id;

    for (int i = 0; i < SPEC_MAX_INPUTS; i++)
        in[i] = i < b->n_in ? b->in[i] : -1;
    id = build_add_node(
        b, layer,
        &(struct graph_node_args){.op = op, .params = params, .in = in}, err);
    return id < 0 ? id : 0;
}

int
build_binary(struct build *b, const struct spec_layer *layer, struct err *err)
{
    static const enum op ops[SPEC_LAYER_COUNT] = {
        [SPEC_LAYER_ADD] = OP_ADD,
        [SPEC_LAYER_SUB] = OP_SUB,
        [SPEC_LAYER_MUL] = OP_MUL,
        [SPEC_LAYER_DIV] = OP_DIV,
    };
    const union op_params params = {.binary = {.value = layer->u.binary.value}};

    if (build_want_alike(b, layer, 0, err) != 0)
        return err->code;
    return add_inputs(b, layer, ops[layer->kind], &params, err);
}

int
build_compare(struct build *b, const struct spec_layer *layer, struct err *err)
{
    static const enum op_compare how[SPEC_LAYER_COUNT] = {
        [SPEC_LAYER_EQ] = OP_COMPARE_EQ, [SPEC_LAYER_NE] = OP_COMPARE_NE,
        [SPEC_LAYER_LT] = OP_COMPARE_LT, [SPEC_LAYER_LE] = OP_COMPARE_LE,
        [SPEC_LAYER_GT] = OP_COMPARE_GT, [SPEC_LAYER_GE] = OP_COMPARE_GE,
    };
    const double value = layer->u.binary.value;
    const union op_params params = {
        .compare = {.how = how[layer->kind], .value = value}};
    bool ids = false;

    for (int i = 0; i < b->n_in; i++)
        ids = ids || build_desc(b, i).dtype == DTYPE_I32;
    if (ids && b->n_in > 1)
        return build_refuse(layer, err,
                            "compares token ids with a value alone");
    if (ids && (value != floor(value) || fabs(value) > INT32_MAX))
        return build_refuse(layer, err,
                            "compares token ids with %g, which is none", value);
    if (build_want_alike(b, layer, 0, err) != 0)
        return err->code;
    return add_inputs(b, layer, OP_COMPARE, &params, err);
}

/* mask, a, b; or mask, a and a value. */
int
build_where(struct build *b, const struct spec_layer *layer, struct err *err)
{
    const union op_params params = {.binary = {.value = layer->u.where.value}};

    if (build_want_alike(b, layer, 0, err) != 0)
        return err->code;
    return add_inputs(b, layer, OP_WHERE, &params, err);
}
