/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/scaler.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

/* Keeps a scale within [min, max]; a bound of 0 is none. */
static float
clamp_scale(const struct scaler *s, float scale)
{
    if (s->min_scale > 0 && (double)scale < s->min_scale)
        return (float)s->min_scale;
    if (s->max_scale > 0 && (double)scale > s->max_scale)
        return (float)s->max_scale;
    return scale;
}

static void
reset_stages(struct scaler *s)
{
    for (int i = 0; i < SCALER_MAX_OPTIMIZERS; i++) {
        s->opt[i].stage = SCALER_READY;
        s->opt[i].checked = false;
        s->opt[i].found_inf = false;
    }
}

void
scaler_init(struct scaler *s, const struct spec_scaler *settings)
{
    s->enabled = settings->enabled;
    s->fixed = !settings->dynamic;
    s->growth_factor = settings->growth_factor;
    s->backoff_factor = settings->backoff_factor;
    s->growth_interval = settings->growth_interval;
    s->growth_tracker = 0;
    s->min_scale = settings->min_scale;
    s->max_scale = settings->max_scale;
    s->scale = 1.0f;
    if (s->enabled)
        s->scale = clamp_scale(s, (float)settings->init_scale);
    reset_stages(s);
}

bool
scaler_set(struct scaler *s, float scale)
{
    assert(isfinite(scale));
    if (!s->enabled || s->fixed)
        return false;
    s->scale = clamp_scale(s, scale);
    s->growth_tracker = 0;
    return true;
}

void
scaler_follow(struct scaler *s, const struct spec_scaler *settings)
{
    s->growth_factor = settings->growth_factor;
    s->backoff_factor = settings->backoff_factor;
    s->growth_interval = settings->growth_interval;
    s->min_scale = settings->min_scale;
    s->max_scale = settings->max_scale;
    if (s->enabled && !s->fixed)
        s->scale = clamp_scale(s, s->scale);
}

float
scaler_inverse(const struct scaler *s)
{
    return (float)(1.0 / (double)s->scale);
}

int
scaler_unscaled(struct scaler *s, int i, bool found_inf, struct err *err)
{
    assert(i >= 0 && i < SCALER_MAX_OPTIMIZERS);
    if (s->opt[i].stage == SCALER_UNSCALED)
        return err_set(err, ERR_MISUSE,
                       "optimizer %d: gradients were unscaled already since "
                       "the last update of the scaler",
                       i);
    if (s->opt[i].stage == SCALER_STEPPED)
        return err_set(err, ERR_MISUSE,
                       "optimizer %d: unscaling after its step", i);
    s->opt[i].stage = SCALER_UNSCALED;
    s->opt[i].checked = true;
    s->opt[i].found_inf = found_inf;
    return 0;
}

int
scaler_step(struct scaler *s, int i, bool *apply, struct err *err)
{
    assert(i >= 0 && i < SCALER_MAX_OPTIMIZERS);
    if (s->opt[i].stage == SCALER_STEPPED)
        return err_set(err, ERR_MISUSE,
                       "optimizer %d: stepped already since the last update "
                       "of the scaler",
                       i);
    if (s->opt[i].stage == SCALER_READY)
        return err_set(err, ERR_MISUSE,
                       "optimizer %d: step before its gradients were "
                       "unscaled and checked",
                       i);
    s->opt[i].stage = SCALER_STEPPED;
    *apply = !s->opt[i].found_inf;
    return 0;
}

/* The rule itself; numerics, section 2. */
static enum scaler_change
change_scale(struct scaler *s, bool found_inf)
{
    const float before = s->scale;

    if (found_inf) {
        s->scale =
            clamp_scale(s, (float)((double)s->scale * s->backoff_factor));
        s->growth_tracker = 0;
        return s->scale == before ? SCALER_KEPT : SCALER_BACKED_OFF;
    }
    s->growth_tracker++;
    /* Not ==: an interval set below the tracker must still come due. */
    if (s->growth_tracker < s->growth_interval)
        return SCALER_KEPT;
    s->growth_tracker = 0;
    const float grown = (float)((double)s->scale * s->growth_factor);
    if (!isfinite(grown))
        return SCALER_KEPT;
    s->scale = clamp_scale(s, grown);
    return s->scale == before ? SCALER_KEPT : SCALER_GREW;
}

int
scaler_update(struct scaler *s, enum scaler_change *change, struct err *err)
{
    bool checked = false, found_inf = false;

    for (int i = 0; i < SCALER_MAX_OPTIMIZERS; i++) {
        checked |= s->opt[i].checked;
        found_inf |= s->opt[i].found_inf;
    }
    if (!checked)
        return err_set(err, ERR_MISUSE,
                       "scaler: update before any optimizer's gradients were "
                       "checked");
    *change =
        s->enabled && !s->fixed ? change_scale(s, found_inf) : SCALER_KEPT;
    reset_stages(s);
    return 0;
}

int
scaler_may_save(const struct scaler *s, struct err *err)
{
    for (int i = 0; i < SCALER_MAX_OPTIMIZERS; i++)
        if (s->opt[i].stage != SCALER_READY)
            return err_set(err, ERR_MISUSE,
                           "scaler: saving between unscale and update "
                           "(optimizer %d)",
                           i);
    return 0;
}

int
scaler_load(struct scaler *s, float scale, double growth_factor,
            double backoff_factor, int64_t growth_interval,
            int64_t growth_tracker, struct err *err)
{
    /* 0 is reachable: 166 halvings of 2^16 without a floor. */
    if (!isfinite(scale) || scale < 0)
        return err_set(err, ERR_CKPT, "scaler: scale is %g", (double)scale);
    if (!isfinite(growth_factor) || growth_factor <= 1)
        return err_set(err, ERR_CKPT, "scaler: growth_factor is %g, not > 1",
                       growth_factor);
    if (!isfinite(backoff_factor) || backoff_factor <= 0 || backoff_factor >= 1)
        return err_set(err, ERR_CKPT,
                       "scaler: backoff_factor is %g, not between 0 and 1",
                       backoff_factor);
    if (growth_interval < 1)
        return err_set(err, ERR_CKPT, "scaler: growth_interval is %lld",
                       (long long)growth_interval);
    if (growth_tracker < 0)
        return err_set(err, ERR_CKPT, "scaler: _growth_tracker is %lld",
                       (long long)growth_tracker);
    s->growth_factor = growth_factor;
    s->backoff_factor = backoff_factor;
    s->growth_interval = growth_interval;
    if (!s->enabled || !s->fixed) {
        /* Switched off the scale is 1, whatever was saved. */
        s->scale = s->enabled ? scale : 1.0f;
        s->growth_tracker = growth_tracker;
    }
    reset_stages(s);
    return 0;
}
