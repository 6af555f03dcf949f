/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/spec_layer.h"

#include <string.h>

#include "proto/spec_read.h"

/* ---- parameters ---------------------------------------------------------- */

static bool
has_bias(const struct spec_layer *layer)
{
    switch ((int)layer->kind) {
    case SPEC_LAYER_LINEAR: return layer->u.linear.bias;
    case SPEC_LAYER_CONV1D:
    case SPEC_LAYER_CONV2D:
    case SPEC_LAYER_CONV_TRANSPOSE2D: return layer->u.conv2d.bias;
    case SPEC_LAYER_MULTIHEAD_ATTENTION: return layer->u.attention.bias;
    case SPEC_LAYER_BATCH_NORM1D:
    case SPEC_LAYER_BATCH_NORM2D: return layer->u.batch_norm.affine;
    case SPEC_LAYER_LAYER_NORM:
        return layer->u.layer_norm.affine && layer->u.layer_norm.bias;
    case SPEC_LAYER_GROUP_NORM: return layer->u.group_norm.affine;
    default: return false;
    }
}

static bool
has_weight(const struct spec_layer *layer)
{
    switch ((int)layer->kind) {
    case SPEC_LAYER_LINEAR:
    case SPEC_LAYER_CONV1D:
    case SPEC_LAYER_CONV2D:
    case SPEC_LAYER_CONV_TRANSPOSE2D:
    case SPEC_LAYER_EMBEDDING:
    case SPEC_LAYER_POSITIONAL_EMBEDDING:
    case SPEC_LAYER_MULTIHEAD_ATTENTION:
    case SPEC_LAYER_PRELU: return true;
    case SPEC_LAYER_BATCH_NORM1D:
    case SPEC_LAYER_BATCH_NORM2D: return layer->u.batch_norm.affine;
    case SPEC_LAYER_LAYER_NORM:
    case SPEC_LAYER_RMS_NORM: return layer->u.layer_norm.affine;
    case SPEC_LAYER_GROUP_NORM: return layer->u.group_norm.affine;
    default: return false;
    }
}

int
spec_layer_params(const struct spec_layer *layer,
                  const char *names[SPEC_LAYER_MAX_PARAMS])
{
    bool bias = has_bias(layer);
    int n = 0;

    if (layer->kind == SPEC_LAYER_MULTIHEAD_ATTENTION) {
        names[n++] = "in_proj_weight";
        if (bias)
            names[n++] = "in_proj_bias";
        names[n++] = "out_proj.weight";
        if (bias)
            names[n++] = "out_proj.bias";
        return n;
    }
    if (has_weight(layer) && layer->weight_from == NULL)
        names[n++] = "weight";
    if (bias)
        names[n++] = "bias";
    return n;
}

void
spec_layer_check_params(struct spec_reader *r, int weight_init, int bias_init,
                        int weight_from, const struct spec_layer *layer)
{
    const char *kind = spec_layer_name(layer->kind);

    if (weight_from >= 0 && layer->kind != SPEC_LAYER_LINEAR &&
        layer->kind != SPEC_LAYER_EMBEDDING)
        spec_fault_at(r, weight_from,
                      "only a linear or an embedding takes the weight of "
                      "another layer, not a %s",
                      kind);
    if (weight_init >= 0 && !has_weight(layer))
        spec_fault_at(r, weight_init, "this %s has no weight", kind);
    else if (weight_init >= 0 && layer->kind == SPEC_LAYER_PRELU)
        spec_fault_at(r, weight_init, "a prelu starts at its init");
    else if (weight_init >= 0 && weight_from >= 0)
        spec_fault_at(r, weight_init,
                      "the weight is another layer's, as weight_from says");
    if (bias_init >= 0 && !has_bias(layer))
        spec_fault_at(r, bias_init, "this %s has no bias", kind);
}

/* ---- inputs -------------------------------------------------------------- */

/* How many inputs a layer may have. */
struct arity {
    int low, high;
    const char *words;
};

