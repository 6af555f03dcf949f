/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heads: the shape of an attention, read off its signature.
 *
 * Queries, keys and values of a head are rows of head-size elements, a step
 * apart in q, k and v, or in the one packed tensor. Which query sees which key,
 * and which weights dropout keeps, is said here once for the definition and
 * for the fast kernel. Pure; for the kernels of this folder and kernels/dnnl.
 */
#ifndef KERNELS_CPU_HEADS_H
#define KERNELS_CPU_HEADS_H

#include "kernels/cpu/keyed.h"

/* Counts: b batch, h heads, t queries, s keys, d elements of a head. */
struct heads {
    int64_t b, h, t, s, d;
    bool packed, causal;
    enum dtype dtype;
    int64_t q_step, kv_step; /* elements from one position to the next */
    int64_t k_at, v_at;      /* of a packed row */
    double scale, p;
    bool has_mask;
    int64_t mask_b, mask_t; /* elements a batch entry and a query */
    /* of a run: */
    const void *q, *k, *v;
    const uint8_t *mask; /* or NULL */
    struct keyed key;
    struct keyed_drop drop;
};

/* Of ATTENTION or ATTENTION_BWD; the members of a run are left zero. */
struct heads heads_make(const struct kernel_sig *sig);
/* Whether the shapes and dtypes are those that ops.def allows. */
bool heads_supports(const struct kernel_sig *sig);
/* The same with q, k, v, mask and the dropout's key. */
struct heads heads_of_call(const struct kernel_call *call);

/* Keys that query t may see by the causal rule: 0 .. the result - 1. */
int64_t heads_limit(const struct heads *h, int64_t t);
/* The mask's row of query t of batch entry b: 1 may see; NULL without one. */
const uint8_t *heads_mask_row(const struct heads *h, int64_t b, int64_t t);

/* Element positions of row t of head i in q and dq, s in k, v, dk and dv, and t
 * in y. v_at is not in heads_kv_at(). */
int64_t heads_q_at(const struct heads *h, int64_t b, int64_t i, int64_t t);
int64_t heads_kv_at(const struct heads *h, int64_t b, int64_t i, int64_t s);
int64_t heads_y_at(const struct heads *h, int64_t b, int64_t i, int64_t t);

/* w[0 .. n) x 0 or 1 / (1 - p): dropout of a row of weights, that of query t of
 * head i. Element (b, i, t, s) of [B, H, T, S] takes the word of its position
 * in memory order, as an ordinary dropout would. */
void heads_drop(const struct heads *h, int64_t b, int64_t i, int64_t t,
                float *w, int64_t n);

#endif
