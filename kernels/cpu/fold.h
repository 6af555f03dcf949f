/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fold: sums, maxima, products over any axes of a walk, in double, in a fixed order.
 *
 * The last operand of the walk is the output: axes along which it does not
 * move are folded. Innermost runs are added side by side (several rows to a
 * line when they are short), so every shape is a vector loop; a fold with few
 * results is cut into chunks whose bounds depend on the shape alone, joined in
 * order. NaN in a maximum stays. Called by the kernels of this folder.
 */
#ifndef KERNELS_CPU_FOLD_H
#define KERNELS_CPU_FOLD_H

#include "kernels/cpu/walk.h"
#include "kernels/kernel.h"

/* v[i]: what element i of the inputs adds. */
typedef void fold_map_fn(const float *const *in, const union op_params *p,
                         int64_t n, double *v);
/* Of n results, each over `length` elements: what is stored. */
typedef void fold_finish_fn(const union op_params *p, int64_t length, int64_t n,
                            double *result);

enum fold_how { FOLD_SUM, FOLD_MAX, FOLD_PRODUCT };

struct fold_job {
    struct walk walk; /* closed; inputs, then the output */
    fold_map_fn *map;
    fold_finish_fn *finish; /* NULL: the result itself */
    enum fold_how how;
    const union op_params *params;
    void *y; /* by the last operand's strides: f32, f16, bf16, or f64 */
    enum dtype ty;
    int64_t n_out; /* elements of y */
    void *workspace;
    int threads;
};

/* Needs walk and n_out only. */
size_t fold_workspace_bytes(const struct fold_job *job);
void fold_run(const struct fold_job *job);

#endif
