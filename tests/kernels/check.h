/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check: guarded buffers, inputs of every kind, and what "equal" means.
 *
 * Shared by checkkern, gradcheck and the other kernel tests. Reads halves with
 * its own arithmetic, not with kernels/cpu/convert.
 */
#ifndef TESTS_KERNELS_CHECK_H
#define TESTS_KERNELS_CHECK_H

#include "kernels/kernel.h"

/* 64-byte aligned data between two guards. */
struct check_buf {
    unsigned char *base; /* owned */
    void *data;
    size_t bytes;
};

void check_buf_make(struct check_buf *b, size_t bytes);
bool check_buf_intact(const struct check_buf *b); /* the guards */
void check_buf_free(struct check_buf *b);

/* What an input is filled with; bools are 0 or 1 under any of these. */
enum check_fill {
    CHECK_NORMAL,  /* a bell around 0 */
    CHECK_WIDE,    /* every finite bit pattern */
    CHECK_SPECIAL, /* normal, with inf, NaN, zeros, extremes, subnormals */
    CHECK_SUMMED,  /* the same without what overflows a float32 sum */
    CHECK_UNIT,    /* -1 .. 1 */
    CHECK_PROB,    /* 0 .. 1 */
    CHECK_POSITIVE,
    CHECK_BROAD,     /* 1/64 .. 64, of either sign */
    CHECK_CLASS,     /* i32: 0 .. classes - 1, some -100 */
    CHECK_ROW,       /* i32: 0 .. classes - 1 */
    CHECK_CLASS_BAD, /* one below, one above */
    CHECK_WINDOW,    /* i32: a position in each pooling window */
    CHECK_MASK       /* bool: every third row 0 throughout */
};

struct check_rng {
    uint64_t state;
};

uint64_t check_random(struct check_rng *rng);
double check_uniform(struct check_rng *rng); /* [0, 1) */

/* Fills tensor t; sig gives the window of CHECK_WINDOW, limit the classes. */
void check_fill(void *data, const struct tensor_desc *t, enum check_fill fill,
                struct check_rng *rng, const struct kernel_sig *sig,
                int64_t limit);

double check_get(const void *data, enum dtype t, int64_t i);
double *check_doubles(const void *data, const struct tensor_desc *t);

/* Distance of neighbours at |x| in t. */
double check_ulp(enum dtype t, double x);

/* got within tolerance of want, as far as t can say: NaN for NaN, inf for inf
 * and for what is too large. Integers must be equal. */
bool check_close(enum dtype t, double got, double want, double tolerance);

#endif
