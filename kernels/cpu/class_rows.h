/* SPDX-License-Identifier: Apache-2.0 */
/*
 * class_rows: scores of classes as rows, one class index each.
 *
 * Classes lie last in memory: the last dim of ROW scores ([N,K], [B,T,K]), dim
 * 1 of channels-last ones ([N,K,H,W]); all else are rows. A row whose target is
 * ignored takes no part; one whose target is no class spoils a sum with NaN and
 * reads nothing out of bounds. For the losses and metrics of this folder.
 */
#ifndef KERNELS_CPU_CLASS_ROWS_H
#define KERNELS_CPU_CLASS_ROWS_H

#include "kernels/kernel.h"

struct class_rows {
    int64_t rows, classes;
    bool has_ignore;
    int64_t ignore;
    const int32_t *target; /* set by the caller */
};

/* x_in: the place of the scores; the target's is the next. */
static inline struct class_rows
class_rows_make(const struct kernel_sig *sig, int x_in)
{
    const struct tensor_desc *x = &sig->in[x_in];
    struct class_rows r = {
        .classes = x->layout == TENSOR_NHWC ? x->dim[1]
                   : x->rank > 0            ? x->dim[x->rank - 1]
                                            : 1,
        .has_ignore = sig->params.loss.has_ignore_index,
        .ignore = sig->params.loss.ignore_index,
    };

    r.rows = r.classes > 0 ? tensor_n_elems(x) / r.classes
                           : tensor_n_elems(&sig->in[x_in + 1]);
    return r;
}

static inline bool
class_rows_in_range(const struct class_rows *r, int64_t t)
{
    return t >= 0 && t < r->classes;
}

static inline bool
class_rows_ignored(const struct class_rows *r, int64_t t)
{
    return r->has_ignore && t == r->ignore;
}

#endif
