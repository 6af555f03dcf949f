/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/diagnose/diagnosis.h"

#include "engine/diagnose/samples.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct asking {
    struct rerun *rerun;
    const struct rerun_case *c;
    struct rerun_policy own;
    const struct spec_scaler *scaler;
    struct evidence *e;
    struct err *err;
};

static enum event_answer
answer(bool yes)
{
    return yes ? EVENT_YES : EVENT_NO;
}

static int
is_finite(const struct asking *a, const struct rerun_policy *policy,
          float scale, bool *finite)
{
    struct rerun_case c = *a->c;
    struct rerun_result result;

    c.scale = scale;
    const int rc = rerun_run(a->rerun, &c, policy, NULL, NULL, &result, a->err);
    *finite = rc == 0 && result.finite;
    return rc;
}

/* ---- the scale ------------------------------------------------------------*/

static bool
is_scaled(const struct asking *a)
{
    return a->scaler->enabled && a->c->mode == BUILD_TRAIN;
}

static bool
scale_moves(const struct asking *a)
{
    return is_scaled(a) && a->scaler->dynamic;
}

/* A static scale has no floor: a person can choose any. */
static float
lowest_scale(const struct asking *a)
{
    if (!is_scaled(a))
        return a->c->scale;
    if (a->scaler->dynamic && a->scaler->min_scale > DIAGNOSIS_MIN_SCALE)
        return (float)a->scaler->min_scale;
    return (float)DIAGNOSIS_MIN_SCALE;
}

/* The largest power of two times the lowest scale at which all is finite, by
 * halving; more than 150 powers of two do not exist. */
static int
ask_scale(const struct asking *a)
{
    const float low = lowest_scale(a);
    int good = 0, bad = 0;
    bool finite = false;

    if (!is_scaled(a) || !(low < a->c->scale))
        return 0;
    a->e->scale_asked = true;
    int rc = is_finite(a, &a->own, low, &finite);
    if (rc != 0 || !finite)
        return rc;
    while (ldexpf(low, bad) < a->c->scale)
        bad++;
    while (bad - good > 1 && rc == 0) {
        const int middle = good + (bad - good) / 2;
        rc = is_finite(a, &a->own, ldexpf(low, middle), &finite);
        if (finite)
            good = middle;
        else
            bad = middle;
    }
    a->e->finite_scale = (double)ldexpf(low, good);
    return rc;
}

/* Cures are tried where the scale would come to rest. */
static float
calm_scale(const struct asking *a)
{
    const float low = lowest_scale(a);

    if (!scale_moves(a))
        return a->c->scale;
    if (low >= 1.0f)
        return low;
    return a->c->scale < 1.0f ? a->c->scale : 1.0f;
}

/* ---- other dtypes ---------------------------------------------------------*/

static int
ask_float32(const struct asking *a)
{
    const struct rerun_policy full = {.dtype = DTYPE_F32};
    struct rerun_case c = *a->c;
    bool finite = false;
    int rc = 0;

    c.scale = 1.0f;
    if (a->own.dtype != DTYPE_F32 || a->c->scale != 1.0f)
        rc = is_finite(a, &full, c.scale, &finite);
    a->e->fp32_finite = answer(finite);
    if (rc != 0)
        return rc;
    if (!finite)
        return locate_run(a->rerun, &c, &full, &a->e->fp32_where, a->err);
    return locate_value(a->rerun, a->c, &a->e->where, &a->e->has_fp32_value,
                        &a->e->fp32_value, a->err);
}

static int
ask_bfloat16(const struct asking *a)
{
    const struct rerun_policy other = {
        .dtype = DTYPE_BF16,
        .regions = a->own.regions,
        .n_regions = a->own.n_regions,
    };
    bool finite = false;

    if (a->own.dtype != DTYPE_F16)
        return 0;
    const int rc = is_finite(a, &other, 1.0f, &finite);
    a->e->bf16_finite = answer(finite);
    return rc;
}

/* ---- regions --------------------------------------------------------------*/

struct regions {
    const char *list[VERDICT_MAX_REGIONS * 2]; /* the spec's, then ours */
    int n_spec, n;
};

static struct rerun_policy
with_regions(const struct asking *a, const struct regions *r)
{
    return (struct rerun_policy){a->own.dtype, r->list, r->n};
}

