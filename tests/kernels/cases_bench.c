/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/cases.h"

#include <string.h>

/* Of an op's cases the largest float one with ordinary values is the pattern;
 * its shapes are blown up to what a training step holds. */

#define BATCH    128
#define CHANNELS 32
#define SIDE     28

static struct tensor_desc
image(enum dtype t)
{
    return tensor_make_nhwc(t, BATCH, CHANNELS, SIDE, SIDE);
}

static struct tensor_desc
half_image(enum dtype t)
{
    return tensor_make_nhwc(t, BATCH, CHANNELS, SIDE / 2, SIDE / 2);
}

static void
set_window(struct kcase *c)
{
    for (int i = 0; i < 2; i++) {
        c->sig.params.pool.kernel[i] = 2;
        c->sig.params.pool.stride[i] = 2;
    }
}

static void
bench_product(enum op op, enum dtype t, struct kcase *c)
{
    const struct tensor_desc x = cases_matrix(t, 256, 1024);
    const struct tensor_desc w = cases_matrix(t, 1024, 1024);

    c->sig.in[0] = x; /* x or dy */
    c->sig.in[1] = op == OP_LINEAR_DW ? x : w;
    c->sig.out[0] =
        op == OP_LINEAR_DW ? cases_matrix(DTYPE_F32, 1024, 1024) : x;
    if (op == OP_LINEAR)
        c->sig.in[2] = cases_vector(t, 1024);
}

static void
bench_conv(enum op op, enum dtype t, struct kcase *c)
{
    const struct tensor_desc x = half_image(t);
    const struct tensor_desc w =
        tensor_make(t, 4, (int64_t[]){2 * CHANNELS, CHANNELS, 3, 3});
    const struct tensor_desc y =
        tensor_make_nhwc(t, BATCH, 2 * CHANNELS, SIDE / 2, SIDE / 2);

    for (int i = 0; i < 2; i++) {
        c->sig.params.conv.stride[i] = 1;
        c->sig.params.conv.padding[i] = 1;
        c->sig.params.conv.dilation[i] = 1;
    }
    c->sig.params.conv.groups = 1;
    c->sig.in[0] = op == OP_CONV2D ? x : y;
    c->sig.in[1] = op == OP_CONV2D_DW ? x : w;
    c->sig.out[0] = op == OP_CONV2D ? y : op == OP_CONV2D_DX ? x : w;
    if (op == OP_CONV2D)
        c->sig.in[2] = cases_vector(t, 2 * CHANNELS);
    if (op == OP_CONV2D_DW)
        c->sig.out[0].dtype = DTYPE_F32;
}

/* The same work as bench_conv's, lifted: a signal, and a decoder's way up. */
static void
bench_conv_lift(enum op op, enum dtype t, struct kcase *c)
{
    const bool signal =
        op == OP_CONV1D || op == OP_CONV1D_DX || op == OP_CONV1D_DW;
    const bool forward = op == OP_CONV1D || op == OP_CONV_TRANSPOSE2D;
    const bool dw = op == OP_CONV1D_DW || op == OP_CONV_TRANSPOSE2D_DW;
    const int64_t k = signal ? 9 : 2, stride = signal ? 1 : 2;
    const int64_t dim[4] = {2 * CHANNELS, CHANNELS, k, k};
    struct tensor_desc x = half_image(t), y = image(t), w;

    w = tensor_make(t, signal ? 3 : 4, dim);
    if (signal) {
        x = tensor_make_nlc(t, BATCH, CHANNELS, SIDE * SIDE / 4);
        y = tensor_make_nlc(t, BATCH, 2 * CHANNELS, SIDE * SIDE / 4);
    } else {
        x.dim[1] = 2 * CHANNELS;
    }
    for (int i = 0; i < 2; i++) {
        c->sig.params.conv.stride[i] = stride;
        c->sig.params.conv.padding[i] = signal ? k / 2 * i : 0;
        c->sig.params.conv.dilation[i] = 1;
    }
    c->sig.params.conv.groups = 1;
    c->sig.in[0] = forward ? x : y;
    c->sig.in[1] = dw ? x : w;
    c->sig.out[0] = forward ? y : dw ? w : x;
    if (dw)
        c->sig.out[0].dtype = DTYPE_F32;
    if (forward)
        c->sig.in[2] = cases_vector(t, y.dim[1]);
}

