/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of products of rows and matrices, attention and embeddings. */
#include "engine/graph/shape_private.h"

#include <assert.h>

int
shape_infer_linear(const struct shape_query *q, struct tensor_desc *out,
                   struct err *err)
{
    const struct tensor_desc *x = &q->in[0], *w = &q->in[1];

    if (x->rank < 2 || x->layout != TENSOR_ROW || w->rank != 2 ||
        x->dim[x->rank - 1] != w->dim[1])
        return shape_misfit(q, 0, 1, err);
    out[0] = *x;
    out[0].dim[x->rank - 1] = w->dim[0];
    return shape_need_vector(q, 2, w->dim[0], err);
}

int
shape_infer_linear_dx(const struct shape_query *q, struct tensor_desc *out,
                      struct err *err)
{
    const struct tensor_desc *dy = &q->in[0], *w = &q->in[1];

    if (dy->rank < 2 || w->rank != 2 || dy->dim[dy->rank - 1] != w->dim[0])
        return shape_misfit(q, 0, 1, err);
    out[0] = *dy;
    out[0].dim[dy->rank - 1] = w->dim[1];
    return 0;
}

/* Do the first n dims agree? */
static bool
same_leading(const struct tensor_desc *a, const struct tensor_desc *b, int n)
{
    for (int i = 0; i < n; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

int
shape_infer_linear_dw(const struct shape_query *q, struct tensor_desc *out,
                      struct err *err)
{
    const struct tensor_desc *dy = &q->in[0], *x = &q->in[1];

    if (dy->rank < 2 || dy->rank != x->rank ||
        !same_leading(dy, x, dy->rank - 1))
        return shape_misfit(q, 0, 1, err);
    out[0] = tensor_make(
        DTYPE_NONE, 2, (int64_t[]){dy->dim[dy->rank - 1], x->dim[x->rank - 1]});
    return 0;
}

int
shape_infer_bias_grad(const struct shape_query *q, struct tensor_desc *out,
                      struct err *err)
{
    const struct tensor_desc *dy = &q->in[0];
    const int channel = dy->layout == TENSOR_NHWC ? 1 : dy->rank - 1;

    if (dy->rank < 2)
        return shape_misfit(q, 0, 0, err);
    out[0] = tensor_make(DTYPE_NONE, 1, &dy->dim[channel]);
    return 0;
}

/* ---- matmul -------------------------------------------------------------- */

/* Two matrices (or stacks of them) that `outer` dims lead. */
static bool
are_matrices(const struct tensor_desc *a, const struct tensor_desc *b)
{
    return a->rank >= 2 && a->rank == b->rank && a->layout == TENSOR_ROW &&
           b->layout == TENSOR_ROW && same_leading(a, b, a->rank - 2);
}

int
shape_infer_matmul(const struct shape_query *q, struct tensor_desc *out,
                   struct err *err)
{
    const struct tensor_desc *a = &q->in[0], *b = &q->in[1];
    const int r = a->rank;
    const int ta = q->params->matmul.a_transposed;
    const int tb = q->params->matmul.b_transposed;

    if (!are_matrices(a, b) || a->dim[r - 1 - ta] != b->dim[r - 2 + tb])
        return shape_misfit(q, 0, 1, err);
    out[0] = *a;
    out[0].dim[r - 2] = a->dim[r - 2 + ta];
    out[0].dim[r - 1] = b->dim[r - 1 - tb];
    return 0;
}

/* (dy, b) -> da: dy [..,M,N], b [..,K,N]. */
int
shape_infer_matmul_da(const struct shape_query *q, struct tensor_desc *out,
                      struct err *err)
{
    const struct tensor_desc *dy = &q->in[0], *b = &q->in[1];
    const int r = dy->rank;
    const int ta = q->params->matmul.a_transposed;
    const int tb = q->params->matmul.b_transposed;

    if (!are_matrices(dy, b) || dy->dim[r - 1] != b->dim[r - 1 - tb])
        return shape_misfit(q, 0, 1, err);
    out[0] = *dy;
    out[0].dim[r - 2 + ta] = dy->dim[r - 2];
    out[0].dim[r - 1 - ta] = b->dim[r - 2 + tb];
    return 0;
}

/* (dy, a) -> db: dy [..,M,N], a [..,M,K]. */
int
shape_infer_matmul_db(const struct shape_query *q, struct tensor_desc *out,
                      struct err *err)
{
    const struct tensor_desc *dy = &q->in[0], *a = &q->in[1];
    const int r = dy->rank;
    const int ta = q->params->matmul.a_transposed;
    const int tb = q->params->matmul.b_transposed;

    if (!are_matrices(dy, a) || dy->dim[r - 2] != a->dim[r - 2 + ta])
        return shape_misfit(q, 0, 1, err);
    out[0] = *dy;
    out[0].dim[r - 2 + tb] = a->dim[r - 1 - ta];
    out[0].dim[r - 1 - tb] = dy->dim[r - 1];
    return 0;
}

/* ---- attention ------------------------------------------------------------
 * B sequences of T queries and S keys; C features, cut into heads. */

/* The inputs are dense rows that belong together; q stands at `at`. */
static int
check_heads(const struct shape_query *q, int at, int64_t *n_keys,
            struct err *err)
{
    const struct tensor_desc *t = q->in + at;
    const bool packed = t[1].dtype == DTYPE_NONE;
    const int64_t heads = q->params->attention.n_heads;
    int64_t size;

    if (t->rank != 3 || t->layout != TENSOR_ROW ||
        packed != (t[2].dtype == DTYPE_NONE) || (packed && t->dim[2] % 3 != 0))
        return shape_misfit(q, at, at, err);
    size = t->dim[2] / (packed ? 3 : 1);
    if (heads < 1 || size % heads != 0)
        return err_set(err, ERR_SPEC, "%lld heads do not divide %lld features",
                       (long long)heads, (long long)size);
    *n_keys = t->dim[1];
    if (packed)
        return 0;
    *n_keys = t[1].dim[1];
    if (t[1].rank != 3 || t[1].layout != TENSOR_ROW ||
        t[1].dim[0] != t->dim[0] || t[1].dim[2] != t->dim[2])
        return shape_misfit(q, at, at + 1, err);
    return shape_need_same(q, at + 1, at + 2, err);
}

static int
check_mask(const struct shape_query *q, int at, int64_t n_keys, struct err *err)
{
    const struct tensor_desc *x = &q->in[at], *m = &q->in[at + 3];

    if (m->dtype == DTYPE_NONE)
        return 0;
    if (m->layout == TENSOR_ROW && m->dim[m->rank - 1] == n_keys &&
        (m->rank == 2 ? m->dim[0] == x->dim[0] || m->dim[0] == x->dim[1]
                      : m->rank == 3 && m->dim[0] == x->dim[0] &&
                            (m->dim[1] == x->dim[1] || m->dim[1] == 1)))
        return 0;
    return shape_misfit(q, at, at + 3, err);
}

/* y and lse of the q that stands at `at`. */
static void
attend(const struct shape_query *q, int at, struct tensor_desc y[2])
{
    const struct tensor_desc *x = &q->in[at];

    y[0] = *x;
    if (q->in[at + 1].dtype == DTYPE_NONE)
        y[0].dim[2] = x->dim[2] / 3;
    y[1] = tensor_make(
        DTYPE_F32, 3,
        (int64_t[]){x->dim[0], q->params->attention.n_heads, x->dim[1]});
}

int
shape_infer_attention(const struct shape_query *q, struct tensor_desc *out,
                      struct err *err)
{
    int64_t n_keys = 0;

    if (check_heads(q, 0, &n_keys, err) != 0 ||
        check_mask(q, 0, n_keys, err) != 0)
        return err->code;
    attend(q, 0, out);
    return 0;
}

int
shape_infer_attention_bwd(const struct shape_query *q, struct tensor_desc *out,
                          struct err *err)
{
    struct tensor_desc want[2];
    int64_t n_keys = 0;

    if (check_heads(q, 1, &n_keys, err) != 0 ||
        check_mask(q, 1, n_keys, err) != 0)
        return err->code;
    attend(q, 1, want);
    if (!tensor_same_shape(&q->in[0], &want[0]))
        return shape_misfit(q, 0, 1, err);
    if (!tensor_same_shape(&q->in[5], &want[0]))
        return shape_misfit(q, 5, 1, err);
    if (!tensor_same_shape(&q->in[6], &want[1]))
        return shape_misfit(q, 6, 1, err);
    for (int i = 0; i < 3; i++)
        out[i] = q->in[1 + i];
    return 0;
}

/* ---- embedding ----------------------------------------------------------- */

int
shape_infer_embedding(const struct shape_query *q, struct tensor_desc *out,
                      struct err *err)
{
    const struct tensor_desc *ids = &q->in[0], *w = &q->in[1];

    if (w->rank != 2 || ids->rank + 1 > TENSOR_MAX_RANK ||
        ids->layout != TENSOR_ROW)
        return shape_misfit(q, 0, 1, err);
    out[0] = *ids;
    out[0].dim[out[0].rank++] = w->dim[1];
    return 0;
}

int
shape_infer_embedding_bwd(const struct shape_query *q, struct tensor_desc *out,
                          struct err *err)
{
    const struct tensor_desc *dy = &q->in[0], *ids = &q->in[1];

    assert(q->like != NULL);
    out[0] = *q->like;
    if (dy->rank != ids->rank + 1 || !same_leading(dy, ids, ids->rank) ||
        out[0].rank != 2 || dy->dim[dy->rank - 1] != out[0].dim[1])
        return shape_misfit(q, 0, 1, err);
    return 0;
}
