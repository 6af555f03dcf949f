/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scaler: the loss scale, as torch.amp.GradScaler keeps it.
 *
 * Pure state machine over five saved values (PyTorch's names) and one per-step
 * stage; numerics, section 2. It does not see gradients: the caller unscales
 * with scaler_inverse() and reports what it found. Misuse (unscaling twice,
 * stepping before a check, ...) is ERR_MISUSE with a sentence. With enabled
 * false the scale is 1 and never changes, with dynamic false it stays where it
 * starts and the tracker at 0; stages and found_inf still work.
 */
#ifndef ENGINE_RUN_SCALER_H
#define ENGINE_RUN_SCALER_H

#include "proto/err.h"
#include "proto/spec.h"

#include <stdbool.h>
#include <stdint.h>

#define SCALER_MAX_OPTIMIZERS SPEC_MAX_OPTIMIZERS

enum scaler_stage { SCALER_READY, SCALER_UNSCALED, SCALER_STEPPED };

struct scaler {
    bool enabled;
    bool fixed; /* a static scale */
    float scale;
    double growth_factor, backoff_factor;
    int64_t growth_interval;
    int64_t growth_tracker;      /* PyTorch's _growth_tracker */
    double min_scale, max_scale; /* 0 = none */
    struct {
        enum scaler_stage stage;
        bool checked, found_inf;
    } opt[SCALER_MAX_OPTIMIZERS]; /* this step's, not saved */
};

enum scaler_change { SCALER_KEPT, SCALER_BACKED_OFF, SCALER_GREW };

void scaler_init(struct scaler *s, const struct spec_scaler *settings);

/* Goes on with this scale, or the nearest one within its bounds, and the
 * tracker at 0. False and nothing done where the scale is off or fixed: the
 * spec decides it then. Between two iterations; scale is finite. */
bool scaler_set(struct scaler *s, float scale);

/* float(1 / (double)scale). */
float scaler_inverse(const struct scaler *s);

/* Optimizer i: its gradients were unscaled and wholly scanned. */
int scaler_unscaled(struct scaler *s, int i, bool found_inf, struct err *err);
/* May optimizer i step? *apply is false when its gradients held a non-finite
 * value. ERR_MISUSE before scaler_unscaled or twice. */
int scaler_step(struct scaler *s, int i, bool *apply, struct err *err);
/* Ends the iteration: one backoff at most, or one step of the tracker. */
int scaler_update(struct scaler *s, enum scaler_change *change,
                  struct err *err);
/* ERR_MISUSE between unscale and update. */
int scaler_may_save(const struct scaler *s, struct err *err);
/* After loading: the factors and bounds are those of the settings, which may
 * have been changed since; the scale stays, within them. */
void scaler_follow(struct scaler *s, const struct spec_scaler *settings);
/* Loads the five values; every stage starts anew. A fixed scale and its tracker
 * stay as they are: the spec decides them. ERR_CKPT when one is out of range
 * (scale not finite, negative tracker, ...). */
int scaler_load(struct scaler *s, float scale, double growth_factor,
                double backoff_factor, int64_t growth_interval,
                int64_t growth_tracker, struct err *err);

#endif
