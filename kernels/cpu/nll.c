/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/nll.h"

#include <math.h>

#include "kernels/cpu/class_rows.h"
#include "kernels/cpu/parallel.h"

#define ITEM_ELEMS 32768

static bool
supports(const struct kernel_sig *sig)
{
    const int x = sig->op == OP_NLL_BWD ? 1 : 0;

    return sig->in[x].dtype == DTYPE_F32 && sig->in[x + 1].dtype == DTYPE_I32 &&
           sig->out[0].dtype == DTYPE_F32;
}

/* One number a row: nothing to share out. */
static void
run_forward(const struct kernel_call *call)
{
    struct class_rows r = class_rows_make(call->sig, 0);
    const float *x = call->in[0], *inv_count = call->in[2];
    float *loss = call->out[0];
    double sum = 0;

    r.target = call->in[1];
    for (int64_t row = 0; row < r.rows; row++) {
        const int64_t t = r.target[row];

        if (class_rows_ignored(&r, t))
            continue;
        sum -= class_rows_in_range(&r, t) ? (double)x[row * r.classes + t]
                                          : (double)NAN;
    }
    loss[0] = (float)(sum * (double)inv_count[0]);
}

struct grad_args {
    struct class_rows r;
    float *dx;
    float g;
    int64_t rows_per_item;
};

static void
backward_item(const void *ctx, int64_t item)
{
    const struct grad_args *a = ctx;
    const struct class_rows *r = &a->r;
    const int64_t begin = item * a->rows_per_item;
    const int64_t end = begin + a->rows_per_item;

    for (int64_t row = begin; row < end && row < r->rows; row++) {
        const int64_t t = r->target[row];
        const bool fits = class_rows_in_range(r, t);
        const bool ignored = class_rows_ignored(r, t);
        float *dx = a->dx + row * r->classes;

        for (int64_t i = 0; i < r->classes; i++)
            dx[i] = fits || ignored ? 0.0f : NAN;
        if (fits && !ignored)
            dx[t] = -a->g;
    }
}

static void
run_backward(const struct kernel_call *call)
{
    struct grad_args a = {.r = class_rows_make(call->sig, 1)};
    const float *dloss = call->in[0], *inv_count = call->in[3];
    const int64_t classes = a.r.classes > 0 ? a.r.classes : 1;

    a.r.target = call->in[2];
    a.dx = call->out[0];
    a.g = dloss[0] * inv_count[0];
    a.rows_per_item = classes < ITEM_ELEMS ? ITEM_ELEMS / classes : 1;
    parallel_run((a.r.rows + a.rows_per_item - 1) / a.rows_per_item,
                 a.r.rows * a.r.classes, call->sig->threads, backward_item, &a);
}

const struct kernel nll_forward = {.supports = supports, .run = run_forward};
const struct kernel nll_backward = {.supports = supports, .run = run_backward};