static void
bench_embedding(enum op op, enum dtype t, struct kcase *c)
{
    const bool forward = op == OP_EMBEDDING;
    const struct tensor_desc ids = cases_matrix(DTYPE_I32, 16, 256);
    const struct tensor_desc y = tensor_make(t, 3, (int64_t[]){16, 256, 768});

    c->classes = 4096;
    c->fill[forward ? 0 : 1] = CHECK_ROW;
    c->sig.in[0] = forward ? ids : y;
    c->sig.in[1] = forward ? cases_matrix(t, 4096, 768) : ids;
    c->sig.out[0] = forward ? y : cases_matrix(DTYPE_F32, 4096, 768);
}

static void
bench_prelu(enum op op, enum dtype t, struct kcase *c)
{
    const struct tensor_desc w = cases_vector(t, CHANNELS);

    c->sig.in[0] = c->sig.in[1] = c->sig.out[0] = image(t);
    if (op != OP_PRELU_DW)
        c->sig.in[op == OP_PRELU ? 1 : 2] = w;
    else
        c->sig.out[0] = tensor_with_dtype(&w, DTYPE_F32);
}

static void
bench_upsample(enum op op, enum dtype t, struct kcase *c)
{
    c->sig.params.upsample.mode = OP_UPSAMPLE_BILINEAR;
    c->sig.in[0] = op == OP_UPSAMPLE ? half_image(t) : image(t);
    c->sig.out[0] = op == OP_UPSAMPLE ? image(t) : half_image(t);
}

static void
bench_group_norm(enum op op, enum dtype t, struct kcase *c)
{
    const bool backward = op == OP_GROUP_NORM_BWD;

    c->sig.params.group_norm.eps = 1e-5;
    c->sig.params.group_norm.n_groups = 8;
    c->sig.in[0] = c->sig.out[0] = image(t);
    c->sig.in[1] = c->sig.in[2] = cases_vector(DTYPE_F32, CHANNELS);
    c->sig.out[1] = c->sig.out[2] = cases_matrix(DTYPE_F32, BATCH, 8);
    if (backward) {
        c->sig.in[3] = c->sig.in[4] = c->sig.out[1];
        c->sig.out[1] = c->sig.out[2] = c->sig.in[2];
        c->sig.in[1] = c->sig.in[0];
        c->fill[4] = CHECK_POSITIVE;
    }
}

static void
bench_rms_norm(enum op op, enum dtype t, struct kcase *c)
{
    const bool backward = op == OP_RMS_NORM_BWD;

    c->sig.params.layer_norm.eps = 1e-6;
    c->sig.params.layer_norm.n_dims = 1;
    c->sig.in[0] = c->sig.out[0] = cases_matrix(t, 4096, 768);
    c->sig.in[1] = cases_vector(DTYPE_F32, 768);
    c->sig.out[1] = cases_vector(DTYPE_F32, 4096);
    if (backward) {
        c->sig.in[3] = c->sig.out[1];
        c->sig.in[2] = c->sig.out[1] = c->sig.in[1];
        c->sig.in[1] = c->sig.in[0];
        c->fill[3] = CHECK_POSITIVE;
    }
}

static void
bench_norm(enum op op, enum dtype t, struct kcase *c)
{
    const bool layer = op == OP_LAYER_NORM || op == OP_LAYER_NORM_BWD;
    const bool backward = op == OP_LAYER_NORM_BWD || op == OP_BATCH_NORM_BWD;
    const struct tensor_desc x = layer ? cases_matrix(t, 4096, 768) : image(t);
    const struct tensor_desc w =
        cases_vector(DTYPE_F32, layer ? 768 : CHANNELS);
    const struct tensor_desc s =
        cases_vector(DTYPE_F32, layer ? 4096 : CHANNELS);

    c->sig.params.batch_norm.eps = 1e-5; /* the same place for both */
    if (layer) {
        c->sig.params.layer_norm.eps = 1e-5;
        c->sig.params.layer_norm.n_dims = 1;
    }
    c->sig.in[0] = c->sig.out[0] = x;
    c->sig.in[1] = backward ? x : w;
    c->sig.in[2] = w;
    c->sig.in[3] = c->sig.in[4] = s;
    c->sig.out[1] = c->sig.out[2] = backward ? w : s;
    c->fill[4] = CHECK_POSITIVE;
}