static bool
is_in(const struct regions *r, const char *region)
{
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->list[i], region) == 0)
            return true;
    return false;
}

/* Follows the location from layer to layer until all is finite. *cured false:
 * it came back to a layer that is in float32 already. */
static int
grow(const struct asking *a, struct regions *r, bool *cured)
{
    struct rerun_case c = *a->c;
    struct location next = a->e->where;
    struct evidence *e = a->e;

    *cured = false;
    c.scale = calm_scale(a);
    e->n_regions = 0;
    if (c.scale != a->c->scale) {
        const int rc = locate_run(a->rerun, &c, &a->own, &next, a->err);
        if (rc != 0 || !next.located)
            return rc;
    }
    while (e->n_regions < VERDICT_MAX_REGIONS) {
        if (next.region[0] == '\0' || is_in(r, next.region))
            return 0;
        snprintf(e->region[e->n_regions], EVENT_NAME_MAX, "%s", next.region);
        r->list[r->n++] = e->region[e->n_regions++];
        const struct rerun_policy policy = with_regions(a, r);
        const int rc = locate_run(a->rerun, &c, &policy, &next, a->err);
        if (rc != 0)
            return rc;
        rerun_trim(a->rerun);
        if (e->n_regions == 1)
            e->alone_finite = answer(!next.located);
        if (!next.located) {
            *cured = true;
            return 0;
        }
        /* What is left is another fault, or follows from this one's cure. */
        if (next.pass == EVENT_PASS_INPUT || next.pass == EVENT_PASS_OPTIMIZER)
            return 0;
    }
    return 0;
}

/* Takes out each that is not needed. */
static int
shrink(const struct asking *a, struct regions *r)
{
    struct evidence *e = a->e;

    for (int i = e->n_regions - 1; i >= 0 && e->n_regions > 1; i--) {
        struct regions less = {.n_spec = r->n_spec, .n = r->n_spec};
        bool finite = false;
        for (int k = 0; k < r->n_spec; k++)
            less.list[k] = r->list[k];
        for (int k = 0; k < e->n_regions; k++)
            if (k != i)
                less.list[less.n++] = e->region[k];
        const struct rerun_policy policy = with_regions(a, &less);
        const int rc = is_finite(a, &policy, calm_scale(a), &finite);
        if (rc != 0)
            return rc;
        rerun_trim(a->rerun);
        if (!finite)
            continue;
        memmove(e->region[i], e->region[i + 1],
                (size_t)(e->n_regions - i - 1) * sizeof(e->region[0]));
        e->n_regions--;
    }
    return 0;
}

static int
ask_regions(const struct asking *a)
{
    struct regions r = {.n_spec = a->own.n_regions};
    bool cured = false;
    int rc;

    if (a->own.dtype == DTYPE_F32 || a->own.n_regions > VERDICT_MAX_REGIONS)
        return 0;
    for (r.n = 0; r.n < r.n_spec; r.n++)
        r.list[r.n] = a->own.regions[r.n];
    rc = grow(a, &r, &cured);
    if (rc == 0 && cured)
        rc = shrink(a, &r);
    if (!cured)
        a->e->n_regions = 0;
    return rc;
}

/* ---- samples --------------------------------------------------------------*/

static int
ask_samples(const struct asking *a)
{
    const struct location *w = &a->e->where;
    struct evidence *e = a->e;
    struct samples found;

    e->samples_asked = true;
    e->n_guilty = w->n_guilty;
    if (e->n_guilty > 0) {
        e->n_samples = e->n_guilty < EVENT_MAX_SAMPLES ? (int)e->n_guilty
                                                       : EVENT_MAX_SAMPLES;
        memcpy(e->samples, w->guilty, sizeof(e->samples));
        return 0;
    }
    const int rc = samples_find(a->rerun, a->c, &a->own,
                                w->micro_batch - a->c->first, &found, a->err);
    if (rc != 0)
        return rc;
    e->n_guilty = found.n;
    e->n_samples =
        found.n < EVENT_MAX_SAMPLES ? (int)found.n : EVENT_MAX_SAMPLES;
    memcpy(e->samples, found.id, sizeof(e->samples));
    e->samples_asked = !found.cut || found.n > 0;
    e->samples_no_need = found.no_need;
    if (found.n == 1)
        e->where.sample = found.id[0];
    return 0;
}

