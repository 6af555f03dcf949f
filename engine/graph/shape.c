/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/shape.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/graph/shape_private.h"

const char *
shape_format(const struct tensor_desc *t, char *text, size_t size)
{
    size_t at = (size_t)snprintf(text, size, "[");

    for (int i = 0; i < t->rank && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%" PRId64,
                               i > 0 ? "," : "", t->dim[i]);
    if (at < size)
        snprintf(text + at, size - at, "]");
    return text;
}

bool
shape_fits(const struct tensor_desc *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(n, t->dim[i], &n) || n > (int64_t)1 << 40)
            return false;
    return true;
}

/* ---- sentences, and what several rules ask for ---------------------------- */

int
shape_misfit(const struct shape_query *q, int a, int b, struct err *err)
{
    const struct op_info *info = op_info(q->op);
    char left[SHAPE_TEXT_MAX], right[SHAPE_TEXT_MAX];

    if (a == b)
        return err_set(err, ERR_SPEC, "cannot take %s %s", info->in_name[a],
                       shape_format(&q->in[a], left, sizeof(left)));
    return err_set(
        err, ERR_SPEC, "%s %s and %s %s do not fit together", info->in_name[a],
        shape_format(&q->in[a], left, sizeof(left)), info->in_name[b],
        shape_format(&q->in[b], right, sizeof(right)));
}

int
shape_need_image(const struct shape_query *q, int i, struct err *err)
{
    char text[SHAPE_TEXT_MAX];

    if (q->in[i].rank == 4 && q->in[i].layout == TENSOR_NHWC)
        return 0;
    return err_set(err, ERR_SPEC,
                   "needs images (samples, channels, height, width) but gets "
                   "%s",
                   shape_format(&q->in[i], text, sizeof(text)));
}

int
shape_need_signal(const struct shape_query *q, int i, struct err *err)
{
    if (q->in[i].rank == 3 && q->in[i].layout == TENSOR_NHWC)
        return 0;
    return shape_need_image(q, i, err);
}

int
shape_need_vector(const struct shape_query *q, int i, int64_t n,
                  struct err *err)
{
    const struct tensor_desc *t = &q->in[i];

    if (t->dtype == DTYPE_NONE || (t->rank == 1 && t->dim[0] == n))
        return 0;
    return shape_misfit(q, 0, i, err);
}

int
shape_need_same(const struct shape_query *q, int a, int b, struct err *err)
{
    if (tensor_same_shape(&q->in[a], &q->in[b]) &&
        q->in[a].layout == q->in[b].layout)
        return 0;
    return shape_misfit(q, a, b, err);
}

/* ---- the table ----------------------------------------------------------- */

enum dtype_rule {
    AS_IN0, /* of input 0 */
    AS_IN1,
    AS_CHOICE, /* of input 1, or of input 2 */
    ALWAYS_F32,
    ALWAYS_BOOL,
    F32_OR_ASKED, /* weight gradients: rounded to half only when asked */
    ASKED         /* cast */
};

struct rule {
    shape_rule_fn *infer;
    enum dtype_rule dtype; /* of output 0 */
    unsigned same, f32, i32, mask, samples;
};

/* Of the inputs: bit i of `same`: it shares the one float dtype; of f32, i32,
 * mask: it is of that dtype. Bit i of `samples`: output i keeps dim 0. */
#define ALL_IN 0xff

