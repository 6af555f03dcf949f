/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/dnnl_naive.h"

#include <assert.h>
#include <math.h>

#include "kernels/cpu/convert.h"

struct sum {
    double value, terms;
};

static void
add_product(struct sum *s, double a, double b)
{
    s->value += a * b;
    s->terms += fabs(a * b);
}

static double
at2(const struct tensor_desc *t, const void *data, int64_t row, int64_t col)
{
    return (double)convert_get(data, t->dtype, row * t->dim[t->rank - 1] + col);
}

static double
at4(const struct tensor_desc *t, const void *data, int64_t a, int64_t b,
    int64_t c, int64_t d)
{
    const int64_t index[4] = {a, b, c, d};

    return (double)convert_get(data, t->dtype, tensor_ravel(t, index));
}

static void
add_bias(const struct kernel_sig *sig, const void *const in[OP_MAX_IN],
         int64_t o, struct sum *s)
{
    if (sig->n_in > 2 && sig->in[2].dtype != DTYPE_NONE)
        add_product(s, (double)convert_get(in[2], sig->in[2].dtype, o), 1);
}

static void
linear_element(const struct kernel_sig *sig, const void *const in[OP_MAX_IN],
               int64_t at, struct sum *s)
{
    const struct tensor_desc *a = &sig->in[0], *b = &sig->in[1];
    const int64_t cols = sig->out[0].dim[sig->out[0].rank - 1];
    const int64_t row = at / cols, col = at % cols;
    const int64_t inner = a->dim[a->rank - 1];
    const int64_t n_rows = tensor_n_elems(a) / inner;

    if (sig->op == OP_LINEAR_DW) {
        for (int64_t n = 0; n < n_rows; n++)
            add_product(s, at2(a, in[0], n, row), at2(b, in[1], n, col));
        return;
    }
    for (int64_t k = 0; k < inner; k++)
        add_product(s, at2(a, in[0], row, k),
                    sig->op == OP_LINEAR ? at2(b, in[1], col, k)
                                         : at2(b, in[1], k, col));
    if (sig->op == OP_LINEAR)
        add_bias(sig, in, col, s);
}

/* Element (row, col) of entry e of a stack of matrices. */
static double
stacked(const struct tensor_desc *t, const void *data, int64_t e, int64_t row,
        int64_t col, bool transposed)
{
    const int64_t rows = t->dim[t->rank - 2];

    return transposed ? at2(t, data, e * rows + col, row)
                      : at2(t, data, e * rows + row, col);
}

/* y = a b; da = dy b^T; db = a^T dy, for factors that may lie transposed. */
static void
matmul_element(const struct kernel_sig *sig, const void *const in[OP_MAX_IN],
               int64_t at, struct sum *s)
{
    const struct tensor_desc *t = sig->in;
    const struct tensor_desc *out = &sig->out[0];
    const bool a_t = sig->params.matmul.a_transposed;
    const bool b_t = sig->params.matmul.b_transposed;
    const bool out_t = sig->op == OP_MATMUL_DA   ? a_t
                       : sig->op == OP_MATMUL_DB ? b_t
                                                 : false;
    const int64_t cols = out->dim[out->rank - 1];
    const int64_t rows = out->dim[out->rank - 2];
    const int64_t e = at / (rows * cols);
    const int64_t lies_row = at / cols % rows, lies_col = at % cols;
    const int64_t row = out_t ? lies_col : lies_row;
    const int64_t col = out_t ? lies_row : lies_col;
    const int64_t length =
        op_reduce_length(sig->op, &sig->params, sig->in, sig->out);

    for (int64_t k = 0; k < length; k++) {
        if (sig->op == OP_MATMUL)
            add_product(s, stacked(&t[0], in[0], e, row, k, a_t),
                        stacked(&t[1], in[1], e, k, col, b_t));
        else if (sig->op == OP_MATMUL_DA) /* dy[row,k] b[col,k] */
            add_product(s, stacked(&t[0], in[0], e, row, k, false),
                        stacked(&t[1], in[1], e, col, k, b_t));
        else /* a[k,row] dy[k,col] */
            add_product(s, stacked(&t[1], in[1], e, k, row, a_t),
                        stacked(&t[0], in[0], e, k, col, false));
    }
}

/* Input position of output position o under tap k along axis i; -1: outside. */
static int64_t
tap(const struct kernel_sig *sig, int i, int64_t o, int64_t k, int64_t size)
{
    const int64_t at = o * sig->params.conv.stride[i] -
                       sig->params.conv.padding[i] +
                       k * sig->params.conv.dilation[i];

    return at >= 0 && at < size ? at : -1;
}

