/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step: one iteration, cut where a diagnosis may look in.
 *
 * numerics, section 1: step_compute() runs the micro-batches of a window,
 * unscales the gradients once, checks them and takes their norm; then the
 * weights are still those of the forward pass. step_commit() applies or skips
 * the update and ends the scaler's iteration. A skip changes the counters, the
 * data position and the scaler, nothing else. Allocates nothing. Used by the
 * loop on the thread that owns the state; emits nothing.
 *
 * With several optimizers each steps or skips on its own gradients. Weights,
 * moments, averages, time and place in the schedule of one that skips stay as
 * they are. The iteration is a skip when none stepped, else an update. Running
 * statistics are taken over when none skipped: they saw the whole model. The
 * gradients are clipped by their common norm, that of a skipping one left out:
 * it is no number.
 */
#ifndef ENGINE_RUN_STEP_H
#define ENGINE_RUN_STEP_H

#include "engine/data/prefetch.h"
#include "engine/run/optimizer.h"
#include "engine/run/variants.h"

struct step {
    struct state *state;       /* borrowed, as all below */
    struct variants *variants; /* training programs are there */
    const struct optimizer *optimizer;
    struct kernel_flat flat;
    int threads;
    double clip_grad_norm; /* 0: off */
    double ema_decay;      /* 0: no average */
};

struct step_result {
    double loss;      /* sum over the window's micro-batches, float32 */
    double grad_norm; /* of the unscaled gradients, before clipping */
    double clip_norm; /* the same, of the optimizers that can step */
    bool found_inf;   /* in the gradients of any */
    double lr, scale; /* used in this iteration */
    /* After step_commit(). */
    bool skipped; /* no optimizer stepped */
    int n_held;   /* optimizers that did not step */
    bool held[SPEC_MAX_OPTIMIZERS];
    enum scaler_change change;
    double scale_after;
    int64_t growth_tracker;
};

/* 1 / n, 0 for a window in which nothing counts: its loss and its gradients
 * are 0. */
float step_inverse_count(int64_t n);

/* float(max_norm / (norm + 1e-6)), at most 1, as clip_grad_norm_ has it. */
float step_clip_coefficient(double max_norm, double norm);

/* ERR_MISUSE only. */
int step_compute(struct step *step, const struct prefetch_window *window,
                 struct step_result *result, struct err *err);
int step_commit(struct step *step, const struct prefetch_window *window,
                struct step_result *result, struct err *err);

#endif
