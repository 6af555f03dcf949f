/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dnnl/conv.h"

#include "kernels/cpu/conv_lift.h"
#include "kernels/dnnl/product.h"

/* (N, C, H, W), channels last. */
static struct pdesc_tensor
image(const struct tensor_desc *t)
{
    return (struct pdesc_tensor){
        .rank = 4,
        .dim = {t->dim[0], t->dim[1], t->dim[2], t->dim[3]},
        .plain = dnnl_nhwc,
        .cut = 0};
}

/* (O, C/g, kh, kw), with the groups as a dimension of their own if any. */
static struct pdesc_tensor
weight(const struct tensor_desc *t, int64_t groups)
{
    if (groups == 1)
        return (struct pdesc_tensor){
            .rank = 4,
            .dim = {t->dim[0], t->dim[1], t->dim[2], t->dim[3]},
            .plain = dnnl_oihw,
            .any = true,
            .cut = -1};
    return (struct pdesc_tensor){
        .rank = 5,
        .dim = {groups, t->dim[0] / groups, t->dim[1], t->dim[2], t->dim[3]},
        .plain = dnnl_goihw,
        .any = true,
        .cut = -1};
}

/* oneDNN packs a 1 x 1 convolution with a stride into scratch memory, whole
 * vectors at a time. On AVX2 its version 2.6.3 writes and reads behind that
 * where the channels leave part of a vector: gradients of weights then differ
 * from run to run, and what lies beside is overwritten (cases_conv.c has the
 * shapes). The loops in cpu/ do those instead; they are small. */
static bool
packs_badly(const struct kernel_sig *sig, const struct tensor_desc *x,
            const struct tensor_desc *w)
{
    const int64_t *stride = sig->params.conv.stride;

    return w->dim[2] == 1 && w->dim[3] == 1 &&
           (stride[0] > 1 || stride[1] > 1) &&
           (w->dim[1] % 16 != 0 || x->dim[1] % 16 != 0);
}

/* x, w, y wherever the op has them. */
static bool
describe_window(const struct kernel_sig *sig, const struct tensor_desc *x,
                const struct tensor_desc *w, const struct tensor_desc *y,
                struct pdesc_problem *p)
{
    const int64_t groups = sig->params.conv.groups;

    if (x->rank != 4 || w->rank != 4 || y->rank != 4)
        return false;
    if (x->layout != TENSOR_NHWC || y->layout != TENSOR_NHWC || groups < 1)
        return false;
    if (packs_badly(sig, x, w))
        return false;
    for (int i = 0; i < 2; i++) {
        p->stride[i] = sig->params.conv.stride[i];
        p->padding[i] = sig->params.conv.padding[i];
        p->dilation[i] = sig->params.conv.dilation[i] - 1;
    }
    return w->dim[1] * groups == x->dim[1] && w->dim[0] == y->dim[1] &&
           w->dim[0] % groups == 0;
}

static bool
describe_forward(const struct kernel_sig *sig, struct pdesc_problem *p)
{
    const struct tensor_desc *x = &sig->in[0], *w = &sig->in[1];
    const struct tensor_desc *y = &sig->out[0];

    if (!describe_window(sig, x, w, y, p))
        return false;
    p->kind = PDESC_CONV;
    p->tensor[0] = image(x);
    p->tensor[1] = weight(w, sig->params.conv.groups);
    p->tensor[PDESC_BIAS] = (struct pdesc_tensor){
        .rank = 1, .dim = {w->dim[0]}, .plain = dnnl_a, .cut = -1};
    p->tensor[PDESC_OUT] = image(y);
    return true;
}

static bool
describe_dx(const struct kernel_sig *sig, struct pdesc_problem *p)
{
    const struct tensor_desc *dy = &sig->in[0], *w = &sig->in[1];
    const struct tensor_desc *dx = &sig->out[0];

    if (!describe_window(sig, dx, w, dy, p))
        return false;
    p->kind = PDESC_CONV_DX;
    p->tensor[0] = image(dy);
    p->tensor[1] = weight(w, sig->params.conv.groups);
    p->tensor[PDESC_OUT] = image(dx);
    return true;
}

static bool
describe_dw(const struct kernel_sig *sig, struct pdesc_problem *p)
{
    const struct tensor_desc *dy = &sig->in[0], *x = &sig->in[1];
    const struct tensor_desc *dw = &sig->out[0];

    if (!describe_window(sig, x, dw, dy, p))
        return false;
    p->kind = PDESC_CONV_DW;
    p->tensor[0] = image(dy);
    p->tensor[1] = image(x);
    p->tensor[PDESC_OUT] = weight(dw, sig->params.conv.groups);
    return true;
}

PRODUCT_KERNEL(conv_forward, describe_forward)
PRODUCT_KERNEL(conv_dx, describe_dx)
PRODUCT_KERNEL(conv_dw, describe_dw)

static const struct kernel *
find(enum op op)
{
    return op == OP_CONV2D      ? &conv_forward
           : op == OP_CONV2D_DX ? &conv_dx
                                : &conv_dw;
}

CONV_LIFT_KERNEL(conv_lifted, find, product_release)
