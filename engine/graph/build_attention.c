/* SPDX-License-Identifier: Apache-2.0 */
/* Builders of attention, alone and with its projections. */
#include "engine/graph/build_private.h"

#include <inttypes.h>
#include <math.h>

#include "engine/graph/shape.h"

/* What the attention node reads. */
struct heads {
    int q, k, v, mask; /* value ids; k and v -1: q holds all three */
    int64_t features;  /* of q alone */
};

/* A mask of one truth a key, [B,S], or one for each query too. */
static int
mask_input(struct build *b, const struct spec_layer *layer, struct heads *h,
           struct err *err)
{
    const int64_t n_keys =
        graph_value_at(b->graph, h->k >= 0 ? h->k : h->q)->desc.dim[1];
    char text[SHAPE_TEXT_MAX];
    struct tensor_desc m;
    int id;

    h->mask = -1;
    if (!layer->u.attention.has_mask)
        return 0;
    if (build_want_row(b, layer, b->n_in - 1, err) != 0)
        return err->code;
    h->mask = b->in[b->n_in - 1];
    m = build_desc(b, b->n_in - 1);
    if (m.rank < 2 || m.rank > 3 || m.dim[m.rank - 1] != n_keys)
        return build_refuse(layer, err,
                            "its mask %s is neither (samples, keys) nor "
                            "(samples, queries, keys) of %" PRId64 " keys",
                            shape_format(&m, text, sizeof(text)), n_keys);
    if (m.rank != 2)
        return 0;
    /* [B,1,S]: for every query. As [B,S] it could pass for [T,S]. */
    m = tensor_make(DTYPE_BOOL, 3, (int64_t[]){m.dim[0], 1, m.dim[1]});
    id = build_add_node(
        b, layer,
        &(struct graph_node_args){
            .op = OP_RESHAPE, .in = &h->mask, .out_name = "mask", .like = &m},
        err);
    if (id < 0)
        return id;
    h->mask = b->at;
    return 0;
}

/* Sequences (samples, length, features): of n inputs, all alike. */
static int
want_sequences(struct build *b, const struct spec_layer *layer, int n,
               struct err *err)
{
    const struct tensor_desc x = build_desc(b, 0);
    char text[SHAPE_TEXT_MAX], other[SHAPE_TEXT_MAX];

    for (int i = 0; i < n; i++) {
        const struct tensor_desc y = build_desc(b, i);

        if (y.rank != 3)
            return build_refuse(layer, err,
                                "needs sequences (samples, length, features) "
                                "but gets %s",
                                shape_format(&y, text, sizeof(text)));
        if (y.dim[2] != x.dim[2])
            return build_refuse(layer, err,
                                "its inputs %s and %s must have equally many "
                                "features",
                                shape_format(&x, text, sizeof(text)),
                                shape_format(&y, other, sizeof(other)));
        if (build_want_row(b, layer, i, err) != 0)
            return err->code;
    }
    return 0;
}

/* Its random stream is its own, also when dropout is off. */
static int
add_attention(struct build *b, const struct spec_layer *layer,
              const struct heads *h, const char *tail, struct err *err)
{
    const int64_t heads = layer->u.attention.num_heads;
    const int64_t size = heads > 0 ? h->features / heads : 0;
    const double scale = layer->u.attention.scale;
    const union op_params params = {
        .attention = {.n_heads = heads,
                      .causal = layer->u.attention.is_causal,
                      .scale = scale != 0 ? scale : 1 / sqrt((double)size),
                      .p = b->mode == BUILD_EVAL ? 0
                                                 : layer->u.attention.dropout,
                      .stream = b->n_dropout++}};
    const int64_t n_queries = graph_value_at(b->graph, h->q)->desc.dim[1];
    const int in[4] = {h->q, h->k, h->v, h->mask};

    if (heads < 1 || size < 1 || h->features % heads != 0)
        return build_refuse(layer, err,
                            "num_heads %" PRId64 " does not divide %" PRId64
                            " features",
                            heads, h->features);
    if (h->k >= 0 && params.attention.causal &&
        graph_value_at(b->graph, h->k)->desc.dim[1] != n_queries)
        return build_refuse(layer, err,
                            "is_causal needs as many keys as queries");
    return build_add_node(
        b, layer,
        &(struct graph_node_args){
            .op = OP_ATTENTION, .params = &params, .in = in, .out_name = tail},
        err);
}

int
build_attention(struct build *b, const struct spec_layer *layer,
                struct err *err)
{
    const int n = b->n_in - (layer->u.attention.has_mask ? 1 : 0);
    struct heads h = {.k = -1, .v = -1};
    char text[SHAPE_TEXT_MAX];
    struct tensor_desc x;
    int id;

    if (n != 1 && n != 3)
        return build_refuse(layer, err, "reads x, or q, k and v");
    if (want_sequences(b, layer, n, err) != 0)
        return err->code;
    x = build_desc(b, 0);
    h.features = n == 1 ? x.dim[2] / 3 : x.dim[2];
    if (n == 1 && x.dim[2] % 3 != 0)
        return build_refuse(layer, err,
                            "needs queries, keys and values side by side, but "
                            "its input %s cannot be cut into three",
                            shape_format(&x, text, sizeof(text)));
    h.q = b->in[0];
    if (n == 3) {
        h.k = b->in[1];
        h.v = b->in[2];
    }
    id = mask_input(b, layer, &h, err);
    if (id == 0)
        id = add_attention(b, layer, &h, NULL, err);
    return id < 0 ? id : 0;
}

/* ---- with projections ---------------------------------------------------- */

