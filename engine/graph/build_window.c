/* SPDX-License-Identifier: Apache-2.0 */
/* Builders of convolutions, pooling and upsampling. */
#include "engine/graph/build_private.h"

#include <inttypes.h>
#include <math.h>

#include "engine/graph/shape.h"

/* Weight of that shape, bias of n channels, and the node. */
static int
add_conv(struct build *b, const struct spec_layer *layer, enum op op,
         const struct tensor_desc *weight, int64_t n, struct err *err)
{
    const struct spec_layer *l = layer;
    union op_params params = {.conv = {.groups = l->u.conv2d.groups}};
    struct build_param args = {.what = "weight",
                               .desc = *weight,
                               .init = GRAPH_INIT_UNIFORM,
                               .autocast = true};
    int in[3] = {b->in[0], -1, -1}, id;

    if (!shape_fits(weight))
        return build_refuse(layer, err,
                            "its weight has more than 2^40 elements");
    /* PyTorch takes dim 1 and the window, in transposed ones too. */
    args.fan_in = tensor_n_elems(weight) / weight->dim[0];
    for (int i = 0; i < 2; i++) {
        params.conv.stride[i] = l->u.conv2d.stride[i];
        params.conv.padding[i] = l->u.conv2d.padding[i];
        params.conv.dilation[i] = l->u.conv2d.dilation[i];
        if (op == OP_CONV_TRANSPOSE2D)
            params.conv.output_padding[i] = l->u.conv2d.output_padding[i];
    }
    in[1] = build_add_param(b, layer, &args, err);
    if (in[1] < 0)
        return in[1];
    if (l->u.conv2d.bias) {
        args.what = "bias";
        args.is_bias = true;
        args.desc = tensor_make(DTYPE_F32, 1, &n);
        in[2] = build_add_param(b, layer, &args, err);
        if (in[2] < 0)
            return in[2];
    }
    id = build_add_node(
        b, layer,
        &(struct graph_node_args){.op = op, .params = &params, .in = in}, err);
    return id < 0 ? id : 0;
}

static int
check_groups(const struct spec_layer *layer, int64_t c, struct err *err)
{
    const int64_t groups = layer->u.conv2d.groups;
    const int64_t o = layer->u.conv2d.out_channels;

    if (groups >= 1 && c % groups == 0 && o % groups == 0)
        return 0;
    return build_refuse(layer, err,
                        "groups %" PRId64 " must divide its %" PRId64
                        " input channels and %" PRId64 " out_channels",
                        groups, c, o);
}

int
build_conv(struct build *b, const struct spec_layer *layer, struct err *err)
{
    const bool flat = layer->kind == SPEC_LAYER_CONV1D;
    const int64_t o = layer->u.conv2d.out_channels;
    const int64_t *kernel = layer->u.conv2d.kernel_size;
    struct tensor_desc weight;
    int64_t c;

    if ((flat ? build_want_signal : build_want_image)(b, layer, 0, err) != 0)
        return err->code;
    c = build_desc(b, 0).dim[1];
    if (check_groups(layer, c, err) != 0)
        return err->code;
    c /= layer->u.conv2d.groups;
    if (flat)
        weight = tensor_make(DTYPE_F32, 3, (int64_t[]){o, c, kernel[1]});
    else
        weight =
            tensor_make(DTYPE_F32, 4, (int64_t[]){o, c, kernel[0], kernel[1]});
    return add_conv(b, layer, flat ? OP_CONV1D : OP_CONV2D, &weight, o, err);
}

int
build_conv_transpose2d(struct build *b, const struct spec_layer *layer,
                       struct err *err)
{
    const int64_t o = layer->u.conv2d.out_channels;
    const int64_t *kernel = layer->u.conv2d.kernel_size;
    struct tensor_desc weight;
    int64_t c;

    if (build_want_image(b, layer, 0, err) != 0)
        return err->code;
    c = build_desc(b, 0).dim[1];
    if (check_groups(layer, c, err) != 0)
        return err->code;
    weight = tensor_make(
        DTYPE_F32, 4,
        (int64_t[]){c, o / layer->u.conv2d.groups, kernel[0], kernel[1]});
    return add_conv(b, layer, OP_CONV_TRANSPOSE2D, &weight, o, err);
}

int
build_pool2d(struct build *b, const struct spec_layer *layer, struct err *err)
{
    const bool max = layer->kind == SPEC_LAYER_MAX_POOL2D;
    union op_params params = {
        .pool = {.count_include_pad =
                     !max && layer->u.pool2d.count_include_pad}};

    if (build_want_image(b, layer, 0, err) != 0)
        return err->code;
    for (int i = 0; i < 2; i++) {
        params.pool.kernel[i] = layer->u.pool2d.kernel_size[i];
        params.pool.stride[i] = layer->u.pool2d.stride[i];
        params.pool.padding[i] = layer->u.pool2d.padding[i];
    }
    return build_add_unary(b, layer, max ? OP_MAX_POOL2D : OP_AVG_POOL2D,
                           &params, NULL, err);
}

int
build_adaptive(struct build *b, const struct spec_layer *layer, struct err *err)
{
    struct tensor_desc like;

    if (build_want_image(b, layer, 0, err) != 0)
        return err->code;
    like = build_desc(b, 0);
    like.dim[2] = layer->u.adaptive.output_size[0];
    like.dim[3] = layer->u.adaptive.output_size[1];
    return build_add_unary(b, layer, OP_ADAPTIVE_AVG_POOL2D, NULL, &like, err);
}

/* A factor that does not lead to a whole number of pixels would mean another
 * grid in PyTorch than the sizes alone do. */
int
build_upsample(struct build *b, const struct spec_layer *layer, struct err *err)
{
    const bool bilinear = layer->u.upsample.mode == SPEC_UPSAMPLE_BILINEAR;
    const union op_params params = {
        .upsample = {.mode =
                         bilinear ? OP_UPSAMPLE_BILINEAR : OP_UPSAMPLE_NEAREST,
                     .align_corners = layer->u.upsample.align_corners}};
    struct tensor_desc like;

    if (build_want_image(b, layer, 0, err) != 0)
        return err->code;
    like = build_desc(b, 0);
    for (int i = 0; i < 2; i++) {
        const double factor = layer->u.upsample.scale_factor[i];
        const double size = (double)like.dim[2 + i] * factor;

        if (layer->u.upsample.size[i] > 0) {
            like.dim[2 + i] = layer->u.upsample.size[i];
            continue;
        }
        if (!(size >= 1) || size > 0x1p40 || size != floor(size))
            return build_refuse(layer, err,
                                "scale_factor %g makes %g of %" PRId64
                                " pixels; give a size",
                                factor, size, like.dim[2 + i]);
        like.dim[2 + i] = (int64_t)size;
    }
    return build_add_unary(b, layer, OP_UPSAMPLE, &params, &like, err);
}
