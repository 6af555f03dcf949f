/* SPDX-License-Identifier: Apache-2.0 */
/* Builders of layers that move elements and change none. */
#include "engine/graph/build_private.h"

#include <inttypes.h>

#include "engine/graph/shape.h"

/* The input as row-major elements under another shape; nothing where it has
 * that shape already. */
static int
add_reshape(struct build *b, const struct spec_layer *layer,
            const struct tensor_desc *like, struct err *err)
{
    const struct tensor_desc x = build_desc(b, 0);

    if (tensor_same_shape(&x, like)) {
        b->at = b->in[0];
        return 0;
    }
    if (build_want_row(b, layer, 0, err) != 0)
        return err->code;
    return build_add_unary(b, layer, OP_RESHAPE, NULL, like, err);
}

int
build_flatten(struct build *b, const struct spec_layer *layer, struct err *err)
{
    const struct tensor_desc x = build_desc(b, 0);
    struct tensor_desc like = {.layout = TENSOR_ROW};
    int first, last;

    if (x.rank <= 2 && layer->u.flatten.start_dim == 1 &&
        layer->u.flatten.end_dim == -1) {
        b->at = b->in[0];
        return 0; /* rows already */
    }
    if (build_resolve_axis(layer, layer->u.flatten.start_dim, x.rank, &first,
                           err) != 0 ||
        build_resolve_axis(layer, layer->u.flatten.end_dim, x.rank, &last,
                           err) != 0)
        return err->code;
    if (last < first)
        return build_refuse(layer, err,
                            "its end_dim %" PRId64 " comes before its "
                            "start_dim %" PRId64,
                            layer->u.flatten.end_dim,
                            layer->u.flatten.start_dim);
    if (first == 1 && last == x.rank - 1 && x.rank > 2)
        return build_add_unary(b, layer, OP_FLATTEN, NULL, NULL, err);
    for (int i = 0; i < x.rank; i++) {
        if (i > first && i <= last)
            like.dim[like.rank - 1] *= x.dim[i];
        else
            like.dim[like.rank++] = x.dim[i];
    }
    return add_reshape(b, layer, &like, err);
}

/* Sizes into like's dims from `at` on, the one that is -1 so that their
 * product is n. */
static int
put_sizes(const struct spec_layer *layer, int64_t n, int at,
          struct tensor_desc *like, struct err *err)
{
    int64_t known = 1;
    int open = -1;

    if (at + layer->u.shape.n_size > TENSOR_MAX_RANK)
        return build_refuse(layer, err, "makes more than %d axes",
                            TENSOR_MAX_RANK);
    for (int i = 0; i < layer->u.shape.n_size; i++) {
        const int64_t size = layer->u.shape.size[i];

        like->dim[at + i] = size;
        if (size == -1)
            open = at + i;
        else if (size < 1 || __builtin_mul_overflow(known, size, &known))
            return build_refuse(layer, err, "cannot make an axis of %" PRId64,
                                size);
    }
    if (open >= 0 && n % known == 0) {
        like->dim[open] = n / known;
        known = n;
    }
    if (known != n)
        return build_refuse(layer, err,
                            "cannot part %" PRId64 " elements into sizes that "
                            "make %" PRId64,
                            n, known);
    like->rank = at + layer->u.shape.n_size;
    return 0;
}

int
build_unflatten(struct build *b, const struct spec_layer *layer,
                struct err *err)
{
    const struct tensor_desc x = build_desc(b, 0);
    struct tensor_desc like = {.layout = TENSOR_ROW};
    int axis;

    if (build_resolve_axis(layer, layer->u.shape.dim, x.rank, &axis, err) != 0)
        return err->code;
    for (int i = 0; i < axis; i++)
        like.dim[i] = x.dim[i];
    if (put_sizes(layer, x.dim[axis], axis, &like, err) != 0)
        return err->code;
    if (like.rank + x.rank - axis - 1 > TENSOR_MAX_RANK)
        return build_refuse(layer, err, "makes more than %d axes",
                            TENSOR_MAX_RANK);
    for (int i = axis + 1; i < x.rank; i++)
        like.dim[like.rank++] = x.dim[i];
    return add_reshape(b, layer, &like, err);
}

int
build_reshape(struct build *b, const struct spec_layer *layer, struct err *err)
{
    const struct tensor_desc x = build_desc(b, 0);
    struct tensor_desc like = {.layout = TENSOR_ROW};

    like.dim[0] = x.dim[0];
    if (put_sizes(layer, tensor_n_elems(&x) / x.dim[0], 1, &like, err) != 0)
        return err->code;
    return add_reshape(b, layer, &like, err);
}

int
build_transpose(struct build *b, const struct spec_layer *layer,
                struct err *err)
{
    const int rank = build_desc(b, 0).rank;
    union op_params params = {.transpose = {0, 0}};

    if (build_resolve_axis(layer, layer->u.transpose.dim0, rank,
                           &params.transpose.dim0, err) != 0 ||
        build_resolve_axis(layer, layer->u.transpose.dim1, rank,
                           &params.transpose.dim1, err) != 0 ||
        build_want_row(b, layer, 0, err) != 0)
        return err->code;
    return build_add_unary(b, layer, OP_TRANSPOSE, &params, NULL, err);
}

int
build_narrow(struct build *b, const struct spec_layer *layer, struct err *err)
{
    const struct tensor_desc x = build_desc(b, 0);
    const int64_t start = layer->u.axis.start, length = layer->u.axis.length;
    union op_params params = {.axis = {.length = length}};
    int64_t size;

    if (build_resolve_axis(layer, layer->u.axis.dim, x.rank, &params.axis.axis,
                           err) != 0)
        return err->code;
    size = x.dim[params.axis.axis];
    params.axis.start = start < 0 ? start + size : start;
    if (params.axis.start < 0 || length < 1 ||
        length > size - params.axis.start)
        return build_refuse(layer, err,
                            "%" PRId64 " elements from %" PRId64 " are not "
                            "within an axis of %" PRId64,
                            length, start, size);
    return build_add_unary(b, layer, OP_NARROW, &params, NULL, err);
}

/* cat and stack, which makes a new axis of row-major tensors. */
int
build_cat(struct build *b, const struct spec_layer *layer, struct err *err)
{
    const bool stack = layer->kind == SPEC_LAYER_STACK;
    const int rank = build_desc(b, 0).rank + (stack ? 1 : 0);
    union op_params params = {.axis = {0}};
    int in[OP_MAX_IN], id;

    if (build_resolve_axis(layer, layer->u.axis.dim, rank, &params.axis.axis,
                           err) != 0 ||
        build_want_alike(b, layer, 0, err) != 0)
        return err->code;
    for (int i = 0; i < b->n_in && stack; i++)
        if (build_want_row(b, layer, i, err) != 0)
            return err->code;
    for (int i = 0; i < OP_MAX_IN; i++)
        in[i] = i < b->n_in ? b->in[i] : -1;
    id = build_add_node(
        b, layer,
        &(struct graph_node_args){
            .op = stack ? OP_STACK : OP_CAT, .params = &params, .in = in},
        err);
    return id < 0 ? id : 0;
}
