/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch_walk: how batch_norm goes over a tensor, forward and backward.
 *
 * Shape, workspace and tables of one call, and the two sums over each channel
 * that it needs: statistics of x, and products of dy with x. Called by
 * batch_norm.c alone; kernels/cpu/rows says how lines and chunks are cut.
 */
#ifndef KERNELS_CPU_BATCH_WALK_H
#define KERNELS_CPU_BATCH_WALK_H

#include "kernels/cpu/rows.h"
#include "kernels/kernel.h"

#define BATCH_WALK_TABLES 4

/* x is outer x channels x inner. inner == 1: rows of channels (NHWC, or (N,
 * C)); else planes of inner elements (N, C, L). */
struct batch_shape {
    int64_t outer, channels, inner;
    int64_t count; /* elements a channel */
};

struct batch_walk {
    const struct kernel_call *call;
    struct batch_shape shape;
    struct rows_plan plan;             /* inner == 1 */
    int x_in, dy_in;                   /* which inputs; dy_in -1: forward */
    double *part;                      /* [chunk][2][channels] */
    double *total;                     /* [2][channels] */
    float *channel[BATCH_WALK_TABLES]; /* per channel: mean, a, b or c1, c2 */
    float *line[BATCH_WALK_TABLES];    /* the same, spread over a line */
};

/* Everything of sig; call and workspace are still to come. */
struct batch_walk batch_walk_make(const struct kernel_sig *sig);

/* Lays the workspace out; with base NULL only measures it. */
size_t batch_walk_layout(struct batch_walk *w, void *base);

/* Elements at .. at + n - 1 of an input as float32; buf for halves. */
const float *batch_walk_view(const struct batch_walk *w, int in, int64_t at,
                             int64_t n, float *buf);

/* Channel c of an input that has one element a channel. */
float batch_walk_channel(const struct kernel_call *call, int in, int64_t c,
                         float otherwise);

/* Fills line[] from channel[]. */
void batch_walk_spread(const struct batch_walk *w);

/* total = mean and sum of squared deviations of each channel of x. */
void batch_walk_stats(const struct batch_walk *w);

/* total = sum of dy and of dy (x - mean) of each channel; mean is table 0. */
void batch_walk_products(const struct batch_walk *w);

#endif