static const struct rule rules[OP_COUNT] = {
    [OP_CAST] = {shape_infer_same, ASKED, 1, 0, 0, 0, 1},
    [OP_SCALE_LOSS] = {shape_infer_scalar, ALWAYS_F32, 0, 3, 0, 0, 0},
    [OP_GRAD_ACCUMULATE] = {shape_infer_binary, ALWAYS_F32, 0, 3, 0, 0, 0},
    [OP_STATS_TRACK] = {shape_infer_stats_track, ALWAYS_F32, 0, 15, 0, 0, 0},
    [OP_LINEAR] = {shape_infer_linear, AS_IN0, 7, 0, 0, 0, 1},
    [OP_LINEAR_DX] = {shape_infer_linear_dx, AS_IN0, 3, 0, 0, 0, 1},
    [OP_LINEAR_DW] = {shape_infer_linear_dw, F32_OR_ASKED, 3, 0, 0, 0, 0},
    [OP_BIAS_GRAD] = {shape_infer_bias_grad, F32_OR_ASKED, 1, 0, 0, 0, 0},
    [OP_CONV2D] = {shape_infer_conv2d, AS_IN0, 7, 0, 0, 0, 1},
    [OP_CONV2D_DX] = {shape_infer_conv_grad, AS_IN0, 3, 0, 0, 0, 1},
    [OP_CONV2D_DW] = {shape_infer_conv_grad, F32_OR_ASKED, 3, 0, 0, 0, 0},
    [OP_CONV1D] = {shape_infer_conv1d, AS_IN0, 7, 0, 0, 0, 1},
    [OP_CONV1D_DX] = {shape_infer_conv_grad, AS_IN0, 3, 0, 0, 0, 1},
    [OP_CONV1D_DW] = {shape_infer_conv_grad, F32_OR_ASKED, 3, 0, 0, 0, 0},
    [OP_CONV_TRANSPOSE2D] = {shape_infer_conv_transpose2d, AS_IN0, 7, 0, 0, 0,
                             1},
    [OP_CONV_TRANSPOSE2D_DX] = {shape_infer_conv_transpose2d_grad, AS_IN0, 3, 0,
                                0, 0, 1},
    [OP_CONV_TRANSPOSE2D_DW] = {shape_infer_conv_transpose2d_grad, F32_OR_ASKED,
                                3, 0, 0, 0, 0},
    [OP_MATMUL] = {shape_infer_matmul, AS_IN0, 3, 0, 0, 0, 1},
    [OP_MATMUL_DA] = {shape_infer_matmul_da, AS_IN0, 3, 0, 0, 0, 1},
    [OP_MATMUL_DB] = {shape_infer_matmul_db, AS_IN0, 3, 0, 0, 0, 1},
    [OP_ATTENTION] = {shape_infer_attention, AS_IN0, 7, 0, 0, 8, 3},
    [OP_ATTENTION_BWD] = {shape_infer_attention_bwd, AS_IN0, 47, 64, 0, 16, 7},
    [OP_EMBEDDING] = {shape_infer_embedding, AS_IN1, 2, 0, 1, 0, 1},
    [OP_EMBEDDING_BWD] = {shape_infer_embedding_bwd, F32_OR_ASKED, 1, 0, 2, 0,
                          0},
    [OP_PRELU] = {shape_infer_prelu, AS_IN0, 3, 0, 0, 0, 1},
    [OP_PRELU_DX] = {shape_infer_prelu_dx, AS_IN0, 7, 0, 0, 0, 1},
    [OP_PRELU_DW] = {shape_infer_prelu_dw, F32_OR_ASKED, 3, 0, 0, 0, 0},
    [OP_BATCH_NORM] = {shape_infer_batch_norm, AS_IN0, 1, 6, 0, 0, 1},
    [OP_BATCH_NORM_EVAL] = {shape_infer_batch_norm, AS_IN0, 1, 30, 0, 0, 1},
    [OP_BATCH_NORM_BWD] = {shape_infer_batch_norm_bwd, AS_IN0, 3, 28, 0, 0, 1},
    [OP_LAYER_NORM] = {shape_infer_layer_norm, AS_IN0, 1, 6, 0, 0, 7},
    [OP_LAYER_NORM_BWD] = {shape_infer_layer_norm_bwd, AS_IN0, 3, 28, 0, 0, 1},
    [OP_GROUP_NORM] = {shape_infer_group_norm, AS_IN0, 1, 6, 0, 0, 7},
    [OP_GROUP_NORM_BWD] = {shape_infer_group_norm_bwd, AS_IN0, 3, 28, 0, 0, 1},
    [OP_RMS_NORM] = {shape_infer_rms_norm, AS_IN0, 1, 2, 0, 0, 3},
    [OP_RMS_NORM_BWD] = {shape_infer_rms_norm_bwd, AS_IN0, 3, 12, 0, 0, 1},
    [OP_SOFTMAX] = {shape_infer_axis, AS_IN0, 1, 0, 0, 0, 1},
    [OP_SOFTMAX_BWD] = {shape_infer_axis_bwd, AS_IN0, 3, 0, 0, 0, 1},
    [OP_LOG_SOFTMAX] = {shape_infer_axis, AS_IN0, 1, 0, 0, 0, 1},
    [OP_LOG_SOFTMAX_BWD] = {shape_infer_axis_bwd, AS_IN0, 3, 0, 0, 0, 1},
    [OP_CUMSUM] = {shape_infer_axis, AS_IN0, 1, 0, 0, 0, 1},
    [OP_CUMSUM_BWD] = {shape_infer_axis, AS_IN0, 1, 0, 0, 0, 1},
    [OP_PROD] = {shape_infer_prod, AS_IN0, 1, 0, 0, 0, 1},
    [OP_PROD_BWD] = {shape_infer_prod_bwd, AS_IN0, 3, 0, 0, 0, 1},
    [OP_SUM] = {shape_infer_reduce, AS_IN0, 1, 0, 0, 0, 1},
    [OP_SUM_BWD] = {shape_infer_reduce_bwd, AS_IN0, 1, 0, 0, 0, 1},
    [OP_MEAN] = {shape_infer_reduce, AS_IN0, 1, 0, 0, 0, 1},
    [OP_MEAN_BWD] = {shape_infer_reduce_bwd, AS_IN0, 1, 0, 0, 0, 1},
    [OP_NORM] = {shape_infer_reduce, AS_IN0, 1, 0, 0, 0, 1},
    [OP_NORM_BWD] = {shape_infer_reduce_bwd_x, AS_IN0, 7, 0, 0, 0, 1},
    [OP_LOGSUMEXP] = {shape_infer_reduce, AS_IN0, 1, 0, 0, 0, 1},
    [OP_LOGSUMEXP_BWD] = {shape_infer_reduce_bwd_x, AS_IN0, 7, 0, 0, 0, 1},
    [OP_COSINE_SIMILARITY] = {shape_infer_cosine, AS_IN0, 3, 0, 0, 0, 1},
    [OP_COSINE_SIMILARITY_BWD] = {shape_infer_cosine_bwd, AS_IN0, 7, 0, 0, 0,
                                  3},
    [OP_RELU] = {shape_infer_same, AS_IN0, 1, 0, 0, 0, 1},
    [OP_RELU_BWD] = {shape_infer_binary, AS_IN0, 3, 0, 0, 0, 1},
    [OP_GELU] = {shape_infer_same, AS_IN0, 1, 0, 0, 0, 1},
    [OP_GELU_BWD] = {shape_infer_binary, AS_IN0, 3, 0, 0, 0, 1},
    [OP_TANH] = {shape_infer_same, AS_IN0, 1, 0, 0, 0, 1},
    [OP_TANH_BWD] = {shape_infer_binary, AS_IN0, 3, 0, 0, 0, 1},
    [OP_SIGMOID] = {shape_infer_same, AS_IN0, 1, 0, 0, 0, 1},
    [OP_SIGMOID_BWD] = {shape_infer_binary, AS_IN0, 3, 0, 0, 0, 1},
    [OP_SILU] = {shape_infer_same, AS_IN0, 1, 0, 0, 0, 1},
    [OP_SILU_BWD] = {shape_infer_binary, AS_IN0, 3, 0, 0, 0, 1},
    [OP_EXP] = {shape_infer_same, AS_IN0, 1, 0, 0, 0, 1},
    [OP_EXP_BWD] = {shape_infer_binary, AS_IN0, 3, 0, 0, 0, 1},
    [OP_LOG] = {shape_infer_same, AS_IN0, 1, 0, 0, 0, 1},
    [OP_LOG_BWD] = {shape_infer_binary, AS_IN0, 3, 0, 0, 0, 1},
    [OP_POW] = {shape_infer_same, AS_IN0, 1, 0, 0, 0, 1},
    [OP_POW_BWD] = {shape_infer_binary, AS_IN0, 3, 0, 0, 0, 1},
    [OP_RECIPROCAL] = {shape_infer_same, AS_IN0, 1, 0, 0, 0, 1},
    [OP_RECIPROCAL_BWD] = {shape_infer_binary, AS_IN0, 3, 0, 0, 0, 1},
    [OP_RSQRT] = {shape_infer_same, AS_IN0, 1, 0, 0, 0, 1},
    [OP_RSQRT_BWD] = {shape_infer_binary, AS_IN0, 3, 0, 0, 0, 1},
    [OP_SOFTPLUS] = {shape_infer_same, AS_IN0, 1, 0, 0, 0, 1},
    [OP_SOFTPLUS_BWD] = {shape_infer_binary, AS_IN0, 3, 0, 0, 0, 1},
    [OP_ADD] = {shape_infer_broadcast, AS_IN0, 3, 0, 0, 0, 1},
    [OP_SUB] = {shape_infer_broadcast, AS_IN0, 3, 0, 0, 0, 1},
    [OP_MUL] = {shape_infer_broadcast, AS_IN0, 3, 0, 0, 0, 1},
    [OP_DIV] = {shape_infer_broadcast, AS_IN0, 3, 0, 0, 0, 1},
    [OP_SUM_TO] = {shape_infer_spread_back, AS_IN0, 1, 0, 0, 0, 1},
    [OP_SUM_TO_NEG] = {shape_infer_spread_back, AS_IN0, 1, 0, 0, 0, 1},
    [OP_MUL_BWD] = {shape_infer_spread_back, AS_IN0, 3, 0, 0, 0, 1},
    [OP_DIV_BWD_A] = {shape_infer_spread_back, AS_IN0, 3, 0, 0, 0, 1},
    [OP_DIV_BWD_B] = {shape_infer_spread_back, AS_IN0, 7, 0, 0, 0, 1},
    [OP_COMPARE] = {shape_infer_compare, ALWAYS_BOOL, 0, 0, 0, 0, 1},
    [OP_WHERE] = {shape_infer_where, AS_CHOICE, 6, 0, 0, 1, 1},
    [OP_WHERE_BWD_A] = {shape_infer_spread_back, AS_IN0, 1, 0, 0, 2, 1},
    [OP_WHERE_BWD_B] = {shape_infer_spread_back, AS_IN0, 1, 0, 0, 2, 1},
    [OP_DROPOUT] = {shape_infer_same, AS_IN0, 1, 0, 0, 0, 1},
    [OP_DROPOUT_BWD] = {shape_infer_same, AS_IN0, 1, 0, 0, 0, 1},
    [OP_MAX_POOL2D] = {shape_infer_pool2d, AS_IN0, 1, 0, 0, 0, 3},
    [OP_MAX_POOL2D_BWD] = {shape_infer_image_like, AS_IN0, 1, 0, 2, 0, 1},
    [OP_AVG_POOL2D] = {shape_infer_pool2d, AS_IN0, 1, 0, 0, 0, 1},
    [OP_AVG_POOL2D_BWD] = {shape_infer_image_like, AS_IN0, 1, 0, 0, 0, 1},
    [OP_ADAPTIVE_AVG_POOL2D] = {shape_infer_image_like, AS_IN0, 1, 0, 0, 0, 1},
    [OP_ADAPTIVE_AVG_POOL2D_BWD] = {shape_infer_image_like, AS_IN0, 1, 0, 0, 0,
                                    1},
    [OP_FLATTEN] = {shape_infer_flatten, AS_IN0, 1, 0, 0, 0, 1},
    [OP_UNFLATTEN] = {shape_infer_unflatten, AS_IN0, 1, 0, 0, 0, 1},
    [OP_RELAYOUT] = {shape_infer_relayout, AS_IN0, 0, 0, 0, 0, 1},
    [OP_RESHAPE] = {shape_infer_reshape, AS_IN0, 0, 0, 0, 0, 1},
    [OP_TRANSPOSE] = {shape_infer_transpose, AS_IN0, 0, 0, 0, 0, 1},
    [OP_NARROW] = {shape_infer_narrow, AS_IN0, 0, 0, 0, 0, 1},
    [OP_NARROW_BWD] = {shape_infer_narrow_bwd, AS_IN0, 1, 0, 0, 0, 1},
    [OP_CAT] = {shape_infer_cat, AS_IN0, ALL_IN, 0, 0, 0, 1},
    [OP_STACK] = {shape_infer_stack, AS_IN0, ALL_IN, 0, 0, 0, 1},
    [OP_STACK_BWD] = {shape_infer_stack_bwd, AS_IN0, 1, 0, 0, 0, 1},
    [OP_UPSAMPLE] = {shape_infer_image_like, AS_IN0, 1, 0, 0, 0, 1},
    [OP_UPSAMPLE_BWD] = {shape_infer_image_like, AS_IN0, 1, 0, 0, 0, 1},
    [OP_CROSS_ENTROPY] = {shape_infer_classes, ALWAYS_F32, 0, 5, 2, 0, 0},
    [OP_CROSS_ENTROPY_BWD] = {shape_infer_classes_bwd, ALWAYS_F32, 0, 11, 4, 0,
                              1},
    [OP_NLL] = {shape_infer_classes, ALWAYS_F32, 0, 5, 2, 0, 0},
    [OP_NLL_BWD] = {shape_infer_classes_bwd, ALWAYS_F32, 0, 11, 4, 0, 1},
    [OP_MSE] = {shape_infer_regression, ALWAYS_F32, 0, 7, 0, 0, 0},
    [OP_MSE_BWD] = {shape_infer_regression_bwd, ALWAYS_F32, 0, 15, 0, 0, 1},
    [OP_L1] = {shape_infer_regression, ALWAYS_F32, 0, 7, 0, 0, 0},
    [OP_L1_BWD] = {shape_infer_regression_bwd, ALWAYS_F32, 0, 15, 0, 0, 1},
    [OP_BCE_WITH_LOGITS] = {shape_infer_regression, ALWAYS_F32, 0, 7, 0, 0, 0},
    [OP_BCE_WITH_LOGITS_BWD] = {shape_infer_regression_bwd, ALWAYS_F32, 0, 15,
                                0, 0, 1},
    [OP_SMOOTH_L1] = {shape_infer_regression, ALWAYS_F32, 0, 7, 0, 0, 0},
    [OP_SMOOTH_L1_BWD] = {shape_infer_regression_bwd, ALWAYS_F32, 0, 15, 0, 0,
                          1},
    [OP_HUBER] = {shape_infer_regression, ALWAYS_F32, 0, 7, 0, 0, 0},
    [OP_HUBER_BWD] = {shape_infer_regression_bwd, ALWAYS_F32, 0, 15, 0, 0, 1},
    [OP_KL_DIV] = {shape_infer_regression, ALWAYS_F32, 0, 7, 0, 0, 0},
    [OP_KL_DIV_BWD] = {shape_infer_regression_bwd, ALWAYS_F32, 0, 15, 0, 0, 1},
    [OP_CORRECT] = {shape_infer_classes, ALWAYS_F32, 1, 0, 2, 0, 0},
    [OP_CONFUSION] = {shape_infer_confusion, ALWAYS_F32, 1, 0, 2, 0, 0},
};