static void
bench_pool(enum op op, enum dtype t, struct kcase *c)
{
    const bool forward = op == OP_MAX_POOL2D || op == OP_AVG_POOL2D ||
                         op == OP_ADAPTIVE_AVG_POOL2D;

    if (op != OP_ADAPTIVE_AVG_POOL2D && op != OP_ADAPTIVE_AVG_POOL2D_BWD)
        set_window(c);
    c->sig.in[0] = forward ? image(t) : half_image(t);
    c->sig.out[0] = forward ? half_image(t) : image(t);
    if (op == OP_MAX_POOL2D)
        c->sig.out[1] = half_image(DTYPE_I32);
    if (op == OP_MAX_POOL2D_BWD) {
        c->sig.in[1] = half_image(DTYPE_I32);
        c->fill[1] = CHECK_WINDOW;
    }
}

/* 16 x 256 tokens of 256 classes, or as many predictions. */
static bool
bench_loss(enum op op, enum dtype t, struct kcase *c)
{
    const bool metric = op == OP_CORRECT || op == OP_CONFUSION;
    const bool classes = metric || op == OP_CROSS_ENTROPY || op == OP_NLL ||
                         op == OP_CROSS_ENTROPY_BWD || op == OP_NLL_BWD;
    const bool backward = c->sig.n_in == 4;
    const int at = backward ? 1 : 0;
    const struct tensor_desc x = tensor_make(t, 3, (int64_t[]){16, 256, 256});

    if (t != DTYPE_F32)
        return false;
    if (backward)
        c->sig.in[0] = cases_scalar(t);
    c->classes = 256;
    c->sig.in[at] = x;
    c->sig.in[at + 1] = classes ? cases_matrix(DTYPE_I32, 16, 256) : x;
    c->fill[at + 1] = classes ? CHECK_CLASS : CHECK_PROB;
    if (!metric)
        c->sig.in[at + 2] = cases_scalar(t);
    c->sig.params.loss.has_ignore_index = true;
    c->sig.params.loss.ignore_index = -100;
    c->sig.params.loss.beta = c->sig.params.loss.delta = 1;
    c->sig.params.loss.factor = 1;
    c->sig.out[0] = backward             ? x
                    : op == OP_CONFUSION ? cases_matrix(t, 256, 256)
                                         : cases_scalar(t);
    return true;
}

/* Heads of an attention, [B,T,H,D]: to [B,H,T,D], and side by side. */
static void
bench_move(enum op op, enum dtype t, struct kcase *c)
{
    const struct tensor_desc heads =
        tensor_make(t, 4, (int64_t[]){16, 256, 12, 64});
    struct tensor_desc *x = &c->sig.in[0], *y = &c->sig.out[0];

    *x = *y = heads;
    if (op == OP_TRANSPOSE) {
        c->sig.params.transpose.dim0 = 1;
        c->sig.params.transpose.dim1 = 2;
        *y = tensor_make(t, 4, (int64_t[]){16, 12, 256, 64});
    } else if (op == OP_RELAYOUT) {
        *x = *y = image(t);
        x->layout = TENSOR_ROW;
    } else if (op == OP_NARROW || op == OP_NARROW_BWD) {
        c->sig.params.axis.axis = 2;
        (op == OP_NARROW ? y : x)->dim[2] = 6;
    } else if (op == OP_CAT) { /* channels of a U-net */
        c->sig.params.axis.axis = 1;
        c->sig.in[0] = c->sig.in[1] = image(t);
        *y = tensor_make_nhwc(t, BATCH, 2 * CHANNELS, SIDE, SIDE);
    } else if (op == OP_STACK || op == OP_STACK_BWD) {
        c->sig.params.axis.axis = 1;
        *x = *y = cases_matrix(t, 4096, 768);
        c->sig.in[1] = cases_matrix(op == OP_STACK ? t : DTYPE_NONE, 4096, 768);
        *(op == OP_STACK ? y : x) =
            tensor_make(t, 3, (int64_t[]){4096, 2, 768});
    }
}

