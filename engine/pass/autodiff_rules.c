/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pass/autodiff_rules.h"

#include <stddef.h>

/* clang-format off */
#define DY   {AUTODIFF_DY, 0}
#define X(i) {AUTODIFF_IN, i}
#define Y(i) {AUTODIFF_OUT, i}

#define READS(...)                                                            \
    .n_reads = sizeof((struct autodiff_operand[]){__VA_ARGS__}) /             \
               sizeof(struct autodiff_operand),                               \
    .reads = {__VA_ARGS__}
#define TO(...)                                                               \
    .n_to = sizeof((int[]){__VA_ARGS__}) / sizeof(int), .to = {__VA_ARGS__}

#define ROW(op_, by, ...) {.forward = OP_##op_, .op = OP_##by, __VA_ARGS__}
#define HOW(op_, by, how_, ...)                                               \
    {.forward = OP_##op_, .op = OP_##by, .how = AUTODIFF_##how_, __VA_ARGS__}

/* Rows of one op stand together. Gradients towards weights come before those
 * towards activations: what they read can be freed earlier. */
static const struct autodiff_row rows[] = {
    ROW(SCALE_LOSS, COUNT, READS(X(1)), TO(0)),
    ROW(CAST, CAST, READS(DY), TO(0)),

    ROW(LINEAR, LINEAR_DW, READS(DY, X(0)), TO(1)),
    ROW(LINEAR, BIAS_GRAD, READS(DY), TO(2)),
    ROW(LINEAR, LINEAR_DX, READS(DY, X(1)), TO(0)),
    ROW(CONV2D, CONV2D_DW, READS(DY, X(0)), TO(1)),
    ROW(CONV2D, BIAS_GRAD, READS(DY), TO(2)),
    ROW(CONV2D, CONV2D_DX, READS(DY, X(1)), TO(0)),
    ROW(CONV1D, CONV1D_DW, READS(DY, X(0)), TO(1)),
    ROW(CONV1D, BIAS_GRAD, READS(DY), TO(2)),
    ROW(CONV1D, CONV1D_DX, READS(DY, X(1)), TO(0)),
    ROW(CONV_TRANSPOSE2D, CONV_TRANSPOSE2D_DW, READS(DY, X(0)), TO(1)),
    ROW(CONV_TRANSPOSE2D, BIAS_GRAD, READS(DY), TO(2)),
    ROW(CONV_TRANSPOSE2D, CONV_TRANSPOSE2D_DX, READS(DY, X(1)), TO(0)),
    ROW(MATMUL, MATMUL_DB, READS(DY, X(0)), TO(1)),
    ROW(MATMUL, MATMUL_DA, READS(DY, X(1)), TO(0)),
    ROW(ATTENTION, ATTENTION_BWD, READS(DY, X(0), X(1), X(2), X(3), Y(0), Y(1)), TO(0, 1, 2)),
    ROW(EMBEDDING, EMBEDDING_BWD, READS(DY, X(0)), TO(1)),
    ROW(PRELU, PRELU_DW, READS(DY, X(0)), TO(1)),
    ROW(PRELU, PRELU_DX, READS(DY, X(0), X(1)), TO(0)),

    ROW(BATCH_NORM, BATCH_NORM_BWD, READS(DY, X(0), X(1), Y(1), Y(2)), TO(0, 1, 2)),
    ROW(LAYER_NORM, LAYER_NORM_BWD, READS(DY, X(0), X(1), Y(1), Y(2)), TO(0, 1, 2)),
    ROW(GROUP_NORM, GROUP_NORM_BWD, READS(DY, X(0), X(1), Y(1), Y(2)), TO(0, 1, 2)),
    ROW(RMS_NORM, RMS_NORM_BWD, READS(DY, X(0), X(1), Y(1)), TO(0, 1)),

    ROW(SOFTMAX, SOFTMAX_BWD, READS(DY, Y(0)), TO(0)),
    ROW(LOG_SOFTMAX, LOG_SOFTMAX_BWD, READS(DY, Y(0)), TO(0)),
    ROW(CUMSUM, CUMSUM_BWD, READS(DY), TO(0)),
    ROW(PROD, PROD_BWD, READS(DY, X(0)), TO(0)),
    ROW(SUM, SUM_BWD, READS(DY), TO(0)),
    ROW(MEAN, MEAN_BWD, READS(DY), TO(0)),
    ROW(NORM, NORM_BWD, READS(DY, X(0), Y(0)), TO(0)),
    ROW(LOGSUMEXP, LOGSUMEXP_BWD, READS(DY, X(0), Y(0)), TO(0)),
    ROW(COSINE_SIMILARITY, COSINE_SIMILARITY_BWD, READS(DY, X(0), X(1)), TO(0, 1)),

    ROW(RELU, RELU_BWD, READS(DY, Y(0)), TO(0)),
    ROW(GELU, GELU_BWD, READS(DY, X(0)), TO(0)),
    ROW(TANH, TANH_BWD, READS(DY, Y(0)), TO(0)),
    ROW(SIGMOID, SIGMOID_BWD, READS(DY, Y(0)), TO(0)),
    ROW(SILU, SILU_BWD, READS(DY, X(0)), TO(0)),
    ROW(EXP, EXP_BWD, READS(DY, Y(0)), TO(0)),
    ROW(LOG, LOG_BWD, READS(DY, X(0)), TO(0)),
    ROW(POW, POW_BWD, READS(DY, X(0)), TO(0)),
    ROW(RECIPROCAL, RECIPROCAL_BWD, READS(DY, Y(0)), TO(0)),
    ROW(RSQRT, RSQRT_BWD, READS(DY, Y(0)), TO(0)),
    ROW(SOFTPLUS, SOFTPLUS_BWD, READS(DY, X(0)), TO(0)),
    ROW(DROPOUT, DROPOUT_BWD, READS(DY), TO(0)),

    HOW(ADD, SUM_TO, ELIDE, READS(DY), TO(0)),
    HOW(ADD, SUM_TO, ELIDE, READS(DY), TO(1)),
    HOW(SUB, SUM_TO, ELIDE, READS(DY), TO(0)),
    ROW(SUB, SUM_TO_NEG, READS(DY), TO(1)),
    ROW(MUL, MUL_BWD, READS(DY, X(1)), TO(0)),
    ROW(MUL, MUL_BWD, READS(DY, X(0)), TO(1)),
    ROW(DIV, DIV_BWD_A, READS(DY, X(1)), TO(0)),
    ROW(DIV, DIV_BWD_B, READS(DY, X(0), X(1)), TO(1)),
    ROW(WHERE, WHERE_BWD_A, READS(DY, X(0)), TO(1)),
    ROW(WHERE, WHERE_BWD_B, READS(DY, X(0)), TO(2)),

    ROW(MAX_POOL2D, MAX_POOL2D_BWD, READS(DY, Y(1)), TO(0)),
    ROW(AVG_POOL2D, AVG_POOL2D_BWD, READS(DY), TO(0)),
    ROW(ADAPTIVE_AVG_POOL2D, ADAPTIVE_AVG_POOL2D_BWD, READS(DY), TO(0)),
    ROW(UPSAMPLE, UPSAMPLE_BWD, READS(DY), TO(0)),
    ROW(FLATTEN, UNFLATTEN, READS(DY), TO(0)),
    ROW(RELAYOUT, RELAYOUT, READS(DY), TO(0)),
    ROW(RESHAPE, RESHAPE, READS(DY), TO(0)),
    ROW(TRANSPOSE, TRANSPOSE, READS(DY), TO(0)),
    ROW(NARROW, NARROW_BWD, READS(DY), TO(0)),
    HOW(CAT, NARROW, PART, READS(DY), TO(0)),
    HOW(CAT, NARROW, PART, READS(DY), TO(1)),
    HOW(CAT, NARROW, PART, READS(DY), TO(2)),
    HOW(CAT, NARROW, PART, READS(DY), TO(3)),
    HOW(CAT, NARROW, PART, READS(DY), TO(4)),
    HOW(CAT, NARROW, PART, READS(DY), TO(5)),
    HOW(CAT, NARROW, PART, READS(DY), TO(6)),
    HOW(CAT, NARROW, PART, READS(DY), TO(7)),
    HOW(STACK, STACK_BWD, NTH, READS(DY), TO(0)),
    HOW(STACK, STACK_BWD, NTH, READS(DY), TO(1)),
    HOW(STACK, STACK_BWD, NTH, READS(DY), TO(2)),
    HOW(STACK, STACK_BWD, NTH, READS(DY), TO(3)),
    HOW(STACK, STACK_BWD, NTH, READS(DY), TO(4)),
    HOW(STACK, STACK_BWD, NTH, READS(DY), TO(5)),
    HOW(STACK, STACK_BWD, NTH, READS(DY), TO(6)),
    HOW(STACK, STACK_BWD, NTH, READS(DY), TO(7)),

    ROW(CROSS_ENTROPY, CROSS_ENTROPY_BWD, READS(DY, X(0), X(1), X(2)), TO(0)),
    ROW(NLL, NLL_BWD, READS(DY, X(0), X(1), X(2)), TO(0)),
    ROW(MSE, MSE_BWD, READS(DY, X(0), X(1), X(2)), TO(0)),
    ROW(L1, L1_BWD, READS(DY, X(0), X(1), X(2)), TO(0)),
    ROW(BCE_WITH_LOGITS, BCE_WITH_LOGITS_BWD, READS(DY, X(0), X(1), X(2)), TO(0)),
    ROW(SMOOTH_L1, SMOOTH_L1_BWD, READS(DY, X(0), X(1), X(2)), TO(0)),
    ROW(HUBER, HUBER_BWD, READS(DY, X(0), X(1), X(2)), TO(0)),
    ROW(KL_DIV, KL_DIV_BWD, READS(DY, X(0), X(1), X(2)), TO(0)),
};
/* clang-format on */

#define N_ROWS (int)(sizeof(rows) / sizeof(rows[0]))

const struct autodiff_row *
autodiff_rules_find(enum op op, int *n)
{
    const struct autodiff_row *first = NULL;

    *n = 0;
    for (int i = 0; i < N_ROWS; i++) {
        if (rows[i].forward != op)
            continue;
        if (first == NULL)
            first = &rows[i];
        (*n)++;
    }
    return first;
}
