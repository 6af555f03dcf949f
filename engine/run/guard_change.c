/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/guard_private.h"

#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- fragments ------------------------------------------------------------*/

/* Takes the value of "amp"; false without memory. */
static bool
set_change_take(struct guard *g, json_t *amp, struct guard_firing *f, char *why,
                size_t size)
{
    json_t *o = amp != NULL ? json_pack("{s:o}", "amp", amp) : NULL;

    free(g->change);
    g->change = o != NULL ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (g->change == NULL) {
        snprintf(why, size, "there is no memory for it");
        return false;
    }
    f->change = g->change;
    return true;
}

/* ---- float32 regions ------------------------------------------------------*/

/* A region covers what stands inside it. */
static bool
is_covered(const struct spec *spec, const char *path)
{
    for (int i = 0; i < spec->amp.n_fp32_regions; i++) {
        const char *region = spec->amp.fp32_regions[i];
        const size_t n = strlen(region);

        if (strncmp(path, region, n) == 0 &&
            (path[n] == '\0' || path[n] == '.'))
            return true;
    }
    return false;
}

static bool
are_covered(const struct spec *spec, const char *const *regions, int n,
            char *why, size_t size)
{
    for (int i = 0; i < n; i++)
        if (!is_covered(spec, regions[i]))
            return false;
    snprintf(why, size, "%s%s in float32 already", regions[0],
             n > 1 ? " and others run" : " runs");
    return true;
}

/* The regions of the spec and those that it lacks. */
static json_t *
join_regions(const struct spec *spec, const char *const *regions, int n)
{
    json_t *list = json_array();

    for (int i = 0; i < spec->amp.n_fp32_regions; i++)
        json_array_append_new(list, json_string(spec->amp.fp32_regions[i]));
    for (int i = 0; i < n; i++)
        if (!is_covered(spec, regions[i]))
            json_array_append_new(list, json_string(regions[i]));
    return json_pack("{s:o}", "fp32_regions", list);
}

/* A cure from before the streak that fires is no cure of it. */
static bool
has_cure(const struct guard *g, const struct spec_guard *rule)
{
    const bool streak = rule->condition == SPEC_CONDITION_CONSECUTIVE_SKIPS ||
                        rule->condition == SPEC_CONDITION_SCALE_AT_FLOOR;

    return g->cure.iteration > 0 &&
           (!streak || g->cure.iteration >= g->streak.began);
}

static bool
make_regions(struct guard *g, const struct spec_guard *rule,
             struct guard_firing *f, char *why, size_t size)
{
    const bool diagnosed = rule->with.n_regions == 0;
    const char *const *regions =
        diagnosed ? g->cure.region : rule->with.regions;
    const int n = diagnosed ? g->cure.n_regions : rule->with.n_regions;

    if (diagnosed && !has_cure(g, rule)) {
        snprintf(why, size, "no diagnosis names layers for float32");
        return false;
    }
    if (are_covered(g->spec, regions, n, why, size))
        return false;
    return set_change_take(g, join_regions(g->spec, regions, n), f, why, size);
}

/* ---- dtype and scale ------------------------------------------------------*/

/* The scaler is for float16. */
static bool
make_dtype(struct guard *g, const struct spec_guard *rule,
           struct guard_firing *f, char *why, size_t size)
{
    json_t *amp =
        json_pack("{s:s,s:{s:b}}", "dtype", dtype_name(rule->with.dtype),
                  "scaler", "enabled", 0);

    return set_change_take(g, amp, f, why, size);
}

/* Of what the run would begin with again, and what it has now, the smaller one
 * times the factor: never a scale that has led here. */
static bool
make_scale(struct guard *g, const struct spec_guard *rule,
           struct guard_firing *f, char *why, size_t size)
{
    const struct spec_scaler *s = &g->spec->amp.scaler;
    const double from =
        fmin(g->scale, rule->to_best ? g->least_scale : g->last_scale);
    const double to =
        fmax((double)(float)(from * rule->with.factor), s->min_scale);