static void
bench_elementwise(enum op op, enum dtype t, struct kcase *c)
{
    const struct tensor_desc x = cases_vector(t, 4 << 20);

    for (int i = 0; i < c->sig.n_in; i++)
        c->sig.in[i] = x;
    c->sig.out[0] = x;
    if (op == OP_CAST)
        c->sig.out[0].dtype = t == DTYPE_F32 ? DTYPE_F16 : DTYPE_F32;
    if (op == OP_GRAD_ACCUMULATE) {
        c->micro_batch = 1;
        c->sig.in[0].dtype = c->sig.out[0].dtype = DTYPE_F32;
    }
    if (op == OP_DROPOUT || op == OP_DROPOUT_BWD)
        c->sig.params.dropout.p = 0.25;
}

/* A layer of a small GPT: 8 x 256 tokens, 6 heads of 64, causal, packed. */
static void
bench_attention(enum op op, enum dtype t, struct kcase *c)
{
    const bool backward = op == OP_ATTENTION_BWD;
    const struct tensor_desc y = tensor_make(t, 3, (int64_t[]){8, 256, 6 * 64});
    const struct tensor_desc qkv =
        tensor_make(t, 3, (int64_t[]){8, 256, 3 * 6 * 64});
    const struct tensor_desc lse =
        tensor_make(DTYPE_F32, 3, (int64_t[]){8, 6, 256});

    c->sig.params.attention.n_heads = 6;
    c->sig.params.attention.causal = true;
    c->sig.params.attention.scale = 0.125;
    c->sig.in[0] = backward ? y : qkv;
    c->sig.out[0] = backward ? qkv : y;
    if (backward) {
        c->sig.in[1] = qkv;
        c->sig.in[5] = y;
        c->sig.in[6] = lse;
        c->fill[6] = CHECK_POSITIVE;
    } else {
        c->sig.out[1] = lse;
    }
}

/* The product that attention is measured beside: 48 of 256 x 64 by 64 x 256. */
static void
bench_matmul(enum op op, enum dtype t, struct kcase *c)
{
    const struct tensor_desc a = tensor_make(t, 3, (int64_t[]){48, 256, 64});
    const struct tensor_desc y = tensor_make(t, 3, (int64_t[]){48, 256, 256});

    c->sig.params.matmul.b_transposed = true;
    c->sig.in[0] = op == OP_MATMUL ? a : y;
    c->sig.in[1] = a;
    c->sig.out[0] = op == OP_MATMUL ? y : a;
}

/* Two operands: alike for ADD and gradients, a row for SUB, one channel each
 * for MUL, one number a row for DIV, a mask of places for WHERE. */
static void
bench_broadcast(enum op op, enum dtype t, struct kcase *c)
{
    const struct tensor_desc x = tensor_make(t, 3, (int64_t[]){128, 256, 128});
    const struct tensor_desc row = cases_matrix(t, 256, 128);
    const struct tensor_desc channel = cases_vector(t, 128);

    for (int i = 0; i < c->sig.n_in; i++)
        c->sig.in[i] = x;
    c->sig.out[0] = x;
    if (op == OP_SUB)
        c->sig.in[1] = row;
    if (op == OP_MUL || op == OP_MUL_BWD)
        c->sig.in[1] = channel;
    if (op == OP_DIV)
        c->sig.in[1] = tensor_make(t, 3, (int64_t[]){128, 256, 1});
    if (op == OP_SUM_TO || op == OP_DIV_BWD_B)
        c->sig.out[0] = channel;
    if (op == OP_SUM_TO_NEG)
        c->sig.out[0] = row;
    if (op == OP_COMPARE)
        c->sig.out[0].dtype = DTYPE_BOOL;
    if (op == OP_WHERE || op == OP_WHERE_BWD_A || op == OP_WHERE_BWD_B) {
        *(op == OP_WHERE ? &c->sig.in[0] : &c->sig.in[1]) = row;
        (op == OP_WHERE ? &c->sig.in[0] : &c->sig.in[1])->dtype = DTYPE_BOOL;
    }
}