static struct arity
arity_of(const struct spec_layer *layer)
{
    static const struct arity one = {1, 1, "one input"};
    static const struct arity two = {2, 2, "two inputs"};

    switch ((int)layer->kind) {
    case SPEC_LAYER_ADD:
    case SPEC_LAYER_SUB:
    case SPEC_LAYER_MUL:
    case SPEC_LAYER_DIV:
    case SPEC_LAYER_EQ:
    case SPEC_LAYER_NE:
    case SPEC_LAYER_LT:
    case SPEC_LAYER_LE:
    case SPEC_LAYER_GT:
    case SPEC_LAYER_GE:
        if (layer->u.binary.has_value)
            return (struct arity){1, 1, "one input beside a value"};
        return (struct arity){2, 2, "two inputs, or one and a value"};
    case SPEC_LAYER_WHERE:
        if (layer->u.where.has_value)
            return (struct arity){2, 2, "a mask and one input beside a value"};
        return (struct arity){
            3, 3, "a mask and two inputs, or a mask, one and a value"};
    case SPEC_LAYER_MATMUL:
    case SPEC_LAYER_BMM:
    case SPEC_LAYER_COSINE_SIMILARITY: return two;
    case SPEC_LAYER_CAT:
    case SPEC_LAYER_STACK:
        return (struct arity){2, SPEC_MAX_INPUTS, "2 to 8 inputs"};
    case SPEC_LAYER_MULTIHEAD_ATTENTION:
    case SPEC_LAYER_SCALED_DOT_PRODUCT_ATTENTION:
        return (struct arity){
            1, 4, "one input or three (q, k, v), and a mask or none"};
    default: return one;
    }
}

void
spec_layer_check_inputs(struct spec_reader *r, int node,
                        struct spec_layer *layer)
{
    const int n = layer->n_input > 0 ? layer->n_input : 1;
    const struct arity arity = arity_of(layer);

    if (n < arity.low || n > arity.high)
        spec_fault_at(r, node, "%s reads %s, not %d",
                      spec_layer_name(layer->kind), arity.words, n);
    else if (layer->kind == SPEC_LAYER_MULTIHEAD_ATTENTION ||
             layer->kind == SPEC_LAYER_SCALED_DOT_PRODUCT_ATTENTION)
        layer->u.attention.has_mask = n % 2 == 0;
}

/* ---- settings ------------------------------------------------------------ */

static void
check_conv(struct spec_reader *r, int node, struct spec_layer *layer)
{
    int64_t out = layer->u.conv2d.out_channels;
    int64_t groups = layer->u.conv2d.groups;
    int at = spec_read_find(r, node, "groups");

    if (at >= 0 && out > 0 && groups > 0 && out % groups != 0)
        spec_fault_at(r, at, "%lld groups do not divide out_channels %lld",
                      (long long)groups, (long long)out);
    if (layer->kind == SPEC_LAYER_CONV1D) {
        layer->u.conv2d.kernel_size[0] = layer->u.conv2d.stride[0] = 1;
        layer->u.conv2d.dilation[0] = 1;
        layer->u.conv2d.padding[0] = 0;
    }
    at = spec_read_find(r, node, "output_padding");
    for (int i = 0; i < 2 && at >= 0; i++) {
        int64_t more = layer->u.conv2d.output_padding[i];

        if (more < layer->u.conv2d.stride[i] ||
            more < layer->u.conv2d.dilation[i])
            continue;
        spec_fault_at(r, at, "must be less than stride or dilation");
        return;
    }
}

static void
check_pool2d(struct spec_reader *r, int node, struct spec_layer *layer)
{
    int at = spec_read_find(r, node, "padding");

    for (int i = 0; i < 2; i++) {
        int64_t kernel = layer->u.pool2d.kernel_size[i];

        if (layer->u.pool2d.stride[i] == 0)
            layer->u.pool2d.stride[i] = kernel;
        if (at >= 0 && kernel > 0 && layer->u.pool2d.padding[i] > kernel / 2) {
            spec_fault_at(r, at, "must be at most half of kernel_size");
            return;
        }
    }
}

