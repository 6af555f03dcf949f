/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/build_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/graph/shape.h"

/* ---- what a layer reads --------------------------------------------------- */

int
build_layers_remember(struct build *b, const char *path, int value,
                      struct err *err)
{
    if (b->n_places == b->cap_places) {
        const int cap = b->cap_places == 0 ? 32 : 2 * b->cap_places;
        struct build_place *list =
            realloc(b->place, (size_t)cap * sizeof(*list));

        if (list == NULL)
            return build_no_memory(err);
        b->place = list;
        b->cap_places = cap;
    }
    b->place[b->n_places++] = (struct build_place){path, value};
    return 0;
}

static int
find_place(const struct build *b, const char *path)
{
    for (int i = b->n_places - 1; i >= 0; i--)
        if (strcmp(b->place[i].path, path) == 0)
            return b->place[i].value;
    return -1;
}

static int
gather_inputs(struct build *b, const struct spec_layer *layer, struct err *err)
{
    b->n_in = layer->n_input > 0 ? layer->n_input : 1;
    assert(b->n_in <= SPEC_MAX_INPUTS);
    b->in[0] = b->at;
    for (int i = 0; i < layer->n_input; i++) {
        b->in[i] = find_place(b, layer->input[i]);
        if (b->in[i] < 0)
            return build_refuse(layer, err,
                                "its input %s is not made before it",
                                layer->input[i]);
    }
    return 0;
}

/* ---- the table ----------------------------------------------------------- */

static build_layer_fn build_sequential, build_residual, build_identity;

/* What besides floating numbers a layer may read. */
enum reads {
    NUMBERS,
    IDS = 1,    /* token ids */
    MASKS = 2,  /* masks in any place */
    CHOICE = 4, /* a mask in the first place */
    LOOKS = 8   /* a mask in the last place, where the layer has one */
};

struct row {
    build_layer_fn *build;
    int low, high; /* how many inputs */
    int reads;
};