    if (to >= from || to < FLT_MIN) {
        snprintf(why, size, "the scale is at its floor, %.9g", from);
        return false;
    }
    if (!s->dynamic) /* the spec says what it is, not the checkpoint */
        return set_change_take(
            g, json_pack("{s:{s:f}}", "scaler", "init_scale", to), f, why,
            size);
    f->scale = to;
    return true;
}

/* ---- batches --------------------------------------------------------------*/

/* Windows in their order as pairs, those side by side in one. */
static int
join_windows(const struct guard_windows *w, int64_t *pairs)
{
    const int64_t kept = w->n < GUARD_MAX_WINDOWS ? w->n : GUARD_MAX_WINDOWS;
    int n = 0;

    for (int64_t i = w->n - kept; i < w->n; i++) {
        const int64_t at = w->position[i % GUARD_MAX_WINDOWS];

        if (n > 0 && pairs[n - 2] + pairs[n - 1] == at) {
            pairs[n - 1]++;
        } else {
            pairs[n++] = at;
            pairs[n++] = 1;
        }
    }
    return n;
}

/* A streak is one stretch, whatever was passed over in it before. */
static bool
make_skip(struct guard *g, const struct spec_guard *rule,
          struct guard_firing *f, char *why, size_t size)
{
    g->pairs[0] = g->data_position;
    g->pairs[1] = 1;
    f->skip_windows = g->pairs;
    f->n_skip_windows = 2;
    if (rule->condition == SPEC_CONDITION_CONSECUTIVE_SKIPS ||
        rule->condition == SPEC_CONDITION_SCALE_AT_FLOOR) {
        g->pairs[0] = g->streak.first;
        g->pairs[1] = g->streak.last - g->streak.first + 1;
    } else if (rule->condition == SPEC_CONDITION_VERDICT) {
        f->n_skip_windows = join_windows(&g->run.windows, g->pairs);
    }
    if (f->n_skip_windows == 0)
        snprintf(why, size, "it is not known which batches");
    return f->n_skip_windows > 0;
}

bool
guard_is_in_effect(const struct spec *spec, const struct spec_guard *rule,
                   char *why, size_t size)
{
    const enum dtype now = spec->amp.dtype;

    switch (rule->with.kind) {
    case SPEC_CHANGE_FP32_REGION:
        if (now != DTYPE_F32)
            return rule->with.n_regions > 0 &&
                   are_covered(spec, rule->with.regions, rule->with.n_regions,
                               why, size);
        snprintf(why, size, "all layers run in float32 already");
        return true;
    case SPEC_CHANGE_LOWER_SCALE:
        snprintf(why, size, "there is no loss scale");
        return !spec->amp.scaler.enabled;
    case SPEC_CHANGE_DTYPE:
        snprintf(why, size, "the job runs in %s already", dtype_name(now));
        return now == rule->with.dtype || now == DTYPE_F32;
    case SPEC_CHANGE_SKIP_BATCHES:
    case SPEC_CHANGE_NONE: break;
    }
    return false;
}

bool
guard_change_make(struct guard *guard, const struct spec_guard *rule,
                  struct guard_firing *firing, char *why, size_t size)
{
    if (guard_is_in_effect(guard->spec, rule, why, size))
        return false;
    switch (rule->with.kind) {
    case SPEC_CHANGE_FP32_REGION:
        return make_regions(guard, rule, firing, why, size);
    case SPEC_CHANGE_SKIP_BATCHES:
        return make_skip(guard, rule, firing, why, size);
    case SPEC_CHANGE_LOWER_SCALE:
        return make_scale(guard, rule, firing, why, size);
    case SPEC_CHANGE_DTYPE: return make_dtype(guard, rule, firing, why, size);
    case SPEC_CHANGE_NONE: break;
    }
    snprintf(why, size, "the rule has no change");
    return false;
}
