/* SPDX-License-Identifier: Apache-2.0 */
/* Builders of norms. */
#include "engine/graph/build_private.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/graph/shape.h"

/* ---- batch norm ----------------------------------------------------------- */

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
        return build_no_memory(err);
    buffer.name = name;
    v = graph_add_buffer(b->graph, &buffer);
    free(name);
    return v < 0 ? build_no_memory(err) : v;
}

/* What x must be for batch_norm1d or batch_norm2d. */
static int
want_channels(struct build *b, const struct spec_layer *layer, struct err *err)
{
    const struct tensor_desc x = build_desc(b, 0);
    char text[SHAPE_TEXT_MAX];

    if (layer->kind == SPEC_LAYER_BATCH_NORM2D)
        return build_want_image(b, layer, 0, err);
    if (x.rank == 2)
        return 0;
    if (x.rank == 3)
        return build_want_signal(b, layer, 0, err);
    return build_refuse(layer, err,
                        "needs rows (samples, channels) or signals (samples, "
                        "channels, length) but gets %s%s",
                        shape_format(&x, text, sizeof(text)),
                        x.rank == 4 ? "; use batch_norm2d" : "");
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

/* Buffers and node of a batch norm that reads `in` so far: x, w, b. */
static int
add_batch_norm(struct build *b, const struct spec_layer *layer,
               const union op_params *params, int in[5], struct err *err)
{
    const bool train = b->mode == BUILD_TRAIN;
    const int64_t c = build_desc(b, 0).dim[1];
    int mean, var, id;

    mean = add_buffer(b, layer, "running_mean", c, GRAPH_INIT_ZERO, err);
    if (mean < 0)
        return mean;
    var = add_buffer(b, layer, "running_var", c, GRAPH_INIT_ONE, err);
    if (var < 0)
        return var;
    in[3] = mean; /* read by the op of evaluation only */
    in[4] = var;
    id = build_add_node(b, layer,
                        &(struct graph_node_args){
                            .op = train ? OP_BATCH_NORM : OP_BATCH_NORM_EVAL,
                            .params = params,
                            .in = in},
                        err);
    if (id < 0 || !train)
        return id < 0 ? id : 0;
    return add_stats_track(b, layer, params,
                           (int[]){mean, var,
                                   graph_node_at(b->graph, id)->out[1],
                                   graph_node_at(b->graph, id)->out[2]},
                           err);
}

int
build_batch_norm(struct build *b, const struct spec_layer *layer,
                 struct err *err)
{
    const bool affine = layer->u.batch_norm.affine;
    union op_params params = {
        .batch_norm = {.eps = layer->u.batch_norm.eps,
                       .momentum = layer->u.batch_norm.momentum}};
    struct tensor_desc x, channels;
    int in[5] = {-1, -1, -1, -1, -1}, rc;

    if (want_channels(b, layer, err) != 0)
        return err->code;
    x = build_desc(b, 0);
    params.batch_norm.n = tensor_n_elems(&x) / x.dim[1];
    if (b->mode == BUILD_TRAIN && params.batch_norm.n < 2)
        return build_refuse(layer, err,
                            "needs more than one value a channel in training, "
                            "and a batch of %" PRId64 " gives one",
                            b->batch_size);
    channels = tensor_make(DTYPE_F32, 1, &x.dim[1]);
    rc = build_add_affine(b, layer, affine, affine, &channels, &in[1], err);
    in[0] = b->in[0];
    return rc != 0 ? rc : add_batch_norm(b, layer, &params, in, err);
}

/* ---- over trailing dims, or groups of channels ---------------------------- */

/* The trailing shape that is normalized, which x must end in. */
static int
find_inner(const struct spec_layer *layer, const struct tensor_desc *x,
           struct tensor_desc *inner, struct err *err)
{
    const int n = layer->u.layer_norm.n_shape;
    char have[SHAPE_TEXT_MAX], want[SHAPE_TEXT_MAX];
    bool fits = n < x->rank;

    shape_format(x, have, sizeof(have));
    if (x->rank < 2)
        return build_refuse(layer, err,
                            "needs rows of features (samples, features) but "
                            "gets %s",
                            have);
    *inner = (struct tensor_desc){.dtype = DTYPE_F32, .rank = n};
    for (int i = 0; i < n; i++) {
        inner->dim[i] = layer->u.layer_norm.shape[i];
        fits = fits && x->dim[x->rank - n + i] == inner->dim[i];
    }
    if (!fits)
        return build_refuse(layer, err,
                            "normalized_shape %s is not how its input %s ends",
                            shape_format(inner, want, sizeof(want)), have);
    if (n == 0)
        *inner = tensor_make(DTYPE_F32, 1, &x->dim[x->rank - 1]);
    return 0;
}

/* layer_norm and rms_norm, whose eps of 0 is float32's. */
int
build_layer_norm(struct build *b, const struct spec_layer *layer,
                 struct err *err)
{
    const bool rms = layer->kind == SPEC_LAYER_RMS_NORM;
    const bool affine = layer->u.layer_norm.affine;
    const struct tensor_desc x = build_desc(b, 0);
    union op_params params = {.layer_norm = {.eps = layer->u.layer_norm.eps}};
    struct tensor_desc inner;
    int in[3] = {-1, -1, -1}, id;

    if (find_inner(layer, &x, &inner, err) != 0 ||
        build_want_row(b, layer, 0, err) != 0)
        return err->code;
    params.layer_norm.n_dims = inner.rank;
    if (rms && params.layer_norm.eps == 0)
        params.layer_norm.eps = (double)FLT_EPSILON;
    id = build_add_affine(b, layer, affine,
                          affine && !rms && layer->u.layer_norm.bias, &inner,
                          &in[1], err);
    if (id != 0)
        return id;
    in[0] = b->in[0];
    id = build_add_node(
        b, layer,
        &(struct graph_node_args){.op = rms ? OP_RMS_NORM : OP_LAYER_NORM,
                                  .params = &params,
                                  .in = in},
        err);
    return id < 0 ? id : 0;
}

int
build_group_norm(struct build *b, const struct spec_layer *layer,
                 struct err *err)
{
    const bool affine = layer->u.group_norm.affine;
    const int64_t groups = layer->u.group_norm.num_groups;
    const struct tensor_desc x = build_desc(b, 0);
    const union op_params params = {
        .group_norm = {.eps = layer->u.group_norm.eps, .n_groups = groups}};
    struct tensor_desc channels;
    char text[SHAPE_TEXT_MAX];
    int in[3] = {-1, -1, -1}, id = 0;

    if (x.rank < 2 || x.rank > 4)
        return build_refuse(layer, err,
                            "needs rows, signals or images (samples, channels, "
                            "..) but gets %s",
                            shape_format(&x, text, sizeof(text)));
    if (groups < 1 || x.dim[1] % groups != 0)
        return build_refuse(layer, err,
                            "num_groups %" PRId64 " does not divide %" PRId64
                            " channels",
                            groups, x.dim[1]);
    if (x.rank == 3)
        id = build_want_signal(b, layer, 0, err);
    else if (x.rank == 4)
        id = build_want_image(b, layer, 0, err);
    channels = tensor_make(DTYPE_F32, 1, &x.dim[1]);
    if (id == 0)
        id = build_add_affine(b, layer, affine, affine, &channels, &in[1], err);
    if (id != 0)
        return id;
    in[0] = b->in[0];
    id = build_add_node(b, layer,
                        &(struct graph_node_args){
                            .op = OP_GROUP_NORM, .params = &params, .in = in},
                        err);
    return id < 0 ? id : 0;
}