static int
refuse_dtype(const struct shape_query *q, int i, const char *want,
             struct err *err)
{
    return err_set(err, ERR_SPEC, "%s is %s and must be %s",
                   op_info(q->op)->in_name[i], dtype_name(q->in[i].dtype),
                   want);
}

static int
check_dtypes(const struct shape_query *q, const struct rule *rule,
             struct err *err)
{
    enum dtype shared = DTYPE_NONE;

    for (int i = 0; i < op_info(q->op)->n_in; i++) {
        const enum dtype t = q->in[i].dtype;

        if (t == DTYPE_NONE)
            continue;
        if ((rule->f32 >> i & 1) && t != DTYPE_F32)
            return refuse_dtype(q, i, "float32", err);
        if ((rule->i32 >> i & 1) && t != DTYPE_I32)
            return refuse_dtype(q, i, "int32", err);
        if ((rule->mask >> i & 1) && t != DTYPE_BOOL)
            return refuse_dtype(q, i, "a mask", err);
        if (!(rule->same >> i & 1))
            continue;
        if (t != DTYPE_F32 && !dtype_is_half(t))
            return refuse_dtype(q, i, "float32, float16 or bfloat16", err);
        if (shared != DTYPE_NONE && t != shared)
            return refuse_dtype(q, i, dtype_name(shared), err);
        shared = t;
    }
    return 0;
}