struct projections {
    int in_w, in_b, out_w, out_b; /* value ids, -1 without biases */
};

/* nn.MultiheadAttention's: xavier_uniform over [3C,C], the linear default for
 * the way out, zero biases. */
static int
add_projections(struct build *b, const struct spec_layer *layer, int64_t c,
                struct projections *p, struct err *err)
{
    const struct tensor_desc c3c =
        tensor_make(DTYPE_F32, 2, (int64_t[]){3 * c, c});
    const struct tensor_desc c3 = tensor_make(DTYPE_F32, 1, &c3c.dim[0]);
    const struct tensor_desc cc = tensor_make(DTYPE_F32, 2, (int64_t[]){c, c});
    const struct build_param in_w = {.what = "in_proj_weight",
                                     .desc = c3c,
                                     .init = GRAPH_INIT_UNIFORM,
                                     .bound = sqrt(6 / (4.0 * (double)c)),
                                     .autocast = true};
    const struct build_param in_b = {.what = "in_proj_bias",
                                     .desc = c3,
                                     .init = GRAPH_INIT_ZERO,
                                     .autocast = true,
                                     .is_bias = true};
    const struct build_param out_w = {.what = "out_proj.weight",
                                      .desc = cc,
                                      .init = GRAPH_INIT_UNIFORM,
                                      .fan_in = c,
                                      .autocast = true};
    const struct build_param out_b = {.what = "out_proj.bias",
                                      .desc = tensor_make(DTYPE_F32, 1, &c),
                                      .init = GRAPH_INIT_ZERO,
                                      .autocast = true,
                                      .is_bias = true};

    *p = (struct projections){-1, -1, -1, -1};
    p->in_w = build_add_param(b, layer, &in_w, err);
    if (p->in_w < 0)
        return p->in_w;
    if (layer->u.attention.bias) {
        p->in_b = build_add_param(b, layer, &in_b, err);
        if (p->in_b < 0)
            return p->in_b;
    }
    p->out_w = build_add_param(b, layer, &out_w, err);
    if (p->out_w < 0)
        return p->out_w;
    if (layer->u.attention.bias) {
        p->out_b = build_add_param(b, layer, &out_b, err);
        if (p->out_b < 0)
            return p->out_b;
    }
    return 0;
}

static int
add_linear(struct build *b, const struct spec_layer *layer, int x, int w,
           int bias, const char *tail, struct err *err)
{
    const int in[3] = {x, w, bias};

    return build_add_node(
        b, layer,
        &(struct graph_node_args){.op = OP_LINEAR, .in = in, .out_name = tail},
        err);
}

/* Rows part * c .. + c of a parameter of 3 c rows. */
static int
add_part(struct build *b, const struct spec_layer *layer, int param, int part,
         int64_t c, const char *tail, struct err *err)
{
    const union op_params params = {
        .axis = {.axis = 0, .start = part * c, .length = c}};

    return build_add_node(
        b, layer,
        &(struct graph_node_args){
            .op = OP_NARROW, .params = &params, .in = &param, .out_name = tail},
        err);
}

/* Input i through its third of the projection; the value's id. */
static int
project(struct build *b, const struct spec_layer *layer,
        const struct projections *p, int i, int64_t c, struct err *err)
{
    static const char *const tails[3][3] = {{"q_weight", "q_bias", "q"},
                                            {"k_weight", "k_bias", "k"},
                                            {"v_weight", "v_bias", "v"}};
    int w, bias = -1, id = add_part(b, layer, p->in_w, i, c, tails[i][0], err);

    if (id < 0)
        return id;
    w = b->at;
    if (p->in_b >= 0) {
        id = add_part(b, layer, p->in_b, i, c, tails[i][1], err);
        if (id < 0)
            return id;
        bias = b->at;
    }
    id = add_linear(b, layer, b->in[i], w, bias, tails[i][2], err);
    return id < 0 ? id : b->at;
}

/* Self attention projects all three with one product. */
static int
project_all(struct build *b, const struct spec_layer *layer,
            const struct projections *p, int n, struct heads *h,
            struct err *err)
{
    int id;

    if (n == 1 || (b->in[0] == b->in[1] && b->in[0] == b->in[2])) {
        h->k = h->v = -1;
        id = add_linear(b, layer, b->in[0], p->in_w, p->in_b, "qkv", err);
        h->q = b->at;
        return id < 0 ? id : 0;
    }
    h->q = project(b, layer, p, 0, h->features, err);
    if (h->q < 0)
        return h->q;
    h->k = project(b, layer, p, 1, h->features, err);
    if (h->k < 0)
        return h->k;
    h->v = project(b, layer, p, 2, h->features, err);
    return h->v < 0 ? h->v : 0;
}

int
build_multihead(struct build *b, const struct spec_layer *layer,
                struct err *err)
{
    const int n = b->n_in - (layer->u.attention.has_mask ? 1 : 0);
    struct heads h = {.k = -1, .v = -1};
    struct projections p;
    int id;

    if (n != 1 && n != 3)
        return build_refuse(layer, err, "reads x, or q, k and v");
    id = want_sequences(b, layer, n, err);
    if (id != 0)
        return id;
    h.features = build_desc(b, 0).dim[2];
    id = add_projections(b, layer, h.features, &p, err);
    if (id == 0)
        id = project_all(b, layer, &p, n, &h, err);
    if (id == 0)
        id = mask_input(b, layer, &h, err);
    if (id == 0)
        id = add_attention(b, layer, &h, "heads", err);
    if (id >= 0)
        id = add_linear(b, layer, b->at, p.out_w, p.out_b, NULL, err);
    return id < 0 ? id : 0;
}
