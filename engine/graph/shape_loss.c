/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of losses and metrics. */
#include "engine/graph/shape_private.h"

/* Which dim of scores counts classes: the one that lies last. */
static int
class_dim(const struct tensor_desc *x)
{
    return x->layout == TENSOR_NHWC ? 1 : x->rank - 1;
}

/* Scores at x, and one class id for each of their rows behind them. */
static int
check_classes(const struct shape_query *q, int x, struct err *err)
{
    const struct tensor_desc *scores = &q->in[x], *target = &q->in[x + 1];
    struct tensor_desc want = {.layout = TENSOR_ROW};

    if (scores->rank < 2)
        return shape_misfit(q, x, x + 1, err);
    for (int i = 0; i < scores->rank; i++)
        if (i != class_dim(scores))
            want.dim[want.rank++] = scores->dim[i];
    if (!tensor_same_shape(&want, target) || target->layout != TENSOR_ROW)
        return shape_misfit(q, x, x + 1, err);
    return 0;
}

int
shape_infer_classes(const struct shape_query *q, struct tensor_desc *out,
                    struct err *err)
{
    out[0] = tensor_make(DTYPE_F32, 0, NULL);
    return check_classes(q, 0, err);
}

int
shape_infer_classes_bwd(const struct shape_query *q, struct tensor_desc *out,
                        struct err *err)
{
    out[0] = q->in[1];
    return check_classes(q, 1, err);
}

int
shape_infer_confusion(const struct shape_query *q, struct tensor_desc *out,
                      struct err *err)
{
    int64_t k;

    if (check_classes(q, 0, err) != 0)
        return err->code;
    k = q->in[0].dim[class_dim(&q->in[0])];
    out[0] = tensor_make(DTYPE_F32, 2, (int64_t[]){k, k});
    return 0;
}

/* Prediction and target of one shape. */
int
shape_infer_regression(const struct shape_query *q, struct tensor_desc *out,
                       struct err *err)
{
    out[0] = tensor_make(DTYPE_F32, 0, NULL);
    return shape_need_same(q, 0, 1, err);
}

int
shape_infer_regression_bwd(const struct shape_query *q, struct tensor_desc *out,
                           struct err *err)
{
    out[0] = q->in[1];
    return shape_need_same(q, 1, 2, err);
}
