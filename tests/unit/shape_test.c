/* SPDX-License-Identifier: Apache-2.0 */
/* What every op makes of its inputs, and what it does not take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/graph/shape.h"

/* "f32[2,3,4,4]nhwc" or "f32[2,3,4]nlc", as tensor_format() writes it; "-" is an absent one. */
static struct tensor_desc
parse_desc(const char *text)
{
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16,
                                        DTYPE_I32, DTYPE_BOOL};
    const char *s = strchr(text, '[');
    struct tensor_desc t = {.dtype = DTYPE_NONE};

    if (strcmp(text, "-") == 0)
        return t;
    assert_non_null(s);
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        const char *name = dtype_short_name(dtypes[i]);

        if (strlen(name) == (size_t)(s - text) &&
            strncmp(name, text, (size_t)(s - text)) == 0)
            t.dtype = dtypes[i];
    }
    assert_int_not_equal(t.dtype, DTYPE_NONE);
    for (s++; *s != ']'; s += *s == ',') {
        char *end;

        t.dim[t.rank++] = strtoll(s, &end, 10);
        s = end;
    }
    t.layout = s[1] == 'n' ? TENSOR_NHWC : TENSOR_ROW;
    return t;
}

struct example {
    enum op op;
    union op_params params;
    const char *in, *out; /* parted by spaces; out: or a sentence, after "!" */
    const char *like;
    enum dtype dtype; /* out_dtype */
};

static void
gather(const struct example *e, struct shape_query *q)
{
    char text[256], *save = NULL;
    int n = 0;

    *q = (struct shape_query){
        .op = e->op, .params = &e->params, .out_dtype = e->dtype};
    snprintf(text, sizeof(text), "%s", e->in);
    for (char *s = strtok_r(text, " ", &save); s != NULL;
         s = strtok_r(NULL, " ", &save))
        q->in[n++] = parse_desc(s);
}

static void
check(const struct example *e)
{
    struct tensor_desc out[OP_MAX_OUT], like;
    struct shape_query q;
    char have[640] = "", one[96];
    struct err err;
    int rc;

    gather(e, &q);
    if (e->like != NULL) {
        like = parse_desc(e->like);
        q.like = &like;
    }
    err_clear(&err);
    rc = shape_infer(&q, out, &err);
    if (rc != 0) {
        assert_int_equal(rc, ERR_SPEC);
        snprintf(have, sizeof(have), "!%s", err.msg);
    }
    for (int i = 0; i < op_info(e->op)->n_out && rc == 0; i++) {
        const size_t at = strlen(have);

        snprintf(have + at, sizeof(have) - at, "%s%s", i > 0 ? " " : "",
                 out[i].dtype == DTYPE_NONE
                     ? "-"
                     : tensor_format(&out[i], one, sizeof(one)));
    }
    if (strcmp(have, e->out) != 0)
        fail_msg("%s of %s makes %s, wanted %s", op_info(e->op)->name, e->in,
                 have, e->out);
}

#define CONV(s, p, d, g)                                                       \
    {                                                                          \
        .conv = {                                                              \
            .stride = {s, s},                                                  \
            .padding = {p, p},                                                 \
            .dilation = {d, d},                                                \
            .groups = g                                                        \
        }                                                                      \
    }
#define HEADS(n)                                                               \
    {                                                                          \
        .attention = {.n_heads = n }                                           \
    }
#define AXIS(n)                                                                \
    {                                                                          \
        .axis = {.axis = n }                                                   \
    }
#define PART(n, from, len)                                                     \
    {                                                                          \
        .axis = {.axis = n, .start = from, .length = len }                     \
    }
#define DIMS(d, k)                                                             \
    {                                                                          \
        .reduce = {.dims = d, .keepdim = k }                                   \
    }
#define TRAIL(n)                                                               \
    {                                                                          \
        .layer_norm = {.n_dims = n }                                           \
    }