/* ---- in order -------------------------------------------------------------*/

static int
ask_all(const struct asking *a)
{
    struct evidence *e = a->e;
    int rc = locate_run(a->rerun, a->c, &a->own, &e->where, a->err);

    if (rc != 0 || !e->where.located || e->where.pass == EVENT_PASS_OPTIMIZER)
        return rc;
    if (e->where.pass == EVENT_PASS_INPUT)
        return ask_samples(a);
    if (!verdict_is_forward(&e->where))
        rc = ask_scale(a);
    if (rc == 0)
        rc = ask_float32(a);
    if (rc != 0 || isfinite(e->finite_scale))
        return rc;
    if (e->fp32_finite == EVENT_YES)
        rc = ask_bfloat16(a);
    if (rc == 0 && e->fp32_finite == EVENT_YES)
        rc = ask_regions(a);
    return rc != 0 ? rc : ask_samples(a);
}

static void
begin(struct diagnosis *d, float scale, double lr)
{
    memset(d, 0, sizeof(*d));
    d->evidence.where.op = d->evidence.fp32_where.op = "";
    d->evidence.where.role = d->evidence.fp32_where.role = "";
    d->evidence.where.sample = -1;
    d->evidence.finite_scale = (double)NAN;
    d->evidence.scale = scale;
    d->evidence.lr = lr;
}

int
diagnosis_run(struct rerun *rerun, const struct rerun_case *c, double lr,
              struct diagnosis *out, struct err *err)
{
    const struct rerun_options *o = rerun_options(rerun);
    const struct asking a = {
        .rerun = rerun,
        .c = c,
        .own = rerun_own_policy(rerun),
        .scaler = &o->spec->amp.scaler,
        .e = &out->evidence,
        .err = err,
    };
    const int64_t before = rerun_count(rerun);

    begin(out, c->scale, lr);
    const int rc = ask_all(&a);
    rerun_trim(rerun);
    out->runs = rerun_count(rerun) - before;
    if (rc == 0)
        verdict_judge(o->spec, &out->evidence, &out->verdict);
    return rc;
}

void
diagnosis_check_state(const struct rerun *rerun, const struct state *state,
                      double lr, struct diagnosis *out)
{
    const struct rerun_options *o = rerun_options(rerun);

    begin(out, state->scaler.scale, lr);
    locate_state(o, state, &out->evidence.where);
    if (out->evidence.where.located)
        verdict_judge(o->spec, &out->evidence, &out->verdict);
}

/* ---- for the record -------------------------------------------------------*/

void
diagnosis_fill_event(const struct diagnosis *d, struct event *event)
{
    const struct evidence *e = &d->evidence;
    const struct location *w = &e->where;

    assert(event->kind == EVENT_INCIDENT);
    event->u.incident.replayed = true;
    event->u.incident.verdict = d->verdict.verdict;
    event->u.incident.sentence = d->verdict.sentence;
    event->u.incident.cure = d->verdict.cure;
    event->u.incident.regions = d->verdict.regions;
    event->u.incident.runs = d->runs;
    event->u.incident.fp32_finite = e->fp32_finite;
    event->u.incident.bf16_finite = e->bf16_finite;
    event->u.incident.alone_finite = e->alone_finite;
    event->u.incident.finite_scale = e->finite_scale;
    event->u.incident.has_fp32_value = e->has_fp32_value;
    event->u.incident.fp32_value =
        e->has_fp32_value ? (double)e->fp32_value : (double)NAN;
    event->u.incident.samples = e->samples;
    event->u.incident.n_samples = e->n_samples;
    event->u.incident.n_guilty = e->n_guilty;
    if (!w->located)
        return;
    event->u.incident.located = true;
    event->u.incident.pass = w->pass;
    event->u.incident.layer = w->layer;
    event->u.incident.op = w->op;
    event->u.incident.tensor = w->tensor;
    event->u.incident.dtype = w->dtype;
    event->u.incident.rank = w->rank;
    for (int i = 0; i < w->rank; i++)
        event->u.incident.index[i] = w->index[i];
    event->u.incident.what = w->what;
    event->u.incident.micro_batch = w->micro_batch;
    event->u.incident.sample = w->sample;
}