static void
check_embedding(struct spec_reader *r, int node, struct spec_layer *layer)
{
    int64_t rows = layer->u.embedding.num_embeddings;
    int64_t *id = &layer->u.embedding.padding_idx;

    if (!layer->u.embedding.has_padding || rows == 0)
        return;
    if (*id < -rows || *id >= rows)
        spec_fault_at(r, spec_read_find(r, node, "padding_idx"),
                      "is no id of %lld embeddings", (long long)rows);
    else if (*id < 0)
        *id += rows;
}

/* Sizes are 1 or more, and one may be -1. */
static void
check_sizes(struct spec_reader *r, int node, const char *key,
            const struct spec_layer *layer)
{
    int at = spec_read_find(r, node, key);
    int unknown = 0;

    for (int i = 0; i < layer->u.shape.n_size; i++) {
        if (layer->u.shape.size[i] == 0) {
            spec_fault_at(r, at, "has a size of 0");
            return;
        }
        unknown += layer->u.shape.size[i] == -1;
    }
    if (unknown > 1)
        spec_fault_at(r, at, "has more than one -1");
}

static void
check_dims(struct spec_reader *r, int node, const struct spec_layer *layer)
{
    for (int i = 0; i < layer->u.reduce.n_dim; i++)
        for (int j = 0; j < i; j++)
            if (layer->u.reduce.dim[i] == layer->u.reduce.dim[j]) {
                spec_fault_at(r, spec_read_find(r, node, "dim"),
                              "has axis %lld twice",
                              (long long)layer->u.reduce.dim[i]);
                return;
            }
}

/* A key that is there and not null, whatever its value is worth. */
static bool
is_given(const struct spec_reader *r, int node, const char *key)
{
    int at = spec_read_find(r, node, key);

    return at >= 0 && r->tree.nodes[at].type != SPEC_NODE_NULL;
}

static void
check_upsample(struct spec_reader *r, int at, int node,
               const struct spec_layer *layer)
{
    bool size = is_given(r, node, "size");
    bool scale = is_given(r, node, "scale_factor");

    if (!size && !scale)
        spec_fault_at(r, node >= 0 ? node : at,
                      "needs a size or a scale_factor");
    else if (size && scale)
        spec_fault_at(r, spec_read_find(r, node, "scale_factor"),
                      "there is a size already");
    if (layer->u.upsample.align_corners &&
        layer->u.upsample.mode != SPEC_UPSAMPLE_BILINEAR)
        spec_fault_at(r, spec_read_find(r, node, "align_corners"),
                      "wants mode bilinear");
}

void
spec_layer_check_settings(struct spec_reader *r, int at, int node,
                          struct spec_layer *layer)
{
    switch ((int)layer->kind) {
    case SPEC_LAYER_CONV1D:
    case SPEC_LAYER_CONV2D:
    case SPEC_LAYER_CONV_TRANSPOSE2D: check_conv(r, node, layer); return;
    case SPEC_LAYER_MAX_POOL2D:
    case SPEC_LAYER_AVG_POOL2D: check_pool2d(r, node, layer); return;
    case SPEC_LAYER_EMBEDDING: check_embedding(r, node, layer); return;
    case SPEC_LAYER_UNFLATTEN:
        check_sizes(r, node, "unflattened_size", layer);
        return;
    case SPEC_LAYER_RESHAPE: check_sizes(r, node, "shape", layer); return;
    case SPEC_LAYER_SUM:
    case SPEC_LAYER_MEAN:
    case SPEC_LAYER_NORM:
    case SPEC_LAYER_LOGSUMEXP: check_dims(r, node, layer); return;
    case SPEC_LAYER_UPSAMPLE: check_upsample(r, at, node, layer); return;
    default: return;
    }
}