#define GROUPS(n)                                                              \
    {                                                                          \
        .group_norm = {.n_groups = n }                                         \
    }
#define NONE                                                                   \
    {                                                                          \
        .conv = { {0} }                                                        \
    }

static const struct example examples[] = {
    {OP_CAST, NONE, "f32[2,3]", "f16[2,3]", NULL, DTYPE_F16},
    {OP_SCALE_LOSS, NONE, "f32[] f32[]", "f32[]", NULL, 0},
    {OP_GRAD_ACCUMULATE, NONE, "f32[3] f32[3]", "f32[3]", NULL, 0},
    {OP_STATS_TRACK, NONE, "f32[3] f32[3] f32[3] f32[3]", "f32[3] f32[3]", NULL,
     0},
    {OP_LINEAR, NONE, "f16[2,5,3] f16[4,3] f16[4]", "f16[2,5,4]", NULL, 0},
    {OP_LINEAR_DX, NONE, "f16[2,5,4] f16[4,3]", "f16[2,5,3]", NULL, 0},
    {OP_LINEAR_DW, NONE, "f16[2,5,4] f16[2,5,3]", "f32[4,3]", NULL, 0},
    {OP_LINEAR_DW, NONE, "f16[2,4] f16[2,3]", "f16[4,3]", NULL, DTYPE_F16},
    {OP_BIAS_GRAD, NONE, "f16[2,5,4,4]nhwc", "f32[5]", NULL, 0},
    {OP_CONV2D, CONV(2, 1, 1, 1), "f32[2,3,8,8]nhwc f32[4,3,3,3] -",
     "f32[2,4,4,4]nhwc", NULL, 0},
    {OP_CONV2D_DX, CONV(2, 1, 1, 1), "f32[2,4,4,4]nhwc f32[4,3,3,3]",
     "f32[2,3,8,8]nhwc", "f32[2,3,8,8]nhwc", 0},
    {OP_CONV2D_DW, CONV(2, 1, 1, 1), "f32[2,4,4,4]nhwc f32[2,3,8,8]nhwc",
     "f32[4,3,3,3]", "f32[4,3,3,3]", 0},
    {OP_CONV1D, CONV(1, 0, 2, 2), "f32[2,4,9]nlc f32[6,2,3] f32[6]",
     "f32[2,6,5]nlc", NULL, 0},
    {OP_CONV1D, CONV(1, 0, 1, 1), "f32[2,4,2]nlc f32[6,4,3] -",
     "!a kernel of 3 does not fit into signals of 2 with padding 0", NULL, 0},
    {OP_CONV1D_DX, CONV(1, 0, 1, 1), "f32[2,6,7]nlc f32[6,4,3]",
     "f32[2,4,9]nlc", "f32[2,4,9]nlc", 0},
    {OP_CONV1D_DW, CONV(1, 0, 1, 1), "f32[2,6,7]nlc f32[2,4,9]nlc",
     "f32[6,4,3]", "f32[6,4,3]", 0},
    {OP_CONV_TRANSPOSE2D, CONV(2, 1, 1, 2),
     "f32[2,4,5,5]nhwc f32[4,3,3,3] f32[6]", "f32[2,6,9,9]nhwc", NULL, 0},
    {OP_CONV_TRANSPOSE2D, CONV(1, 3, 1, 1), "f32[2,4,5,5]nhwc f32[4,3,1,1] -",
     "!padding 3 leaves nothing of images of 5x5", NULL, 0},
    {OP_CONV_TRANSPOSE2D_DX, CONV(2, 1, 1, 1), "f32[2,3,9,9]nhwc f32[4,3,3,3]",
     "f32[2,4,5,5]nhwc", "f32[2,4,5,5]nhwc", 0},
    {OP_CONV_TRANSPOSE2D_DW, CONV(2, 1, 1, 1),
     "f32[2,3,9,9]nhwc f32[2,4,5,5]nhwc", "f32[4,3,3,3]", "f32[4,3,3,3]", 0},
    {OP_MATMUL, NONE, "f32[2,3,4] f32[2,4,5]", "f32[2,3,5]", NULL, 0},
    {OP_MATMUL,
     {.matmul = {true, true}},
     "f32[4,3] f32[5,4]",
     "f32[3,5]",
     NULL,
     0},
    {OP_MATMUL, NONE, "f32[2,3,4] f32[3,4,5]",
     "!a [2,3,4] and b [3,4,5] do not fit together", NULL, 0},
    {OP_MATMUL_DA,
     {.matmul = {true, false}},
     "f32[2,3,5] f32[2,4,5]",
     "f32[2,4,3]",
     NULL,
     0},
    {OP_MATMUL_DB,
     {.matmul = {false, true}},
     "f32[2,3,5] f32[2,3,4]",
     "f32[2,5,4]",
     NULL,
     0},
    {OP_ATTENTION, HEADS(2), "f16[3,5,12] - - -", "f16[3,5,4] f32[3,2,5]", NULL,
     0},
    {OP_ATTENTION, HEADS(2), "f16[3,5,4] f16[3,7,4] f16[3,7,4] bool[3,5,7]",
     "f16[3,5,4] f32[3,2,5]", NULL, 0},
    {OP_ATTENTION, HEADS(2), "f16[3,5,4] f16[3,7,4] f16[3,7,4] bool[3,1,7]",
     "f16[3,5,4] f32[3,2,5]", NULL, 0},
    {OP_ATTENTION, HEADS(3), "f16[3,5,4] f16[3,7,4] f16[3,7,4] -",
     "!3 heads do not divide 4 features", NULL, 0},
    {OP_ATTENTION, HEADS(2), "f16[3,5,4] f16[3,7,4] f16[3,7,4] bool[4,5,7]",
     "!q [3,5,4] and mask [4,5,7] do not fit together", NULL, 0},
    {OP_ATTENTION_BWD, HEADS(2),
     "f16[3,5,4] f16[3,5,12] - - - f16[3,5,4] f32[3,2,5]", "f16[3,5,12] - -",
     NULL, 0},
    {OP_ATTENTION_BWD, HEADS(2),
     "f16[3,5,4] f16[3,5,4] f16[3,7,4] f16[3,7,4] - f16[3,5,4] f32[3,2,5]",
     "f16[3,5,4] f16[3,7,4] f16[3,7,4]", NULL, 0},
    {OP_EMBEDDING, NONE, "i32[2,5] f32[9,4]", "f32[2,5,4]", NULL, 0},
    {OP_EMBEDDING_BWD, NONE, "f32[2,5,4] i32[2,5]", "f32[9,4]", "f32[9,4]", 0},
    {OP_PRELU, NONE, "f16[2,3,4,4]nhwc f16[3]", "f16[2,3,4,4]nhwc", NULL, 0},
    {OP_PRELU, NONE, "f16[2,3,4] f16[3]",
     "!x [2,3,4] and w [3] do not fit together", NULL, 0},
    {OP_PRELU_DX, NONE, "f16[2,3] f16[2,3] f16[1]", "f16[2,3]", NULL, 0},
    {OP_PRELU_DW, NONE, "f16[2,3] f16[2,3]", "f32[3]", "f32[3]", 0},
    {OP_BATCH_NORM, NONE, "f16[2,3,5]nlc f32[3] f32[3]",
     "f16[2,3,5]nlc f32[3] f32[3]", NULL, 0},
    {OP_BATCH_NORM_EVAL, NONE, "f16[2,3] - - f32[3] f32[3]", "f16[2,3]", NULL,
     0},
    {OP_BATCH_NORM_BWD, NONE, "f16[2,3] f16[2,3] f32[3] f32[3] f32[3]",
     "f16[2,3] f32[3] f32[3]", NULL, 0},
    {OP_LAYER_NORM, TRAIL(2), "f32[2,3,4] f32[3,4] -",
     "f32[2,3,4] f32[2] f32[2]", NULL, 0},
    {OP_LAYER_NORM_BWD, TRAIL(1), "f32[2,3] f32[2,3] - f32[2] f32[2]",
     "f32[2,3] f32[3] f32[3]", NULL, 0},
    {OP_GROUP_NORM, GROUPS(2), "f32[3,4,5,5]nhwc f32[4] f32[4]",
     "f32[3,4,5,5]nhwc f32[3,2] f32[3,2]", NULL, 0},
    {OP_GROUP_NORM, GROUPS(3), "f32[3,4] - -", "!cannot take x [3,4]", NULL, 0},
    {OP_GROUP_NORM_BWD, GROUPS(2), "f32[3,4] f32[3,4] - f32[3,2] f32[3,2]",
     "f32[3,4] f32[4] f32[4]", NULL, 0},
    {OP_RMS_NORM, TRAIL(1), "f32[2,3,4] f32[4]", "f32[2,3,4] f32[2,3]", NULL,
     0},
    {OP_RMS_NORM_BWD, TRAIL(1), "f32[2,3,4] f32[2,3,4] f32[4] f32[2,3]",
     "f32[2,3,4] f32[4]", NULL, 0},
    {OP_SOFTMAX, AXIS(1), "f32[2,3,4,4]nhwc", "f32[2,3,4,4]nhwc", NULL, 0},
    {OP_SOFTMAX, AXIS(2), "f32[2,3]", "!there is no axis 2 of 2", NULL, 0},
    {OP_SOFTMAX_BWD, AXIS(1), "f32[2,3] f32[2,3]", "f32[2,3]", NULL, 0},
    {OP_LOG_SOFTMAX, AXIS(1), "f32[2,3]", "f32[2,3]", NULL, 0},
    {OP_LOG_SOFTMAX_BWD, AXIS(1), "f32[2,3] f32[2,3]", "f32[2,3]", NULL, 0},
    {OP_CUMSUM, AXIS(1), "f32[2,3]", "f32[2,3]", NULL, 0},
    {OP_CUMSUM_BWD, AXIS(1), "f32[2,3]", "f32[2,3]", NULL, 0},
    {OP_PROD, AXIS(1), "f32[2,3,4]", "f32[2,4]", NULL, 0},
    {OP_PROD,
     {.axis = {.axis = 2, .keepdim = true}},
     "f32[2,3,4]",
     "f32[2,3,1]",
     NULL,
     0},
    {OP_PROD_BWD, AXIS(1), "f32[2,4] f32[2,3,4]", "f32[2,3,4]", NULL, 0},
    {OP_SUM, DIMS(6, false), "f32[2,3,4,5]", "f32[2,5]", NULL, 0},
    {OP_SUM, DIMS(8, false), "f32[2,3,4,5]nhwc", "f32[2,3,4]nlc", NULL, 0},
    {OP_SUM, DIMS(2, false), "f32[2,3,4,5]nhwc", "f32[2,4,5]", NULL, 0},
    {OP_SUM_BWD, DIMS(6, false), "f32[2,5]", "f32[2,3,4,5]", "f32[2,3,4,5]", 0},
    {OP_SUM_BWD, DIMS(6, false), "f32[2,4]", "!cannot take dy [2,4]",
     "f32[2,3,4,5]", 0},
    {OP_MEAN, DIMS(12, true), "f16[2,3,4,5]nhwc", "f16[2,3,1,1]nhwc", NULL, 0},
    {OP_MEAN_BWD, DIMS(12, true), "f16[2,3,1,1]nhwc", "f16[2,3,4,5]nhwc",
     "f16[2,3,4,5]nhwc", 0},
    {OP_NORM, DIMS(2, false), "f32[2,3]", "f32[2]", NULL, 0},
    {OP_NORM_BWD, DIMS(2, false), "f32[2] f32[2,3] f32[2]", "f32[2,3]", NULL,
     0},
    {OP_LOGSUMEXP, DIMS(2, true), "f32[2,3]", "f32[2,1]", NULL, 0},
    {OP_LOGSUMEXP_BWD, DIMS(2, true), "f32[2,1] f32[2,3] f32[2,1]", "f32[2,3]",
     NULL, 0},
    {OP_COSINE_SIMILARITY, AXIS(1), "f32[2,3] f32[2,3]", "f32[2]", NULL, 0},
    {OP_COSINE_SIMILARITY_BWD, AXIS(1), "f32[2] f32[2,3] f32[2,3]",
     "f32[2,3] f32[2,3]", NULL, 0},
    {OP_ADD, NONE, "f16[2,3,4] f16[3,4]", "f16[2,3,4]", NULL, 0},
    {OP_ADD, NONE, "f16[3,1] f16[2,1,4]", "f16[2,3,4]", NULL, 0},
    {OP_ADD, NONE, "f16[2,3,4,4]nhwc -", "f16[2,3,4,4]nhwc", NULL, 0},
    {OP_ADD, NONE, "f16[2,3,4,4]nhwc f16[4,4]",
     "!a [2,3,4,4] and b [4,4] do not fit together", NULL, 0},
    {OP_ADD, NONE, "f16[2,3] f32[2,3]", "!b is float32 and must be float16",
     NULL, 0},
    {OP_SUB, NONE, "f16[2,3,4,4]nhwc f16[2,3,1,1]nhwc", "f16[2,3,4,4]nhwc",
     NULL, 0},
    {OP_MUL, NONE, "f32[2,3] f32[1]", "f32[2,3]", NULL, 0},
    {OP_DIV, NONE, "f32[2,3] f32[2,4]",
     "!a [2,3] and b [2,4] do not fit together", NULL, 0},
    {OP_SUM_TO, NONE, "f32[2,3,4]", "f32[3,1]", "f32[3,1]", 0},
    {OP_SUM_TO_NEG, NONE, "f32[2,3,4]", "!cannot take dy [2,3,4]", "f32[5]", 0},
    {OP_MUL_BWD, NONE, "f32[2,3] f32[3]", "f32[2,3]", "f32[2,3]", 0},
    {OP_DIV_BWD_A, NONE, "f32[2,3] -", "f32[2,3]", "f32[2,3]", 0},
    {OP_DIV_BWD_B, NONE, "f32[2,3] f32[2,3] f32[1,3]", "f32[1,3]", "f32[1,3]",
     0},
    {OP_COMPARE, NONE, "i32[2,3] -", "bool[2,3]", NULL, 0},
    {OP_COMPARE, NONE, "f16[2,3] f16[2,1]", "bool[2,3]", NULL, 0},
    {OP_COMPARE, NONE, "i32[2,3] i32[2,3]",
     "!compares floats of one type, or int32 with a number", NULL, 0},
    {OP_WHERE, NONE, "bool[2,3] f32[1,3] -", "f32[2,3]", NULL, 0},
    {OP_WHERE, NONE, "bool[2,1] - f16[2,3]", "f16[2,3]", NULL, 0},
    {OP_WHERE, NONE, "f32[2,3] f32[2,3] -",
     "!cond is float32 and must be a mask", NULL, 0},
    {OP_WHERE_BWD_A, NONE, "f32[2,3] bool[2,1]", "f32[1,3]", "f32[1,3]", 0},
    {OP_WHERE_BWD_B, NONE, "f32[2,3] bool[2,3]", "f32[2,3]", "f32[2,3]", 0},
    {OP_DROPOUT, NONE, "f16[2,3]", "f16[2,3]", NULL, 0},
    {OP_DROPOUT_BWD, NONE, "f16[2,3]", "f16[2,3]", NULL, 0},
    {OP_MAX_POOL2D,
     {.pool = {{2, 2}, {2, 2}, {0, 0}, false}},
     "f16[2,3,5,4]nhwc",
     "f16[2,3,2,2]nhwc i32[2,3,2,2]nhwc",
     NULL,
     0},
    {OP_MAX_POOL2D_BWD, NONE, "f16[2,3,2,2]nhwc i32[2,3,2,2]nhwc",
     "f16[2,3,5,4]nhwc", "f16[2,3,5,4]nhwc", 0},
    {OP_AVG_POOL2D,
     {.pool = {{2, 2}, {1, 1}, {1, 1}, false}},
     "f16[2,3,5,4]nhwc",
     "f16[2,3,6,5]nhwc",
     NULL,
     0},
    {OP_AVG_POOL2D_BWD, NONE, "f16[2,3,6,5]nhwc", "f16[2,3,5,4]nhwc",
     "f16[2,3,5,4]nhwc", 0},
    {OP_ADAPTIVE_AVG_POOL2D, NONE, "f16[2,3,5,4]nhwc", "f16[2,3,1,1]nhwc",
     "f16[2,3,1,1]nhwc", 0},
    {OP_ADAPTIVE_AVG_POOL2D_BWD, NONE, "f16[2,3,1,1]nhwc", "f16[2,3,5,4]nhwc",
     "f16[2,3,5,4]nhwc", 0},
    {OP_FLATTEN, NONE, "f16[2,3,5,4]nhwc", "f16[2,60]", NULL, 0},
    {OP_UNFLATTEN, NONE, "f16[2,60]", "f16[2,3,5,4]nhwc", "f16[2,3,5,4]nhwc",
     0},
    {OP_RELAYOUT, NONE, "f16[2,3,5]", "f16[2,3,5]nlc", "f16[2,3,5]nlc", 0},
    {OP_RELAYOUT, NONE, "f16[2,3]", "!cannot take x [2,3]", "f16[2,3]", 0},
    {OP_RESHAPE, NONE, "bool[2,3,5]", "bool[2,15]", "bool[2,15]", 0},
    {OP_RESHAPE, NONE, "f16[2,3,5]nlc", "!cannot take x [2,3,5]", "f16[2,15]",
     0},
    {OP_TRANSPOSE, {.transpose = {1, 2}}, "f16[2,3,5]", "f16[2,5,3]", NULL, 0},
    {OP_NARROW, PART(1, 1, 2), "f16[2,3,4,4]nhwc", "f16[2,2,4,4]nhwc", NULL, 0},
    {OP_NARROW, PART(1, 2, 2), "f16[2,3]", "!cannot take x [2,3]", NULL, 0},
    {OP_NARROW_BWD, PART(0, 1, 2), "f32[2,3]", "f32[6,3]", "f32[6,3]", 0},
    {OP_CAT, AXIS(1), "f16[2,3] f16[2,1] f16[2,4] - - - - -", "f16[2,8]", NULL,
     0},
    {OP_CAT, AXIS(1), "f16[2,3] f16[3,3] - - - - - -",
     "!a [2,3] and b [3,3] do not fit together", NULL, 0},
    {OP_STACK, AXIS(2), "f16[2,3] f16[2,3] f16[2,3] - - - - -", "f16[2,3,3]",
     NULL, 0},
    {OP_STACK, AXIS(1), "f16[2,3] f16[2,3] - - - - - -", "f16[2,2,3]", NULL, 0},
    {OP_STACK_BWD, PART(1, 1, 0), "f16[2,2,3]", "f16[2,3]", NULL, 0},
    {OP_UPSAMPLE, NONE, "f32[2,3,4,4]nhwc", "f32[2,3,8,8]nhwc",
     "f32[2,3,8,8]nhwc", 0},
    {OP_UPSAMPLE_BWD, NONE, "f32[2,3,8,8]nhwc", "f32[2,3,4,4]nhwc",
     "f32[2,3,4,4]nhwc", 0},
    {OP_CROSS_ENTROPY, NONE, "f32[2,3] i32[2] f32[]", "f32[]", NULL, 0},
    {OP_CROSS_ENTROPY, NONE, "f32[2,5,3] i32[2,5] f32[]", "f32[]", NULL, 0},
    {OP_CROSS_ENTROPY, NONE, "f32[2,3,5,5]nhwc i32[2,5,5] f32[]", "f32[]", NULL,
     0},
    {OP_CROSS_ENTROPY, NONE, "f32[2,5,3] i32[2,3] f32[]",
     "!x [2,5,3] and target [2,3] do not fit together", NULL, 0},
    {OP_CROSS_ENTROPY_BWD, NONE, "f32[] f32[2,5,3] i32[2,5] f32[]",
     "f32[2,5,3]", NULL, 0},
    {OP_NLL, NONE, "f32[2,3] i32[2] f32[]", "f32[]", NULL, 0},
    {OP_NLL_BWD, NONE, "f32[] f32[2,3] i32[2] f32[]", "f32[2,3]", NULL, 0},
    {OP_CORRECT, NONE, "f16[2,3,5,5]nhwc i32[2,5,5]", "f32[]", NULL, 0},
    {OP_CONFUSION, NONE, "f16[2,3,5,5]nhwc i32[2,5,5]", "f32[3,3]", NULL, 0},
};