static const struct row rows[SPEC_LAYER_COUNT] = {
    [SPEC_LAYER_SEQUENTIAL] = {build_sequential, 1, 1, IDS | MASKS},
    [SPEC_LAYER_RESIDUAL] = {build_residual, 1, 1, NUMBERS},
    [SPEC_LAYER_LINEAR] = {build_linear, 1, 1, NUMBERS},
    [SPEC_LAYER_CONV1D] = {build_conv, 1, 1, NUMBERS},
    [SPEC_LAYER_CONV2D] = {build_conv, 1, 1, NUMBERS},
    [SPEC_LAYER_CONV_TRANSPOSE2D] = {build_conv_transpose2d, 1, 1, NUMBERS},
    [SPEC_LAYER_MATMUL] = {build_matmul, 2, 2, NUMBERS},
    [SPEC_LAYER_BMM] = {build_matmul, 2, 2, NUMBERS},
    [SPEC_LAYER_EMBEDDING] = {build_embedding, 1, 1, IDS},
    [SPEC_LAYER_POSITIONAL_EMBEDDING] = {build_positional, 1, 1, NUMBERS},
    [SPEC_LAYER_MULTIHEAD_ATTENTION] = {build_multihead, 1, 4, LOOKS},
    [SPEC_LAYER_SCALED_DOT_PRODUCT_ATTENTION] = {build_attention, 1, 4, LOOKS},
    [SPEC_LAYER_BATCH_NORM1D] = {build_batch_norm, 1, 1, NUMBERS},
    [SPEC_LAYER_BATCH_NORM2D] = {build_batch_norm, 1, 1, NUMBERS},
    [SPEC_LAYER_LAYER_NORM] = {build_layer_norm, 1, 1, NUMBERS},
    [SPEC_LAYER_GROUP_NORM] = {build_group_norm, 1, 1, NUMBERS},
    [SPEC_LAYER_RMS_NORM] = {build_layer_norm, 1, 1, NUMBERS},
    [SPEC_LAYER_RELU] = {build_function, 1, 1, NUMBERS},
    [SPEC_LAYER_PRELU] = {build_prelu, 1, 1, NUMBERS},
    [SPEC_LAYER_GELU] = {build_function, 1, 1, NUMBERS},
    [SPEC_LAYER_TANH] = {build_function, 1, 1, NUMBERS},
    [SPEC_LAYER_SIGMOID] = {build_function, 1, 1, NUMBERS},
    [SPEC_LAYER_SILU] = {build_function, 1, 1, NUMBERS},
    [SPEC_LAYER_SOFTPLUS] = {build_function, 1, 1, NUMBERS},
    [SPEC_LAYER_EXP] = {build_function, 1, 1, NUMBERS},
    [SPEC_LAYER_LOG] = {build_function, 1, 1, NUMBERS},
    [SPEC_LAYER_POW] = {build_function, 1, 1, NUMBERS},
    [SPEC_LAYER_RECIPROCAL] = {build_function, 1, 1, NUMBERS},
    [SPEC_LAYER_RSQRT] = {build_function, 1, 1, NUMBERS},
    [SPEC_LAYER_DROPOUT] = {build_dropout, 1, 1, NUMBERS},
    [SPEC_LAYER_IDENTITY] = {build_identity, 1, 1, IDS | MASKS},
    [SPEC_LAYER_ADD] = {build_binary, 1, 2, NUMBERS},
    [SPEC_LAYER_SUB] = {build_binary, 1, 2, NUMBERS},
    [SPEC_LAYER_MUL] = {build_binary, 1, 2, NUMBERS},
    [SPEC_LAYER_DIV] = {build_binary, 1, 2, NUMBERS},
    [SPEC_LAYER_EQ] = {build_compare, 1, 2, IDS},
    [SPEC_LAYER_NE] = {build_compare, 1, 2, IDS},
    [SPEC_LAYER_LT] = {build_compare, 1, 2, IDS},
    [SPEC_LAYER_LE] = {build_compare, 1, 2, IDS},
    [SPEC_LAYER_GT] = {build_compare, 1, 2, IDS},
    [SPEC_LAYER_GE] = {build_compare, 1, 2, IDS},
    [SPEC_LAYER_WHERE] = {build_where, 2, 3, CHOICE},
    [SPEC_LAYER_COSINE_SIMILARITY] = {build_cosine, 2, 2, NUMBERS},
    [SPEC_LAYER_SOFTMAX] = {build_softmax, 1, 1, NUMBERS},
    [SPEC_LAYER_LOG_SOFTMAX] = {build_softmax, 1, 1, NUMBERS},
    [SPEC_LAYER_SUM] = {build_reduce, 1, 1, NUMBERS},
    [SPEC_LAYER_MEAN] = {build_reduce, 1, 1, NUMBERS},
    [SPEC_LAYER_PROD] = {build_softmax, 1, 1, NUMBERS},
    [SPEC_LAYER_CUMSUM] = {build_softmax, 1, 1, NUMBERS},
    [SPEC_LAYER_NORM] = {build_reduce, 1, 1, NUMBERS},
    [SPEC_LAYER_LOGSUMEXP] = {build_reduce, 1, 1, NUMBERS},
    [SPEC_LAYER_MAX_POOL2D] = {build_pool2d, 1, 1, NUMBERS},
    [SPEC_LAYER_AVG_POOL2D] = {build_pool2d, 1, 1, NUMBERS},
    [SPEC_LAYER_ADAPTIVE_AVG_POOL2D] = {build_adaptive, 1, 1, NUMBERS},
    [SPEC_LAYER_UPSAMPLE] = {build_upsample, 1, 1, NUMBERS},
    [SPEC_LAYER_FLATTEN] = {build_flatten, 1, 1, NUMBERS},
    [SPEC_LAYER_UNFLATTEN] = {build_unflatten, 1, 1, MASKS},
    [SPEC_LAYER_RESHAPE] = {build_reshape, 1, 1, MASKS},
    [SPEC_LAYER_TRANSPOSE] = {build_transpose, 1, 1, MASKS},
    [SPEC_LAYER_NARROW] = {build_narrow, 1, 1, MASKS},
    [SPEC_LAYER_CAT] = {build_cat, 2, SPEC_MAX_INPUTS, NUMBERS},
    [SPEC_LAYER_STACK] = {build_cat, 2, SPEC_MAX_INPUTS, NUMBERS},
};