static void
conv_element(const struct kernel_sig *sig, const void *const in[OP_MAX_IN],
             const int64_t *i, struct sum *s)
{
    const struct tensor_desc *x = &sig->in[0], *w = &sig->in[1];
    const int64_t group = i[1] / (w->dim[0] / sig->params.conv.groups);

    for (int64_t c = 0; c < w->dim[1]; c++)
        for (int64_t kh = 0; kh < w->dim[2]; kh++)
            for (int64_t kw = 0; kw < w->dim[3]; kw++) {
                const int64_t h = tap(sig, 0, i[2], kh, x->dim[2]);
                const int64_t v = tap(sig, 1, i[3], kw, x->dim[3]);

                if (h >= 0 && v >= 0)
                    add_product(
                        s, at4(x, in[0], i[0], group * w->dim[1] + c, h, v),
                        at4(w, in[1], i[1], c, kh, kw));
            }
    add_bias(sig, in, i[1], s);
}

/* Output position whose tap k along axis i falls on input position at; -1:
 * none. */
static int64_t
untap(const struct kernel_sig *sig, int i, int64_t at, int64_t k, int64_t size)
{
    const int64_t span =
        at + sig->params.conv.padding[i] - k * sig->params.conv.dilation[i];
    const int64_t o = span / sig->params.conv.stride[i];

    if (span < 0 || span % sig->params.conv.stride[i] != 0 || o >= size)
        return -1;
    return o;
}

static void
conv_dx_element(const struct kernel_sig *sig, const void *const in[OP_MAX_IN],
                const int64_t *i, struct sum *s)
{
    const struct tensor_desc *dy = &sig->in[0], *w = &sig->in[1];
    const int64_t per = w->dim[0] / sig->params.conv.groups;
    const int64_t group = i[1] / w->dim[1], c = i[1] % w->dim[1];

    for (int64_t o = group * per; o < (group + 1) * per; o++)
        for (int64_t kh = 0; kh < w->dim[2]; kh++)
            for (int64_t kw = 0; kw < w->dim[3]; kw++) {
                const int64_t h = untap(sig, 0, i[2], kh, dy->dim[2]);
                const int64_t v = untap(sig, 1, i[3], kw, dy->dim[3]);

                if (h >= 0 && v >= 0)
                    add_product(s, at4(dy, in[0], i[0], o, h, v),
                                at4(w, in[1], o, c, kh, kw));
            }
}

static void
conv_dw_element(const struct kernel_sig *sig, const void *const in[OP_MAX_IN],
                const int64_t *i, struct sum *s)
{
    const struct tensor_desc *dy = &sig->in[0], *x = &sig->in[1];
    const struct tensor_desc *dw = &sig->out[0];
    const int64_t group = i[0] / (dw->dim[0] / sig->params.conv.groups);

    for (int64_t n = 0; n < dy->dim[0]; n++)
        for (int64_t oh = 0; oh < dy->dim[2]; oh++)
            for (int64_t ow = 0; ow < dy->dim[3]; ow++) {
                const int64_t h = tap(sig, 0, oh, i[2], x->dim[2]);
                const int64_t v = tap(sig, 1, ow, i[3], x->dim[3]);

                if (h >= 0 && v >= 0)
                    add_product(
                        s, at4(dy, in[0], n, i[0], oh, ow),
                        at4(x, in[1], n, group * dw->dim[1] + i[1], h, v));
            }
}

void
dnnl_naive_element(const struct kernel_sig *sig,
                   const void *const in[OP_MAX_IN], int64_t at, double *value,
                   double *terms)
{
    struct sum s = {0, 0};
    int64_t index[TENSOR_MAX_RANK];

    tensor_unravel(&sig->out[0], at, index);
    if (sig->op == OP_CONV2D)
        conv_element(sig, in, index, &s);
    else if (sig->op == OP_CONV2D_DX)
        conv_dx_element(sig, in, index, &s);
    else if (sig->op == OP_CONV2D_DW)
        conv_dw_element(sig, in, index, &s);
    else if (sig->op == OP_MATMUL || sig->op == OP_MATMUL_DA ||
             sig->op == OP_MATMUL_DB)
        matmul_element(sig, in, at, &s);
    else
        linear_element(sig, in, at, &s);
    *value = s.value;
    *terms = s.terms;
}

/* One unit in the last place of a value of this size. */
static double
ulp(enum dtype t, double value)
{
    const int digits = t == DTYPE_F32 ? 23 : t == DTYPE_F16 ? 10 : 7;
    const int lowest = t == DTYPE_F16 ? -14 : -126;
    int exponent = lowest;

    if (value != 0)
        (void)frexp(value, &exponent), exponent--;
    return ldexp(1, (exponent < lowest ? lowest : exponent) - digits);
}

double
dnnl_naive_tolerance(const struct kernel_sig *sig, double value, double terms)
{
    const int64_t length =
        op_reduce_length(sig->op, &sig->params, sig->in, sig->out);

    return (double)length * 0x1p-24 * terms +
           op_info(sig->op)->ulps * ulp(sig->out[0].dtype, value);
}