static enum dtype
choose_dtype(const struct shape_query *q, enum dtype_rule rule)
{
    switch (rule) {
    case AS_IN0:
        assert(q->out_dtype == DTYPE_NONE || q->out_dtype == q->in[0].dtype);
        return q->in[0].dtype;
    case AS_IN1: return q->in[1].dtype;
    case AS_CHOICE: return q->in[q->in[1].dtype != DTYPE_NONE ? 1 : 2].dtype;
    case ALWAYS_BOOL: return DTYPE_BOOL;
    case ALWAYS_F32:
        assert(q->out_dtype == DTYPE_NONE || q->out_dtype == DTYPE_F32);
        return DTYPE_F32;
    case F32_OR_ASKED:
        return q->out_dtype == DTYPE_NONE ? DTYPE_F32 : q->out_dtype;
    case ASKED: assert(dtype_is_float(q->out_dtype)); return q->out_dtype;
    }
    return DTYPE_NONE;
}

int
shape_infer(const struct shape_query *q, struct tensor_desc out[OP_MAX_OUT],
            struct err *err)
{
    const struct rule *rule = &rules[q->op];
    struct err local;
    int rc;

    if (err == NULL)
        err = &local;
    assert(rule->infer != NULL);
    for (int i = 0; i < op_info(q->op)->n_in; i++)
        assert(q->in[i].dtype != DTYPE_NONE || op_info(q->op)->in_optional[i]);
    memset(out, 0, sizeof(*out) * OP_MAX_OUT);
    rc = check_dtypes(q, rule, err);
    if (rc == 0)
        rc = rule->infer(q, out, err);
    if (rc != 0)
        return rc;
    out[0].dtype = choose_dtype(q, rule->dtype);
    return 0;
}

bool
shape_dtype_is_asked(enum op op)
{
    return rules[op].dtype == ASKED || rules[op].dtype == F32_OR_ASKED;
}

/* Where shapes broadcast, dim 0 of the output may be an operand's own. */
bool
shape_keeps_samples(enum op op, int i, const struct tensor_desc *in,
                    const struct tensor_desc *out)
{
    const struct op_info *info = op_info(op);

    if (!(rules[op].samples >> i & 1))
        return false;
    if (info->cast == OP_CAST_WIDEST || info->reduce == OP_REDUCE_SPREAD)
        return in->rank == out->rank && in->dim[0] == out->dim[0];
    return true;
}
