/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the builders: sentences, parameters, nodes, layouts. */
#include "engine/graph/build_private.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/graph/shape.h"

int
build_refuse(const struct spec_layer *layer, struct err *err, const char *fmt,
             ...)
{
    char sentence[ERR_SENTENCE_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, ap);
    va_end(ap);
    return err_set(err, ERR_SPEC, "%s (%s): %s", layer->path,
                   spec_layer_name(layer->kind), sentence);
}

int
build_no_memory(struct err *err)
{
    return err_set(err, ERR_NOMEM, "no memory for the graph");
}

struct tensor_desc
build_desc(const struct build *b, int i)
{
    assert(i >= 0 && i < b->n_in);
    return graph_value_at(b->graph, b->in[i])->desc;
}

/* ---- parameters ---------------------------------------------------------- */

/* How it starts, unless it is PyTorch's way: what the spec says. */
static void
choose_init(const struct spec_layer *layer, const struct build_param *args,
            struct graph_param *param)
{
    const struct spec_init *init =
        args->is_bias ? &layer->bias_init : &layer->weight_init;

    param->init = args->init;
    param->bound = args->bound;
    if (args->init == GRAPH_INIT_UNIFORM && args->fan_in > 0)
        param->bound = 1.0 / sqrt((double)args->fan_in);
    switch (init->kind) {
    case SPEC_INIT_DEFAULT: return;
    case SPEC_INIT_ZEROS: param->init = GRAPH_INIT_ZERO; break;
    case SPEC_INIT_ONES: param->init = GRAPH_INIT_ONE; break;
    case SPEC_INIT_NORMAL: param->init = GRAPH_INIT_NORMAL; break;
    case SPEC_INIT_UNIFORM: param->init = GRAPH_INIT_UNIFORM; break;
    }
    param->bound = init->value;
}

int
build_add_param(struct build *b, const struct spec_layer *layer,
                const struct build_param *args, struct err *err)
{
    struct graph_param param = {.desc = args->desc,
                                .autocast = args->autocast,
                                .has_zero_row = args->has_zero_row,
                                .zero_row = args->zero_row};
    char *name = NULL;
    int v;

    if (!shape_fits(&args->desc))
        return build_refuse(layer, err, "its %s has more than 2^40 elements",
                            args->what);
    choose_init(layer, args, &param);
    if (asprintf(&name, "%s.%s", layer->path, args->what) < 0)
        return build_no_memory(err);
    param.name = name;
    v = graph_add_param(b->graph, &param);
    free(name);
    return v < 0 ? build_no_memory(err) : v;
}

int
build_find_weight(struct build *b, const struct spec_layer *layer,
                  const struct tensor_desc *desc, struct err *err)
{
    const char *from = layer->weight_from;
    const size_t n = strlen(from);
    char have[SHAPE_TEXT_MAX], want[SHAPE_TEXT_MAX];

    for (int i = 0; i < graph_n_params(b->graph); i++) {
        const struct graph_param *p = graph_param_at(b->graph, i);

        if (strncmp(p->name, from, n) != 0 ||
            strcmp(p->name + n, ".weight") != 0)
            continue;
        if (tensor_same_shape(&p->desc, desc))
            return graph_param_value(b->graph, i);
        return build_refuse(layer, err,
                            "needs a weight %s but that of %s is %s",
                            shape_format(desc, want, sizeof(want)), from,
                            shape_format(&p->desc, have, sizeof(have)));
    }
    return build_refuse(layer, err,
                        "cannot share the weight of %s, which has none of its "
                        "own before this layer",
                        from);
}

int
build_add_affine(struct build *b, const struct spec_layer *layer, bool weight,
                 bool bias, const struct tensor_desc *desc, int ids[2],
                 struct err *err)
{
    const struct build_param w = {
        .what = "weight", .desc = *desc, .init = GRAPH_INIT_ONE};
    const struct build_param shift = {.what = "bias",
                                      .desc = *desc,
                                      .init = GRAPH_INIT_ZERO,
                                      .is_bias = true};

    ids[0] = ids[1] = -1;
    if (weight) {
        ids[0] = build_add_param(b, layer, &w, err);
        if (ids[0] < 0)
            return ids[0];
    }
    if (bias) {
        ids[1] = build_add_param(b, layer, &shift, err);
        if (ids[1] < 0)
            return ids[1];
    }
    return 0;
}

/* ---- nodes --------------------------------------------------------------- */

