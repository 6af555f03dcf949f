/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build_private: what the files of build share: a graph under construction.
 *
 * Private to engine/graph/build*.c. Before a layer's builder runs, `in` holds
 * the values that it reads; it leaves what it made in `at`. Builders of a
 * family stand in one file; build_layers.c holds their table, build_node.c the
 * helpers below. Sentences begin "PATH (KIND): "; build.c puts "model" or
 * "loss" before them.
 */
#ifndef ENGINE_GRAPH_BUILD_PRIVATE_H
#define ENGINE_GRAPH_BUILD_PRIVATE_H

#include "engine/graph/build.h"

/* What a layer made, for those that name it. */
struct build_place {
    const char *path; /* borrowed from the spec; "input": the data */
    int value;
};

/* One value in both layouts. */
struct build_twin {
    int value, other;
};

struct build {
    const struct spec *spec;       /* borrowed */
    const struct build_data *data; /* borrowed */
    enum build_mode mode;
    int64_t batch_size;
    struct graph *graph; /* borrowed from build_graph() */
    int in[SPEC_MAX_INPUTS], n_in;
    int at;
    uint32_t n_dropout;        /* layers so far: the next one's random stream */
    struct build_place *place; /* owned, as the list after it */
    struct build_twin *twin;
    int n_places, n_twins, cap_places, cap_twins;
};

typedef int build_layer_fn(struct build *b, const struct spec_layer *layer,
                           struct err *err);

/* ---- helpers: build_node.c ------------------------------------------------ */

/* "2 (linear): sentence"; ERR_SPEC. */
int build_refuse(const struct spec_layer *layer, struct err *err,
                 const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int build_no_memory(struct err *err);

/* Of input i. */
struct tensor_desc build_desc(const struct build *b, int i);

/* Uniform parameters get U(-bound, bound), or from fan_in U(-1/sqrt(fan_in),
 * 1/sqrt(fan_in)), which is what PyTorch's kaiming_uniform with a = sqrt(5)
 * comes to. The layer's weight_init (or bias_init) says otherwise. */
struct build_param {
    const char *what; /* "weight" */
    struct tensor_desc desc;
    enum graph_init init;
    int64_t fan_in; /* for GRAPH_INIT_UNIFORM; 0: bound */
    double bound;
    bool autocast, is_bias, has_zero_row;
    int64_t zero_row;
};

/* PATH.what; its value id, or an error. */
int build_add_param(struct build *b, const struct spec_layer *layer,
                    const struct build_param *args, struct err *err);
/* Value id of the weight that the layer shares (weight_from), which must have
 * that shape; 0 parameters are made. */
int build_find_weight(struct build *b, const struct spec_layer *layer,
                      const struct tensor_desc *desc, struct err *err);
/* Weight and bias of a norm: value ids in ids[0], ids[1]; -1 where the norm
 * has none. */
int build_add_affine(struct build *b, const struct spec_layer *layer,
                     bool weight, bool bias, const struct tensor_desc *desc,
                     int ids[2], struct err *err);

/* A node "PATH.out", or "PATH.TAIL" with tail in what->out_name; what it makes
 * is `at` afterwards. Outputs that only a backward pass would read are left
 * out of an evaluation graph. Returns the node's id, or an error. */
int build_add_node(struct build *b, const struct spec_layer *layer,
                   const struct graph_node_args *what, struct err *err);
/* A node that reads input 0 alone; 0 or an error. */
int build_add_unary(struct build *b, const struct spec_layer *layer, enum op op,
                    const union op_params *params,
                    const struct tensor_desc *like, struct err *err);

/* The value in that layout: itself, or a relayout of it; an id or an error. */
int build_relayout(struct build *b, const struct spec_layer *layer, int value,
                   enum tensor_layout layout, struct err *err);
/* Input i becomes images, signals, or row-major, or is refused. */
int build_want_image(struct build *b, const struct spec_layer *layer, int i,
                     struct err *err);
int build_want_signal(struct build *b, const struct spec_layer *layer, int i,
                      struct err *err);
int build_want_row(struct build *b, const struct spec_layer *layer, int i,
                   struct err *err);
/* Inputs first .. n_in - 1 lie alike and have as many axes. */
int build_want_alike(struct build *b, const struct spec_layer *layer, int first,
                     struct err *err);

/* An axis of `rank` ones, negative ones from the end; never that of samples,
 * which may not be mixed. */
int build_resolve_axis(const struct spec_layer *layer, int64_t dim, int rank,
                       int *axis, struct err *err);

/* ---- the parts ------------------------------------------------------------ */

/* Appends layers in order, from `at`. */
int build_layers_append(struct build *b, const struct spec_layer *layers, int n,
                        struct err *err);
/* Remembers what a layer made. */
int build_layers_remember(struct build *b, const char *path, int value,
                          struct err *err);
/* Appends target, loss and what follows it, and sets the roles. */
int build_loss_append(struct build *b, struct err *err);
/* Afterwards, in training too, so that no run ends at its first evaluation. */
int build_loss_check_metrics(const struct build *b, struct err *err);

/* build_product.c */
build_layer_fn build_linear, build_matmul, build_embedding, build_positional;
/* build_attention.c */
build_layer_fn build_multihead, build_attention;
/* build_window.c */
build_layer_fn build_conv, build_conv_transpose2d, build_pool2d, build_adaptive,
    build_upsample;
/* build_norm.c */
build_layer_fn build_batch_norm, build_layer_norm, build_group_norm;
/* build_element.c */
build_layer_fn build_function, build_prelu, build_dropout, build_binary,
    build_compare, build_where;
/* build_axis.c */
build_layer_fn build_softmax, build_reduce, build_cosine;
/* build_move.c */
build_layer_fn build_flatten, build_unflatten, build_reshape, build_transpose,
    build_narrow, build_cat;

#endif
