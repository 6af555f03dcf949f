/* SPDX-License-Identifier: Apache-2.0 */
/* Builders of linear layers, matrix products and embeddings. */
#include "engine/graph/build_private.h"

#include <inttypes.h>
#include <string.h>

#include "engine/graph/shape.h"

int
build_linear(struct build *b, const struct spec_layer *layer, struct err *err)
{
    const struct tensor_desc x = build_desc(b, 0);
    const int64_t k = x.rank > 0 ? x.dim[x.rank - 1] : 0;
    const int64_t o = layer->u.linear.out_features;
    struct build_param args = {.what = "weight",
                               .desc =
                                   tensor_make(DTYPE_F32, 2, (int64_t[]){o, k}),
                               .init = GRAPH_INIT_UNIFORM,
                               .fan_in = k,
                               .autocast = true};
    char text[SHAPE_TEXT_MAX];
    int in[3] = {-1, -1, -1}, id;

    shape_format(&x, text, sizeof(text));
    if (x.rank == 4 && x.layout == TENSOR_NHWC)
        return build_refuse(layer, err,
                            "needs rows of features but gets images %s; put a "
                            "\"flatten\" layer before it",
                            text);
    if (x.rank < 2)
        return build_refuse(layer, err,
                            "needs rows of features (samples, features) but "
                            "gets %s",
                            text);
    if (build_want_row(b, layer, 0, err) != 0)
        return err->code;
    in[0] = b->in[0];
    in[1] = layer->weight_from != NULL
                ? build_find_weight(b, layer, &args.desc, err)
                : build_add_param(b, layer, &args, err);
    if (in[1] < 0)
        return in[1];
    if (layer->u.linear.bias) {
        args.what = "bias";
        args.is_bias = true;
        args.desc = tensor_make(DTYPE_F32, 1, &o);
        in[2] = build_add_param(b, layer, &args, err);
        if (in[2] < 0)
            return in[2];
    }
    id = build_add_node(
        b, layer, &(struct graph_node_args){.op = OP_LINEAR, .in = in}, err);
    return id < 0 ? id : 0;
}

int
build_matmul(struct build *b, const struct spec_layer *layer, struct err *err)
{
    const bool bmm = layer->kind == SPEC_LAYER_BMM;
    const union op_params params = {
        .matmul = {.a_transposed = !bmm && layer->u.matmul.transpose_a,
                   .b_transposed = !bmm && layer->u.matmul.transpose_b}};
    char one[SHAPE_TEXT_MAX], other[SHAPE_TEXT_MAX];
    struct tensor_desc x, y;
    int id;

    for (int i = 0; i < 2; i++)
        if (build_want_row(b, layer, i, err) != 0)
            return err->code;
    x = build_desc(b, 0);
    y = build_desc(b, 1);
    if (x.rank < 3 || x.rank != y.rank || (bmm && x.rank != 3))
        return build_refuse(layer, err,
                            "needs two inputs of %s axes, the samples first, "
                            "but gets %s and %s",
                            bmm ? "three" : "three or more, equally many",
                            shape_format(&x, one, sizeof(one)),
                            shape_format(&y, other, sizeof(other)));
    id = build_add_node(b, layer,
                        &(struct graph_node_args){
                            .op = OP_MATMUL, .params = &params, .in = b->in},
                        err);
    return id < 0 ? id : 0;
}

/* ---- embeddings ---------------------------------------------------------- */

/* Does a linear layer share the weight of the layer at `path`? */
static bool
is_multiplied(const struct spec_layer *list, int n, const char *path)
{
    for (int i = 0; i < n; i++)
        if ((list[i].kind == SPEC_LAYER_LINEAR && list[i].weight_from != NULL &&
             strcmp(list[i].weight_from, path) == 0) ||
            is_multiplied(list[i].body, list[i].n_body, path) ||
            is_multiplied(list[i].shortcut, list[i].n_shortcut, path))
            return true;
    return false;
}

int
build_embedding(struct build *b, const struct spec_layer *layer,
                struct err *err)
{
    const int64_t rows = layer->u.embedding.num_embeddings;
    const int64_t c = layer->u.embedding.embedding_dim;
    const bool padded = layer->u.embedding.has_padding;
    const int64_t padding = layer->u.embedding.padding_idx;
    const union op_params params = {
        .embedding = {.has_padding = padded, .padding_index = padding}};
    const struct build_param args = {
        .what = "weight",
        .desc = tensor_make(DTYPE_F32, 2, (int64_t[]){rows, c}),
        .init = GRAPH_INIT_NORMAL,
        .bound = 1,
        .autocast =
            is_multiplied(b->spec->model, b->spec->n_model, layer->path),
        .has_zero_row = padded,
        .zero_row = padding};
    const struct tensor_desc x = build_desc(b, 0);
    char text[SHAPE_TEXT_MAX];
    int in[2] = {b->in[0], -1}, id;

    if (x.dtype != DTYPE_I32)
        return build_refuse(layer, err,
                            "needs token ids but gets numbers %s; its data are "
                            "of format tokens or text",
                            shape_format(&x, text, sizeof(text)));
    in[1] = layer->weight_from != NULL
                ? build_find_weight(b, layer, &args.desc, err)
                : build_add_param(b, layer, &args, err);
    if (in[1] < 0)
        return in[1];
    id = build_add_node(b, layer,
                        &(struct graph_node_args){
                            .op = OP_EMBEDDING, .params = &params, .in = in},
                        err);
    return id < 0 ? id : 0;
}

/* x[B,T,C] plus the first T rows of its weight[P,C]. */
int
build_positional(struct build *b, const struct spec_layer *layer,
                 struct err *err)
{
    const int64_t rows = layer->u.embedding.num_embeddings;
    const struct tensor_desc x = build_desc(b, 0);
    struct build_param args = {
        .what = "weight", .init = GRAPH_INIT_NORMAL, .bound = 1};
    union op_params params = {.axis = {.axis = 0}};
    char text[SHAPE_TEXT_MAX];
    int in[2], id;

    shape_format(&x, text, sizeof(text));
    if (x.rank != 3)
        return build_refuse(layer, err,
                            "needs sequences (samples, length, features) but "
                            "gets %s",
                            text);
    if (x.dim[1] > rows)
        return build_refuse(layer, err,
                            "has %" PRId64
                            " positions but its input %s is %" PRId64
                            " long; raise num_embeddings",
                            rows, text, x.dim[1]);
    if (build_want_row(b, layer, 0, err) != 0)
        return err->code;
    args.desc = tensor_make(DTYPE_F32, 2, (int64_t[]){rows, x.dim[2]});
    in[0] = b->in[0];
    in[1] = build_add_param(b, layer, &args, err);
    if (in[1] < 0)
        return in[1];
    if (x.dim[1] < rows) {
        params.axis.length = x.dim[1];
        id = build_add_node(b, layer,
                            &(struct graph_node_args){.op = OP_NARROW,
                                                      .params = &params,
                                                      .in = &in[1],
                                                      .out_name = "positions"},
                            err);
        if (id < 0)
            return id;
        in[1] = b->at;
    }
    id = build_add_node(b, layer,
                        &(struct graph_node_args){.op = OP_ADD, .in = in}, err);
    return id < 0 ? id : 0;
}