int
build_add_node(struct build *b, const struct spec_layer *layer,
               const struct graph_node_args *what, struct err *err)
{
    struct graph_node_args args = *what;
    struct graph_out out[OP_MAX_OUT] = {{GRAPH_NEW, NULL}};
    char *name = NULL;
    int id;

    if (asprintf(&name, "%s.%s", layer->path,
                 what->out_name != NULL ? what->out_name : "out") < 0)
        return build_no_memory(err);
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

int
build_add_unary(struct build *b, const struct spec_layer *layer, enum op op,
                const union op_params *params, const struct tensor_desc *like,
                struct err *err)
{
    int in[OP_MAX_IN] = {b->in[0], -1, -1, -1, -1, -1, -1, -1};
    const int id =
        build_add_node(b, layer,
                       &(struct graph_node_args){
                           .op = op, .params = params, .in = in, .like = like},
                       err);

    return id < 0 ? id : 0;
}

/* ---- layouts -------------------------------------------------------------- */

static int
find_twin(const struct build *b, int value)
{
    for (int i = 0; i < b->n_twins; i++)
        if (b->twin[i].value == value)
            return b->twin[i].other;
    return -1;
}

static int
remember_twin(struct build *b, int value, int other, struct err *err)
{
    if (b->n_twins == b->cap_twins) {
        const int cap = b->cap_twins == 0 ? 16 : 2 * b->cap_twins;
        struct build_twin *list = realloc(b->twin, (size_t)cap * sizeof(*list));

        if (list == NULL)
            return build_no_memory(err);
        b->twin = list;
        b->cap_twins = cap;
    }
    b->twin[b->n_twins++] = (struct build_twin){value, other};
    return 0;
}

int
build_relayout(struct build *b, const struct spec_layer *layer, int value,
               enum tensor_layout layout, struct err *err)
{
    struct tensor_desc like = graph_value_at(b->graph, value)->desc;
    struct graph_node_args args = {.op = OP_RELAYOUT,
                                   .in = &value,
                                   .phase = GRAPH_FORWARD,
                                   .layer = layer->path,
                                   .out_value = GRAPH_NEW,
                                   .like = &like};
    char *name = NULL;
    int id, other = find_twin(b, value);

    if (like.layout == layout)
        return value;
    if (other >= 0)
        return other;
    like.layout = layout;
    if (asprintf(&name, "%s.%s", graph_value_at(b->graph, value)->name,
                 layout == TENSOR_ROW ? "row"
                 : like.rank == 3     ? "nlc"
                                      : "nhwc") < 0)
        return build_no_memory(err);
    args.out_name = name;
    id = graph_add_node(b->graph, &args, err);
    free(name);
    if (id < 0)
        return id;
    other = graph_node_at(b->graph, id)->out[0];
    id = remember_twin(b, value, other, err);
    if (id == 0)
        id = remember_twin(b, other, value, err);
    return id < 0 ? id : other;
}

static int
want_layout(struct build *b, const struct spec_layer *layer, int i,
            enum tensor_layout layout, struct err *err)
{
    const int v = build_relayout(b, layer, b->in[i], layout, err);

    if (v < 0)
        return v;
    b->in[i] = v;
    return 0;
}

int
build_want_image(struct build *b, const struct spec_layer *layer, int i,
                 struct err *err)
{
    const struct tensor_desc x = build_desc(b, i);
    char text[SHAPE_TEXT_MAX];

    if (x.rank != 4)
        return build_refuse(layer, err,
                            "needs images (samples, channels, height, width) "
                            "but gets %s",
                            shape_format(&x, text, sizeof(text)));
    return want_layout(b, layer, i, TENSOR_NHWC, err);
}

int
build_want_signal(struct build *b, const struct spec_layer *layer, int i,
                  struct err *err)
{
    const struct tensor_desc x = build_desc(b, i);
    char text[SHAPE_TEXT_MAX];

    if (x.rank != 3)
        return build_refuse(layer, err,
                            "needs signals (samples, channels, length) but "
                            "gets %s",
                            shape_format(&x, text, sizeof(text)));
    return want_layout(b, layer, i, TENSOR_NHWC, err);
}

int
build_want_row(struct build *b, const struct spec_layer *layer, int i,
               struct err *err)
{
    return want_layout(b, layer, i, TENSOR_ROW, err);
}

int
build_want_alike(struct build *b, const struct spec_layer *layer, int first,
                 struct err *err)
{
    enum tensor_layout layout = TENSOR_ROW;
    char one[SHAPE_TEXT_MAX], other[SHAPE_TEXT_MAX];

    for (int i = first; i < b->n_in; i++) {
        const struct tensor_desc x = build_desc(b, i), y = build_desc(b, first);

        if (x.rank != y.rank)
            return build_refuse(layer, err,
                                "its inputs %s and %s have different numbers "
                                "of axes; give the smaller one axes of size 1 "
                                "with a \"reshape\" layer, or keepdim",
                                shape_format(&y, one, sizeof(one)),
                                shape_format(&x, other, sizeof(other)));
        if (x.layout == TENSOR_NHWC)
            layout = TENSOR_NHWC;
    }
    for (int i = first; i < b->n_in; i++)
        if (want_layout(b, layer, i, layout, err) != 0)
            return err->code;
    return 0;
}

int
build_resolve_axis(const struct spec_layer *layer, int64_t dim, int rank,
                   int *axis, struct err *err)
{
    const int64_t at = dim < 0 ? dim + rank : dim;

    if (at < 0 || at >= rank)
        return build_refuse(layer, err, "has no axis %" PRId64 ": there are %d",
                            dim, rank);
    if (at == 0)
        return build_refuse(layer, err,
                            "axis %" PRId64 " counts the samples, which must "
                            "not depend on each other",
                            dim);
    *axis = (int)at;
    return 0;
}