/* Rows of scores; channels of images for MEAN. */
static void
bench_axis(enum op op, enum dtype t, struct kcase *c)
{
    const struct tensor_desc x = cases_matrix(t, 4096, 1000);
    const struct tensor_desc line = cases_vector(t, 4096);
    const bool backward = op == OP_PROD_BWD || op == OP_COSINE_SIMILARITY_BWD;

    c->sig.params.axis.axis = 1;
    c->sig.params.axis.eps = 1e-8;
    for (int i = 0; i < c->sig.n_in; i++)
        c->sig.in[i] = x;
    for (int i = 0; i < c->sig.n_out; i++)
        c->sig.out[i] = x;
    if (backward)
        c->sig.in[0] = line;
    if (op == OP_PROD || op == OP_COSINE_SIMILARITY)
        c->sig.out[0] = line;
}

static void
bench_reduce(enum op op, enum dtype t, struct kcase *c)
{
    const bool spatial = op == OP_MEAN || op == OP_MEAN_BWD;
    const bool forward = op_info(op)->reduce == OP_REDUCE_DIMS;
    const struct tensor_desc x =
        spatial ? image(t) : cases_matrix(t, 4096, 1000);
    const struct tensor_desc y =
        spatial ? cases_matrix(t, BATCH, CHANNELS) : cases_vector(t, 4096);

    c->sig.params.reduce.dims = spatial ? 0xc : 2;
    c->sig.params.reduce.p = 2;
    c->sig.in[0] = forward ? x : y;
    c->sig.out[0] = forward ? y : x;
    c->sig.in[1] = x;
    c->sig.in[2] = y;
}

static void
bench_function(enum op op, enum dtype t, struct kcase *c)
{
    bench_elementwise(op, t, c);
    if (op == OP_SOFTPLUS || op == OP_SOFTPLUS_BWD) {
        c->sig.params.softplus.beta = 1;
        c->sig.params.softplus.threshold = 20;
    } else {
        c->sig.params.pow.exponent = 2.5;
    }
    c->fill[c->sig.n_in - 1] = CHECK_POSITIVE;
}

