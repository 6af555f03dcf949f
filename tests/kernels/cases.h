/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases: the signatures that every op is checked and timed with.
 *
 * Sizes 0 and 1, odd sizes, sizes around the blocks of kernels/cpu, sizes that
 * several threads share; each with ordinary and extreme values. cases_each()
 * switches over all ops without a default, so a new op without cases does not
 * compile, and checkkern asserts that each has some.
 */
#ifndef TESTS_KERNELS_CASES_H
#define TESTS_KERNELS_CASES_H

#include "tests/kernels/check.h"

struct kcase {
    struct kernel_sig sig; /* threads 1 */
    enum check_fill fill[OP_MAX_IN];
    int64_t classes; /* for CHECK_CLASS */
    uint32_t micro_batch;
};

typedef void cases_fn(void *ctx, const struct kcase *c);

/* All cases of op whose data are of type t (f32, f16, bf16); an op that knows
 * only float32 has cases for that alone. */
void cases_each(enum op op, enum dtype t, cases_fn *fn, void *ctx);

/* One of a size worth timing; false when op has none in t. */
bool cases_bench(enum op op, enum dtype t, struct kcase *c);

/* What cases_*.c share: a case with n_in and n_out from the op table. */
struct cases_maker {
    cases_fn *fn;
    void *ctx;
    enum op op;
    enum dtype t;
};

struct kcase cases_start(const struct cases_maker *m);
struct tensor_desc cases_vector(enum dtype t, int64_t n);
struct tensor_desc cases_matrix(enum dtype t, int64_t rows, int64_t cols);
struct tensor_desc cases_scalar(enum dtype t);

void cases_elementwise(const struct cases_maker *m);
void cases_product(const struct cases_maker *m);
void cases_conv(const struct cases_maker *m);
void cases_norm(const struct cases_maker *m);
void cases_pool(const struct cases_maker *m);
void cases_flatten(const struct cases_maker *m);
void cases_loss(const struct cases_maker *m);
void cases_function(const struct cases_maker *m);
void cases_broadcast(const struct cases_maker *m);
void cases_axis(const struct cases_maker *m);
void cases_reduce(const struct cases_maker *m);
void cases_conv_lift(const struct cases_maker *m);
void cases_group_norm(const struct cases_maker *m);
void cases_embedding(const struct cases_maker *m);
void cases_move(const struct cases_maker *m);
void cases_upsample(const struct cases_maker *m);
void cases_matmul(const struct cases_maker *m);
void cases_attention(const struct cases_maker *m);

#endif
