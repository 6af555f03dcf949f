/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shape_private: the rules of shape.c's table, by family of ops.
 *
 * Private to engine/graph/shape*.c. A rule checks that the inputs fit the op
 * and says shape and layout of every output; the dtype of output 0 is the
 * table's. Wrong shapes return ERR_SPEC with a sentence; an absent outside
 * thing that a pass must give (`like`) is an assertion.
 */
#ifndef ENGINE_GRAPH_SHAPE_PRIVATE_H
#define ENGINE_GRAPH_SHAPE_PRIVATE_H

#include "engine/graph/shape.h"

typedef int shape_rule_fn(const struct shape_query *q, struct tensor_desc *out,
                          struct err *err);

/* ---- shared, in shape.c -------------------------------------------------- */

/* "x [4,3] and w [5,6] do not fit together". */
int shape_misfit(const struct shape_query *q, int a, int b, struct err *err);
/* Input i is images (N, C, H, W), or images or signals (N, C, L), that lie
 * channels last. */
int shape_need_image(const struct shape_query *q, int i, struct err *err);
int shape_need_signal(const struct shape_query *q, int i, struct err *err);
/* Input i is absent or a vector of n elements. */
int shape_need_vector(const struct shape_query *q, int i, int64_t n,
                      struct err *err);
/* One shape and layout. */
int shape_need_same(const struct shape_query *q, int a, int b, struct err *err);

/* ---- elements ------------------------------------------------------------ */
shape_rule_fn shape_infer_same;        /* as input 0 */
shape_rule_fn shape_infer_binary;      /* two inputs of one shape */
shape_rule_fn shape_infer_broadcast;   /* a, b? */
shape_rule_fn shape_infer_compare;     /* a, b? */
shape_rule_fn shape_infer_where;       /* cond, a?, b? */
shape_rule_fn shape_infer_spread_back; /* dy, ..: the operand that is told */
shape_rule_fn shape_infer_scalar;      /* two scalars */
shape_rule_fn shape_infer_stats_track;
shape_rule_fn shape_infer_prelu;
shape_rule_fn shape_infer_prelu_dx;
shape_rule_fn shape_infer_prelu_dw;

/* ---- products ------------------------------------------------------------ */
shape_rule_fn shape_infer_linear;
shape_rule_fn shape_infer_linear_dx;
shape_rule_fn shape_infer_linear_dw;
shape_rule_fn shape_infer_bias_grad;
shape_rule_fn shape_infer_matmul;
shape_rule_fn shape_infer_matmul_da;
shape_rule_fn shape_infer_matmul_db;
shape_rule_fn shape_infer_attention;
shape_rule_fn shape_infer_attention_bwd;
shape_rule_fn shape_infer_embedding;
shape_rule_fn shape_infer_embedding_bwd;

/* ---- windows over images and signals -------------------------------------- */
shape_rule_fn shape_infer_conv2d;
shape_rule_fn shape_infer_conv1d;
shape_rule_fn shape_infer_conv_grad; /* of both, towards what is told */
shape_rule_fn shape_infer_conv_transpose2d;
shape_rule_fn shape_infer_conv_transpose2d_grad;
shape_rule_fn shape_infer_pool2d;
shape_rule_fn shape_infer_image_like; /* images to the size that is told */

/* ---- norms --------------------------------------------------------------- */
shape_rule_fn shape_infer_batch_norm;
shape_rule_fn shape_infer_batch_norm_bwd;
shape_rule_fn shape_infer_layer_norm;
shape_rule_fn shape_infer_layer_norm_bwd;
shape_rule_fn shape_infer_rms_norm;
shape_rule_fn shape_infer_rms_norm_bwd;
shape_rule_fn shape_infer_group_norm;
shape_rule_fn shape_infer_group_norm_bwd;

/* ---- axes ---------------------------------------------------------------- */
shape_rule_fn shape_infer_axis;     /* along one axis, shape kept */
shape_rule_fn shape_infer_axis_bwd; /* (dy, y) */
shape_rule_fn shape_infer_prod;
shape_rule_fn shape_infer_reduce;
shape_rule_fn shape_infer_reduce_bwd;   /* dy alone: x is told */
shape_rule_fn shape_infer_reduce_bwd_x; /* (dy, x ..) */
shape_rule_fn shape_infer_prod_bwd;     /* (dy, x) */
shape_rule_fn shape_infer_cosine;
shape_rule_fn shape_infer_cosine_bwd;

/* ---- moves --------------------------------------------------------------- */
shape_rule_fn shape_infer_flatten;
shape_rule_fn shape_infer_unflatten;
shape_rule_fn shape_infer_relayout;
shape_rule_fn shape_infer_reshape;
shape_rule_fn shape_infer_transpose;
shape_rule_fn shape_infer_narrow;
shape_rule_fn shape_infer_narrow_bwd;
shape_rule_fn shape_infer_cat;
shape_rule_fn shape_infer_stack;
shape_rule_fn shape_infer_stack_bwd;

/* ---- losses -------------------------------------------------------------- */
shape_rule_fn shape_infer_classes;
shape_rule_fn shape_infer_classes_bwd;
shape_rule_fn shape_infer_confusion;
shape_rule_fn shape_infer_regression;
shape_rule_fn shape_infer_regression_bwd;

#endif
