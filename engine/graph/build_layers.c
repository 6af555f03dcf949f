/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/build_private.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/graph/shape.h"

/* ---- helpers ------------------------------------------------------------- */

static int refuse(const struct spec_layer *layer, struct err *err,
                  const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* "2 (linear): sentence". */
static int
refuse(const struct spec_layer *layer, struct err *err, const char *fmt, ...)
{
    char sentence[ERR_SENTENCE_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, ap);
    va_end(ap);
    return err_set(err, ERR_SPEC, "%s (%s): %s", layer->path,
                   spec_layer_name(layer->kind), sentence);
}

static int
no_memory(struct err *err)
{
    return err_set(err, ERR_NOMEM, "no memory for the graph");
}

static struct tensor_desc
current(const struct build *b)
{
    return graph_value_at(b->graph, b->at)->desc;
}

/* Uniform parameters get U(-1/sqrt(fan_in), 1/sqrt(fan_in)), which is what
 * PyTorch's kaiming_uniform with a = sqrt(5) comes to. */
struct param_args {
    const char *what; /* "weight" */
    struct tensor_desc desc;
    enum graph_init init;
    int64_t fan_in; /* for GRAPH_INIT_UNIFORM */
    bool autocast;
};

/* PATH.what; its value id, or an error. */
static int
add_param(struct build *b, const struct spec_layer *layer,
          const struct param_args *args, struct err *err)
{
    struct graph_param param = {
        .desc = args->desc, .init = args->init, .autocast = args->autocast};
    char *name = NULL;
    int v;

    if (!shape_fits(&args->desc))
        return refuse(layer, err, "its %s has more than 2^40 elements",
                      args->what);
    if (args->init == GRAPH_INIT_UNIFORM) {
        assert(args->fan_in > 0);
        param.bound = 1.0 / sqrt((double)args->fan_in);
    }
    if (asprintf(&name, "%s.%s", layer->path, args->what) < 0)
        return no_memory(err);
    param.name = name;
    v = graph_add_param(b->graph, &param);
    free(name);
    return v < 0 ? no_memory(err) : v;
}

/* Weight and, where affine, shift of a norm: value ids in *w and *b. */
static int
add_affine(struct build *b, const struct spec_layer *layer, bool affine,
           const struct tensor_desc *desc, int ids[2], struct err *err)
{
    struct param_args args = {
        .what = "weight", .desc = *desc, .init = GRAPH_INIT_ONE};

    ids[0] = ids[1] = -1;
    if (!affine)
        return 0;
    ids[0] = add_param(b, layer, &args, err);
    if (ids[0] < 0)
        return ids[0];
    args.what = "bias";
    args.init = GRAPH_INIT_ZERO;
    ids[1] = add_param(b, layer, &args, err);
    return ids[1] < 0 ? ids[1] : 0;
}

/* A buffer PATH.what of one float32 a channel; its value id, or an error. */
static int
add_buffer(struct build *b, const struct spec_layer *layer, const char *what,
           int64_t channels, enum graph_init init, struct err *err)
{
    struct graph_buffer buffer = {.desc = tensor_make(DTYPE_F32, 1, &channels),
                                  .init = init};
    char *name = NULL;
    int v;

    if (asprintf(&name, "%s.%s", layer->path, what) < 0)
        return no_memory(err);
    buffer.name = name;
    v = graph_add_buffer(b->graph, &buffer);
    free(name);
    return v < 0 ? no_memory(err) : v;
}

/* The layer's node, "PATH.out": what the next layer reads. Outputs that only
 * a backward pass would read are left out of an evaluation graph. Returns the
 * node's id, or an error. */
static int
add_node(struct build *b, const struct spec_layer *layer,
         const struct graph_node_args *what, struct err *err)
{
    struct graph_node_args args = *what;
    struct graph_out out[OP_MAX_OUT] = {{GRAPH_NEW, NULL}};
    char *name = NULL;
    int id;

    if (asprintf(&name, "%s.out", layer->path) < 0)
        return no_memory(err);
    args.phase = GRAPH_FORWARD;
    args.layer = layer->path;
    args.out_name = name;
    args.out_value = GRAPH_NEW;
    for (int i = 1; i < OP_MAX_OUT; i++)
        out[i].value = b->mode == BUILD_EVAL ? GRAPH_ABSENT : GRAPH_NEW;
    args.out = out;
    id = graph_add_node(b->graph, &args, err);
    free(name);
    if (id >= 0)
        b->at = graph_node_at(b->graph, id)->out[0];
    return id;
}

/* A node that reads only what the last layer made. */
static int
add_unary(struct build *b, const struct spec_layer *layer, enum op op,
          const union op_params *params, const struct tensor_desc *like,
          struct err *err)
{
    const int in[1] = {b->at};
    const int id =
        add_node(b, layer,
                 &(struct graph_node_args){
                     .op = op, .params = params, .in = in, .like = like},
                 err);

    return id < 0 ? id : 0;
}

static int
need_image(const struct build *b, const struct spec_layer *layer,
           struct err *err)
{
    const struct tensor_desc x = current(b);
    char text[SHAPE_TEXT_MAX];

    if (x.layout == TENSOR_NHWC)
        return 0;
    return refuse(layer, err,
                  "needs images (samples, channels, height, width) but gets "
                  "%s",
                  shape_format(&x, text, sizeof(text)));
}

/* ---- products ------------------------------------------------------------ */

static int
build_linear(struct build *b, const struct spec_layer *layer, struct err *err)
{
    const struct tensor_desc x = current(b);
    const int64_t k = x.rank > 0 ? x.dim[x.rank - 1] : 0;
    const int64_t o = layer->u.linear.out_features;
    struct param_args args = {.what = "weight",
                              .desc =
                                  tensor_make(DTYPE_F32, 2, (int64_t[]){o, k}),
                              .init = GRAPH_INIT_UNIFORM,
                              .fan_in = k,
                              .autocast = true};
    char text[SHAPE_TEXT_MAX];
    int in[3] = {b->at, -1, -1}, id;

    shape_format(&x, text, sizeof(text));
    if (x.layout == TENSOR_NHWC)
        return refuse(layer, err,
                      "needs rows of features but gets images %s; put a "
                      "\"flatten\" layer before it",
                      text);
    if (x.rank < 2)
        return refuse(layer, err,
                      "needs rows of features (samples, features) but gets "
                      "%s",
                      text);
    in[1] = add_param(b, layer, &args, err);
    if (in[1] < 0)
        return in[1];
    if (layer->u.linear.bias) {
        args.what = "bias";
        args.desc = tensor_make(DTYPE_F32, 1, &o);
        in[2] = add_param(b, layer, &args, err);
        if (in[2] < 0)
            return in[2];
    }
    id = add_node(b, layer,
                  &(struct graph_node_args){.op = OP_LINEAR, .in = in}, err);
    return id < 0 ? id : 0;
}

static int
build_conv2d(struct build *b, const struct spec_layer *layer, struct err *err)
{
    const struct tensor_desc x = current(b);
    const int64_t o = layer->u.conv2d.out_channels;
    const int64_t groups = layer->u.conv2d.groups, c = x.dim[1];
    const int64_t *kernel = layer->u.conv2d.kernel_size;
    struct param_args args = {
        .what = "weight", .init = GRAPH_INIT_UNIFORM, .autocast = true};
    union op_params params = {.conv = {.groups = groups}};
    int in[3] = {b->at, -1, -1}, id;

    if (need_image(b, layer, err) != 0)
        return ERR_SPEC;
    if (c % groups != 0 || o % groups != 0)
        return refuse(layer, err,
                      "groups %" PRId64 " must divide its %" PRId64
                      " input channels and %" PRId64 " out_channels",
                      groups, c, o);
    for (int i = 0; i < 2; i++) {
        params.conv.stride[i] = layer->u.conv2d.stride[i];
        params.conv.padding[i] = layer->u.conv2d.padding[i];
        params.conv.dilation[i] = layer->u.conv2d.dilation[i];
    }
    args.desc = tensor_make(DTYPE_F32, 4,
                            (int64_t[]){o, c / groups, kernel[0], kernel[1]});
    if (!shape_fits(&args.desc))
        return refuse(layer, err, "its weight has more than 2^40 elements");
    args.fan_in = tensor_n_elems(&args.desc) / o;
    in[1] = add_param(b, layer, &args, err);
    if (in[1] < 0)
        return in[1];
    if (layer->u.conv2d.bias) {
        args.what = "bias";
        args.desc = tensor_make(DTYPE_F32, 1, &o);
        in[2] = add_param(b, layer, &args, err);
        if (in[2] < 0)
            return in[2];
    }
    id = add_node(
        b, layer,
        &(struct graph_node_args){.op = OP_CONV2D, .params = &params, .in = in},
        err);
    return id < 0 ? id : 0;
}

/* ---- norms --------------------------------------------------------------- */

/* What x must be for batch_norm1d or batch_norm2d. */
static int
check_batch_norm(const struct build *b, const struct spec_layer *layer,
                 int64_t per_channel, struct err *err)
{
    const struct tensor_desc x = current(b);
    char text[SHAPE_TEXT_MAX];

    if (layer->kind == SPEC_LAYER_BATCH_NORM2D && need_image(b, layer, err))
        return ERR_SPEC;
    if (layer->kind == SPEC_LAYER_BATCH_NORM1D && x.rank != 2) {
        shape_format(&x, text, sizeof(text));
        if (x.layout == TENSOR_NHWC)
            return refuse(layer, err,
                          "needs rows (samples, channels) but gets images "
                          "%s; use batch_norm2d",
                          text);
        return refuse(layer, err,
                      "needs rows (samples, channels) but gets %s; put a "
                      "\"flatten\" layer before it",
                      text);
    }
    if (b->mode == BUILD_TRAIN && per_channel < 2)
        return refuse(layer, err,
                      "needs more than one value a channel in training, and "
                      "a batch of %" PRId64 " gives one",
                      b->batch_size);
    return 0;
}

/* The node that moves the running statistics; no value of its own. */
static int
add_stats_track(struct build *b, const struct spec_layer *layer,
                const union op_params *params, const int *in, struct err *err)
{
    const struct graph_out out[2] = {{in[0], NULL}, {in[1], NULL}};
    const int id =
        graph_add_node(b->graph,
                       &(struct graph_node_args){.op = OP_STATS_TRACK,
                                                 .params = params,
                                                 .in = in,
                                                 .phase = GRAPH_FORWARD,
                                                 .layer = layer->path,
                                                 .out = out},
                       err);

    return id < 0 ? id : 0;
}

static int
build_batch_norm(struct build *b, const struct spec_layer *layer,
                 struct err *err)
{
    const struct tensor_desc x = current(b);
    const int64_t c = x.rank >= 2 ? x.dim[1] : 1;
    const struct tensor_desc channels = tensor_make(DTYPE_F32, 1, &c);
    const bool train = b->mode == BUILD_TRAIN;
    union op_params params = {
        .batch_norm = {.eps = layer->u.batch_norm.eps,
                       .momentum = layer->u.batch_norm.momentum,
                       .n = tensor_n_elems(&x) / c}};
    int in[5] = {b->at, -1, -1, -1, -1}, affine[2], mean, var, id;

    id = check_batch_norm(b, layer, params.batch_norm.n, err);
    if (id == 0)
        id = add_affine(b, layer, layer->u.batch_norm.affine, &channels, affine,
                        err);
    if (id != 0)
        return id;
    mean = add_buffer(b, layer, "running_mean", c, GRAPH_INIT_ZERO, err);
    if (mean < 0)
        return mean;
    var = add_buffer(b, layer, "running_var", c, GRAPH_INIT_ONE, err);
    if (var < 0)
        return var;
    in[1] = affine[0];
    in[2] = affine[1];
    in[3] = mean; /* read by the op of evaluation only */
    in[4] = var;
    id = add_node(b, layer,
                  &(struct graph_node_args){.op = train ? OP_BATCH_NORM
                                                        : OP_BATCH_NORM_EVAL,
                                            .params = &params,
                                            .in = in},
                  err);
    if (id < 0 || !train)
        return id < 0 ? id : 0;
    return add_stats_track(b, layer, &params,
                           (int[]){mean, var,
                                   graph_node_at(b->graph, id)->out[1],
                                   graph_node_at(b->graph, id)->out[2]},
                           err);
}

static int
build_layer_norm(struct build *b, const struct spec_layer *layer,
                 struct err *err)
{
    const struct tensor_desc x = current(b);
    const int n = layer->u.layer_norm.n_shape;
    struct tensor_desc inner = {.dtype = DTYPE_F32, .rank = n};
    union op_params params = {.layer_norm = {.eps = layer->u.layer_norm.eps,
                                             .n_dims = n == 0 ? 1 : n}};
    char have[SHAPE_TEXT_MAX], want[SHAPE_TEXT_MAX];
    int in[3] = {b->at, -1, -1}, affine[2], id;
    bool fits = n < x.rank;

    shape_format(&x, have, sizeof(have));
    if (x.layout == TENSOR_NHWC)
        return refuse(layer, err,
                      "cannot normalize images %s, which lie channels last; "
                      "use batch_norm2d, or put a \"flatten\" layer before it",
                      have);
    if (x.rank < 2)
        return refuse(layer, err,
                      "needs rows of features (samples, features) but gets "
                      "%s",
                      have);
    for (int i = 0; i < n; i++) {
        inner.dim[i] = layer->u.layer_norm.shape[i];
        fits = fits && x.dim[x.rank - n + i] == inner.dim[i];
    }
    if (!fits)
        return refuse(layer, err,
                      "normalized_shape %s is not how its input %s ends",
                      shape_format(&inner, want, sizeof(want)), have);
    if (n == 0)
        inner = tensor_make(DTYPE_F32, 1, &x.dim[x.rank - 1]);
    id = add_affine(b, layer, layer->u.layer_norm.affine, &inner, affine, err);
    if (id != 0)
        return id;
    in[1] = affine[0];
    in[2] = affine[1];
    id = add_node(b, layer,
                  &(struct graph_node_args){
                      .op = OP_LAYER_NORM, .params = &params, .in = in},
                  err);
    return id < 0 ? id : 0;
}

/* ---- activations, pooling, shape ----------------------------------------- */

static int
build_activation(struct build *b, const struct spec_layer *layer,
                 struct err *err)
{
    static const enum op ops[SPEC_LAYER_COUNT] = {
        [SPEC_LAYER_RELU] = OP_RELU, [SPEC_LAYER_GELU] = OP_GELU,
        [SPEC_LAYER_TANH] = OP_TANH, [SPEC_LAYER_SIGMOID] = OP_SIGMOID,
        [SPEC_LAYER_SILU] = OP_SILU,
    };
    union op_params params = {.gelu = {false}};

    if (layer->kind == SPEC_LAYER_GELU)
        params.gelu.tanh = layer->u.gelu.approximate == SPEC_GELU_TANH;
    return add_unary(b, layer, ops[layer->kind], &params, NULL, err);
}

static int
build_pool2d(struct build *b, const struct spec_layer *layer, struct err *err)
{
    const bool max = layer->kind == SPEC_LAYER_MAX_POOL2D;
    union op_params params = {
        .pool = {.count_include_pad =
                     !max && layer->u.pool2d.count_include_pad}};

    if (need_image(b, layer, err) != 0)
        return ERR_SPEC;
    for (int i = 0; i < 2; i++) {
        params.pool.kernel[i] = layer->u.pool2d.kernel_size[i];
        params.pool.stride[i] = layer->u.pool2d.stride[i];
        params.pool.padding[i] = layer->u.pool2d.padding[i];
    }
    return add_unary(b, layer, max ? OP_MAX_POOL2D : OP_AVG_POOL2D, &params,
                     NULL, err);
}

static int
build_adaptive(struct build *b, const struct spec_layer *layer, struct err *err)
{
    struct tensor_desc like;

    if (need_image(b, layer, err) != 0)
        return ERR_SPEC;
    like = current(b);
    like.dim[2] = layer->u.adaptive.output_size[0];
    like.dim[3] = layer->u.adaptive.output_size[1];
    return add_unary(b, layer, OP_ADAPTIVE_AVG_POOL2D, NULL, &like, err);
}

/* Every dropout has its own random numbers, also when others are taken out. */
static int
build_dropout(struct build *b, const struct spec_layer *layer, struct err *err)
{
    const union op_params params = {
        .dropout = {.p = layer->u.dropout.p, .stream = b->n_dropout++}};

    if (b->mode == BUILD_EVAL || layer->u.dropout.p == 0)
        return 0;
    return add_unary(b, layer, OP_DROPOUT, &params, NULL, err);
}

static int
build_flatten(struct build *b, const struct spec_layer *layer, struct err *err)
{
    const struct tensor_desc x = current(b);

    if (x.rank <= 2)
        return 0; /* rows already */
    return add_unary(b, layer, OP_FLATTEN, NULL, NULL, err);
}

static int
build_residual(struct build *b, const struct spec_layer *layer, struct err *err)
{
    const int x = b->at;
    const struct tensor_desc before = current(b);
    struct tensor_desc after;
    char want[SHAPE_TEXT_MAX], have[SHAPE_TEXT_MAX];
    int rc;

    rc = build_layers_append(b, layer->body, layer->n_body, err);
    if (rc != 0)
        return rc;
    after = current(b);
    if (!tensor_same_shape(&before, &after) || before.layout != after.layout)
        return refuse(layer, err,
                      "its input is %s but its layers end in %s; the sum "
                      "needs one shape",
                      shape_format(&before, want, sizeof(want)),
                      shape_format(&after, have, sizeof(have)));
    rc = add_node(
        b, layer,
        &(struct graph_node_args){.op = OP_ADD, .in = (int[]){b->at, x}}, err);
    return rc < 0 ? rc : 0;
}

/* ---- the table ----------------------------------------------------------- */

typedef int layer_fn(struct build *b, const struct spec_layer *layer,
                     struct err *err);

static layer_fn *const builders[SPEC_LAYER_COUNT] = {
    [SPEC_LAYER_LINEAR] = build_linear,
    [SPEC_LAYER_CONV2D] = build_conv2d,
    [SPEC_LAYER_BATCH_NORM1D] = build_batch_norm,
    [SPEC_LAYER_BATCH_NORM2D] = build_batch_norm,
    [SPEC_LAYER_LAYER_NORM] = build_layer_norm,
    [SPEC_LAYER_RELU] = build_activation,
    [SPEC_LAYER_GELU] = build_activation,
    [SPEC_LAYER_TANH] = build_activation,
    [SPEC_LAYER_SIGMOID] = build_activation,
    [SPEC_LAYER_SILU] = build_activation,
    [SPEC_LAYER_MAX_POOL2D] = build_pool2d,
    [SPEC_LAYER_AVG_POOL2D] = build_pool2d,
    [SPEC_LAYER_ADAPTIVE_AVG_POOL2D] = build_adaptive,
    [SPEC_LAYER_DROPOUT] = build_dropout,
    [SPEC_LAYER_FLATTEN] = build_flatten,
    [SPEC_LAYER_RESIDUAL] = build_residual,
};

int
build_layers_append(struct build *b, const struct spec_layer *layers, int n,
                    struct err *err)
{
    for (int i = 0; i < n; i++) {
        int rc;

        if (builders[layers[i].kind] == NULL)
            return refuse(&layers[i], err, "there is no such layer here");
        rc = builders[layers[i].kind](b, &layers[i], err);
        if (rc != 0)
            return rc;
    }
    return 0;
}
