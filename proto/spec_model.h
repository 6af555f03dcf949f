/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec_model: the layers of a spec.
 *
 * The part of struct spec that says what to train, as a list of layers with
 * lists of layers in them; proto/spec.h is its other half and owns it. Presets
 * are plain layers here.
 */
#ifndef PROTO_SPEC_MODEL_H
#define PROTO_SPEC_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum spec_layer_kind {
#define LAYER(id, name, doc) SPEC_LAYER_##id,
#include "proto/layers.def"
#undef LAYER
    SPEC_LAYER_COUNT
};

enum spec_gelu { SPEC_GELU_NONE, SPEC_GELU_TANH };
enum spec_upsample { SPEC_UPSAMPLE_NEAREST, SPEC_UPSAMPLE_BILINEAR };
enum spec_init_kind {
    SPEC_INIT_DEFAULT, /* PyTorch's for the layer */
    SPEC_INIT_ZEROS,
    SPEC_INIT_ONES,
    SPEC_INIT_NORMAL, /* N(0, value^2) */
    SPEC_INIT_UNIFORM /* U(-value, value) */
};

/* How a parameter starts: "zeros", {"normal": {"std": 0.02}}, ... */
struct spec_init {
    enum spec_init_kind kind;
    double value;
};

#define SPEC_MAX_INPUTS 8
#define SPEC_MAX_DIMS   6

/* A layer. `path` is where messages find it: "2", "head", "5.0" inside a
 * residual or sequential at position 5, "5.shortcut.0" in its shortcut. A name
 * may not contain '.' and is unique among its siblings. line and col are
 * 1-based places in the parsed text, 0 if none.
 *
 * A layer reads what the layer before it made (the first one of a list: what
 * the list got), or what the layers in `input` made: paths, "input" for the
 * data. In the text an input is a name: of an earlier layer of the same list,
 * else of the list around it, and so on outwards; "a.b" goes into a container
 * that stands complete. Preset models (mlp, resnet, gpt) are such layers here:
 * spec_parse() has expanded them. */
struct spec_layer {
    enum spec_layer_kind kind;
    const char *path;
    int line, col;
    const char **input; /* n_input paths; 0: the layer before */
    int n_input;
    struct spec_init weight_init, bias_init;
    const char *weight_from; /* path of a layer above whose "weight" it shares;
                                NULL: its own. linear and embedding */
    union {
        struct {
            int64_t out_features;
            bool bias;
        } linear;
        struct { /* conv1d uses entry 1 of the pairs */
            int64_t out_channels;
            int64_t kernel_size[2], stride[2], padding[2], dilation[2];
            int64_t output_padding[2]; /* transposed only */
            int64_t groups;
            bool bias;
        } conv2d;
        struct {
            bool transpose_a, transpose_b;
        } matmul;
        struct {
            int64_t num_embeddings, embedding_dim;
            bool has_padding;
            int64_t padding_idx;
        } embedding; /* positional: num_embeddings alone */
        struct { /* both attentions; inputs: x, or q k v, then a mask or not */
            int64_t num_heads;
            bool is_causal, bias; /* bias: multihead only */
            bool has_mask;        /* the last input is a mask */
            double dropout;
            double scale; /* 0: 1 / sqrt(head size) */
        } attention;
        struct {
            double eps, momentum;
            bool affine;
        } batch_norm;
        struct { /* rms_norm too (eps 0: the dtype's epsilon); over the last
                    axis of any input when n_shape is 0 */
            int64_t shape[4];
            int n_shape;
            double eps;
            bool affine, bias;
        } layer_norm;
        struct {
            int64_t num_groups;
            double eps;
            bool affine;
        } group_norm;
        struct {
            enum spec_gelu approximate;
        } gelu;
        struct {
            int64_t num_parameters; /* 1, or the channels */
            double init;
        } prelu;
        struct {
            double beta, threshold;
        } softplus;
        struct {
            double exponent;
        } pow;
        struct { /* add sub mul div, comparisons: one input and this number */
            bool has_value;
            double value;
        } binary;
        struct { /* where: inputs mask, a, b, or mask, a and this for b */
            bool has_value;
            double value;
        } where;
        struct { /* softmax .. cumsum, cat, stack, cosine_similarity, narrow;
                    negative ones count from the end */
            int64_t dim;
            bool keepdim; /* prod */
            int64_t start, length;
            double eps;
        } axis;
        struct { /* sum mean norm logsumexp; n_dim 0: all but the samples' */
            int64_t dim[SPEC_MAX_DIMS];
            int n_dim;
            bool keepdim;
            double p;
        } reduce;
        struct {
            int64_t kernel_size[2], stride[2], padding[2];
            bool count_include_pad; /* avg only */
        } pool2d;
        struct {
            int64_t output_size[2];
        } adaptive;
        struct {
            int64_t size[2]; /* 0, 0: by scale_factor */
            double scale_factor[2];
            enum spec_upsample mode;
            bool align_corners;
        } upsample;
        struct {
            int64_t start_dim, end_dim;
        } flatten;
        struct { /* unflatten: dim; reshape: of a sample, one may be -1 */
            int64_t dim;
            int64_t size[SPEC_MAX_DIMS];
            int n_size;
        } shape;
        struct {
            int64_t dim0, dim1;
        } transpose;
        struct {
            double p;
        } dropout;
    } u;
    struct spec_layer *body; /* containers only */
    int n_body;
    struct spec_layer *shortcut; /* residual only; none: the input itself */
    int n_shortcut;
};

#endif