/* Numbers, token ids and masks go only where they mean something. */
static int
check_kinds(const struct build *b, const struct spec_layer *layer,
            struct err *err)
{
    const int reads = rows[layer->kind].reads;

    for (int i = 0; i < b->n_in; i++) {
        const enum dtype t = build_desc(b, i).dtype;
        const bool last = i == b->n_in - 1;
        const bool must = (reads & CHOICE && i == 0) ||
                          (reads & LOOKS && last && b->n_in % 2 == 0);

        if (t == DTYPE_I32 && !(reads & IDS))
            return build_refuse(layer, err,
                                "reads token ids, which only an embedding or a "
                                "comparison can; put an \"embedding\" layer "
                                "before it");
        if (t == DTYPE_BOOL && !must && !(reads & MASKS))
            return build_refuse(layer, err,
                                "reads a mask, which only where and attention "
                                "can");
        if (t != DTYPE_BOOL && must)
            return build_refuse(layer, err,
                                "needs a mask as input %d; make one with eq, "
                                "ne, lt, le, gt or ge",
                                i + 1);
    }
    return 0;
}

static int
append_layer(struct build *b, const struct spec_layer *layer, struct err *err)
{
    const struct row *row = &rows[layer->kind];
    int rc = gather_inputs(b, layer, err);

    assert(row->build != NULL);
    if (rc != 0)
        return rc;
    if (b->n_in < row->low || b->n_in > row->high)
        return build_refuse(layer, err, "cannot read %d input%s", b->n_in,
                            b->n_in == 1 ? "" : "s");
    rc = check_kinds(b, layer, err);
    if (rc == 0)
        rc = row->build(b, layer, err);
    return rc != 0 ? rc : build_layers_remember(b, layer->path, b->at, err);
}

int
build_layers_append(struct build *b, const struct spec_layer *layers, int n,
                    struct err *err)
{
    for (int i = 0; i < n; i++) {
        const int rc = append_layer(b, &layers[i], err);

        if (rc != 0)
            return rc;
    }
    return 0;
}

/* ---- layers of layers ------------------------------------------------------ */

static int
build_identity(struct build *b, const struct spec_layer *layer, struct err *err)
{
    (void)layer;
    (void)err;
    b->at = b->in[0];
    return 0;
}

static int
build_sequential(struct build *b, const struct spec_layer *layer,
                 struct err *err)
{
    b->at = b->in[0];
    return build_layers_append(b, layer->body, layer->n_body, err);
}

/* Layers, plus what they got or what a shortcut makes of it. */
static int
build_residual(struct build *b, const struct spec_layer *layer, struct err *err)
{
    const int x = b->in[0];
    struct tensor_desc one, other;
    char want[SHAPE_TEXT_MAX], have[SHAPE_TEXT_MAX];
    int in[2], rc;

    b->at = x;
    rc = build_layers_append(b, layer->body, layer->n_body, err);
    if (rc != 0)
        return rc;
    in[0] = b->at;
    b->at = x;
    rc = build_layers_append(b, layer->shortcut, layer->n_shortcut, err);
    if (rc != 0)
        return rc;
    in[1] = b->at;
    one = graph_value_at(b->graph, in[0])->desc;
    other = graph_value_at(b->graph, in[1])->desc;
    if (!tensor_same_shape(&one, &other) || !dtype_is_float(one.dtype) ||
        !dtype_is_float(other.dtype))
        return build_refuse(layer, err,
                            "its %s %s but its layers end in %s; the sum needs "
                            "one shape",
                            layer->n_shortcut > 0 ? "shortcut ends in"
                                                  : "input is",
                            shape_format(&other, want, sizeof(want)),
                            shape_format(&one, have, sizeof(have)));
    in[1] = build_relayout(b, layer, in[1], one.layout, err);
    if (in[1] < 0)
        return in[1];
    rc = build_add_node(b, layer,
                        &(struct graph_node_args){.op = OP_ADD, .in = in}, err);
    return rc < 0 ? rc : 0;
}