bool
cases_bench(enum op op, enum dtype t, struct kcase *c)
{
    const struct cases_maker m = {.op = op, .t = t};

    *c = cases_start(&m);
    switch ((int)op) {
    case OP_SCALE_LOSS:
    case OP_STATS_TRACK: return false; /* a handful of numbers */
    case OP_LINEAR:
    case OP_LINEAR_DX:
    case OP_LINEAR_DW: bench_product(op, t, c); return true;
    case OP_MATMUL:
    case OP_MATMUL_DA:
    case OP_MATMUL_DB: bench_matmul(op, t, c); return true;
    case OP_ATTENTION:
    case OP_ATTENTION_BWD: bench_attention(op, t, c); return true;
    case OP_BIAS_GRAD:
        c->sig.in[0] = image(t);
        c->sig.out[0] = cases_vector(DTYPE_F32, CHANNELS);
        return true;
    case OP_CONV2D:
    case OP_CONV2D_DX:
    case OP_CONV2D_DW: bench_conv(op, t, c); return true;
    case OP_CONV1D:
    case OP_CONV1D_DX:
    case OP_CONV1D_DW:
    case OP_CONV_TRANSPOSE2D:
    case OP_CONV_TRANSPOSE2D_DX:
    case OP_CONV_TRANSPOSE2D_DW: bench_conv_lift(op, t, c); return true;
    case OP_BATCH_NORM:
    case OP_BATCH_NORM_EVAL:
    case OP_BATCH_NORM_BWD:
    case OP_LAYER_NORM:
    case OP_LAYER_NORM_BWD: bench_norm(op, t, c); return true;
    case OP_EMBEDDING:
    case OP_EMBEDDING_BWD: bench_embedding(op, t, c); return true;
    case OP_PRELU:
    case OP_PRELU_DX:
    case OP_PRELU_DW: bench_prelu(op, t, c); return true;
    case OP_UPSAMPLE:
    case OP_UPSAMPLE_BWD: bench_upsample(op, t, c); return true;
    case OP_GROUP_NORM:
    case OP_GROUP_NORM_BWD: bench_group_norm(op, t, c); return true;
    case OP_RMS_NORM:
    case OP_RMS_NORM_BWD: bench_rms_norm(op, t, c); return true;
    case OP_MAX_POOL2D:
    case OP_MAX_POOL2D_BWD:
    case OP_AVG_POOL2D:
    case OP_AVG_POOL2D_BWD:
    case OP_ADAPTIVE_AVG_POOL2D:
    case OP_ADAPTIVE_AVG_POOL2D_BWD: bench_pool(op, t, c); return true;
    case OP_FLATTEN:
    case OP_UNFLATTEN:
        c->sig.in[0] = c->sig.out[0] = image(t);
        *(op == OP_FLATTEN ? &c->sig.out[0] : &c->sig.in[0]) =
            cases_matrix(t, BATCH, CHANNELS * SIDE * SIDE);
        return true;
    case OP_RELAYOUT:
    case OP_RESHAPE:
    case OP_TRANSPOSE:
    case OP_NARROW:
    case OP_NARROW_BWD:
    case OP_CAT:
    case OP_STACK:
    case OP_STACK_BWD: bench_move(op, t, c); return true;
    case OP_CROSS_ENTROPY:
    case OP_CROSS_ENTROPY_BWD:
    case OP_MSE:
    case OP_MSE_BWD:
    case OP_L1:
    case OP_L1_BWD:
    case OP_BCE_WITH_LOGITS:
    case OP_BCE_WITH_LOGITS_BWD:
    case OP_NLL:
    case OP_NLL_BWD:
    case OP_SMOOTH_L1:
    case OP_SMOOTH_L1_BWD:
    case OP_HUBER:
    case OP_HUBER_BWD:
    case OP_KL_DIV:
    case OP_KL_DIV_BWD:
    case OP_CONFUSION:
    case OP_CORRECT: return bench_loss(op, t, c);
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_SUM_TO:
    case OP_SUM_TO_NEG:
    case OP_MUL_BWD:
    case OP_DIV_BWD_A:
    case OP_DIV_BWD_B:
    case OP_COMPARE:
    case OP_WHERE:
    case OP_WHERE_BWD_A:
    case OP_WHERE_BWD_B: bench_broadcast(op, t, c); return true;
    case OP_SOFTMAX:
    case OP_SOFTMAX_BWD:
    case OP_LOG_SOFTMAX:
    case OP_LOG_SOFTMAX_BWD:
    case OP_CUMSUM:
    case OP_CUMSUM_BWD:
    case OP_PROD:
    case OP_PROD_BWD:
    case OP_COSINE_SIMILARITY:
    case OP_COSINE_SIMILARITY_BWD: bench_axis(op, t, c); return true;
    case OP_SUM:
    case OP_SUM_BWD:
    case OP_MEAN:
    case OP_MEAN_BWD:
    case OP_NORM:
    case OP_NORM_BWD:
    case OP_LOGSUMEXP:
    case OP_LOGSUMEXP_BWD: bench_reduce(op, t, c); return true;
    case OP_EXP:
    case OP_EXP_BWD:
    case OP_LOG:
    case OP_LOG_BWD:
    case OP_POW:
    case OP_POW_BWD:
    case OP_RECIPROCAL:
    case OP_RECIPROCAL_BWD:
    case OP_RSQRT:
    case OP_RSQRT_BWD:
    case OP_SOFTPLUS:
    case OP_SOFTPLUS_BWD: bench_function(op, t, c); return true;
    default: bench_elementwise(op, t, c); return true;
    }
}