static void
test_shape_of_every_op(void **state)
{
    bool seen[OP_COUNT] = {false};

    (void)state;
    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
        check(&examples[i]);
        seen[examples[i].op] = true;
    }
    /* Functions of one element, and losses of numbers, are alike. */
    for (int op = OP_RELU; op <= OP_SOFTPLUS_BWD; op++) {
        const bool two = op_info((enum op)op)->n_in == 2;

        check(&(struct example){(enum op)op, NONE,
                                two ? "f16[2,3] f16[2,3]" : "f16[2,3]",
                                "f16[2,3]", NULL, 0});
        seen[op] = true;
    }
    for (int op = OP_MSE; op <= OP_KL_DIV_BWD; op++) {
        const bool back = op_info((enum op)op)->n_in == 4;

        if (op == OP_NLL || op == OP_NLL_BWD)
            continue;
        check(&(struct example){(enum op)op, NONE,
                                back ? "f32[] f32[2,3] f32[2,3] f32[]"
                                     : "f32[2,3] f32[2,3] f32[]",
                                back ? "f32[2,3]" : "f32[]", NULL, 0});
        seen[op] = true;
    }
    for (int op = 0; op < OP_COUNT; op++)
        if (!seen[op])
            fail_msg("%s is not looked at", op_info((enum op)op)->name);
}

/* Dim 0 of what a table of positions broadcasts from counts no samples. */
static void
test_shape_keeps_samples(void **state)
{
    const struct tensor_desc x = parse_desc("f32[4,5,3]");
    const struct tensor_desc table = parse_desc("f32[5,3]");
    const struct tensor_desc lone = parse_desc("f32[1,5,3]");

    (void)state;
    assert_true(shape_keeps_samples(OP_ADD, 0, &x, &x));
    assert_true(shape_keeps_samples(OP_SUM_TO, 0, &x, &x));
    assert_false(shape_keeps_samples(OP_SUM_TO, 0, &x, &table));
    assert_false(shape_keeps_samples(OP_SUM_TO, 0, &x, &lone));
    assert_true(shape_keeps_samples(OP_ATTENTION, 1, &x, &x));
    assert_false(shape_keeps_samples(OP_LINEAR_DW, 0, &x, &table));
    assert_false(shape_keeps_samples(OP_CONFUSION, 0, &x, &table));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shape_of_every_op),
        cmocka_unit_test(test_shape_keeps_samples),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
