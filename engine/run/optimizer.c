/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/optimizer.h"

#include "engine/run/optimizer_kind.h"

#include <assert.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Neighbouring parameters, gaps included. */
struct range {
    int64_t offset, n_elems;
    int optim, group;
};

struct ranges {
    int n;
    struct range *at; /* owned */
};

struct optimizer {
    const struct spec *spec; /* borrowed from the engine */
    struct kernel_flat flat;
    struct lrate lrate;
    int threads;
    struct ranges sweeps; /* of one group each */
    struct ranges runs;   /* of one optimizer each, together all elements */
    int n_params;
    int *group; /* owned: of each parameter */
};

int
optimizer_n_moments(const struct spec *spec)
{
    const char *name[STATE_MAX_MOMENTS];
    int most = 0;

    for (int i = 0; i < spec->n_optim; i++) {
        const int n = optimizer_kind_moments(&spec->optim[i], name);
        most = n > most ? n : most;
    }
    return most;
}

/* ---- who owns what --------------------------------------------------------*/

static bool
matches(const char *const *match, int n_match, const char *name)
{
    for (int i = 0; i < n_match; i++)
        if (fnmatch(match[i], name, 0) == 0)
            return true;
    return false;
}

/* -1: nobody takes it. */
static int
find_optim(const struct spec *spec, const char *name)
{
    int rest = -1;

    for (int i = 0; i < spec->n_optim; i++) {
        const struct spec_optim *o = &spec->optim[i];
        if (matches(o->match, o->n_match, name))
            return i;
        if (o->n_match == 0 && rest < 0)
            rest = i;
    }
    return rest;
}

static int
find_group(const struct spec_optim *o, const char *name)
{
    for (int i = 1; i < o->n_group; i++)
        if (matches(o->group[i].match, o->group[i].n_match, name))
            return i;
    return 0;
}

/* "optimizer", "optimizer 1", with ": group 2" behind it. */
static const char *
name_place(const struct optimizer *o, int optim, int group, char text[64])
{
    size_t n = (size_t)snprintf(text, 64, "optimizer");

    if (o->spec->n_optim > 1)
        n += (size_t)snprintf(text + n, 64 - n, " %d", optim);
    if (group > 0)
        snprintf(text + n, 64 - n, ": group %d", group);
    return text;
}

/* A pattern that matches nothing is a slip of the pen, not a wish. */
static int
check_patterns(const struct optimizer *o, const struct state *state, int optim,
               int group, struct err *err)
{
    const struct spec_optim *from = &o->spec->optim[optim];
    const char *const *match = from->match;
    int n = from->n_match;
    char place[64];

    if (group > 0) {
        match = from->group[group].match;
        n = from->group[group].n_match;
    }
    for (int j = 0; j < n; j++) {
        bool used = false;
        for (int k = 0; k < state->n_params && !used; k++)
            used = fnmatch(match[j], state->param[k].name, 0) == 0 &&
                   (group == 0 || state->param[k].optim == optim);
        if (!used)
            return err_set(
                err, ERR_SPEC,
                "%s: \"%s\" matches no parameter%s (there are %s "
                "... %s)",
                name_place(o, optim, group, place), match[j],
                group > 0 && o->spec->n_optim > 1 ? " of its own" : "",
                state->param[0].name, state->param[state->n_params - 1].name);
    }
    return 0;
}

static int
check_share(const struct optimizer *o, const struct state *state, int optim,
            struct err *err)
{
    const enum spec_optimizer kind = o->spec->optim[optim].kind;
    char place[64];
    bool any = o->spec->n_optim == 1;

    for (int i = 0; i < state->n_params && !any; i++)
        any = state->param[i].optim == optim;
    if (!any)
        return err_set(err, ERR_SPEC, "%s: no parameter is left for it",
                       name_place(o, optim, 0, place));
    if (!optimizer_kind_is_here(kind, &o->flat))
        return err_set(err, ERR_UNSUPPORTED, "%s: no kernel for %s here",
                       name_place(o, optim, 0, place),
                       spec_optimizer_name(kind));
    return 0;
}

static int
check_all(const struct optimizer *o, const struct state *state, struct err *err)
{
    int rc = 0;

    for (int i = 0; i < o->spec->n_optim && rc == 0; i++) {
        rc = check_patterns(o, state, i, 0, err);
        for (int j = 1; j < o->spec->optim[i].n_group && rc == 0; j++)
            rc = check_patterns(o, state, i, j, err);
        if (rc == 0)
            rc = check_share(o, state, i, err);
    }
    return rc;
}

static int
assign(struct optimizer *o, struct state *state, struct err *err)
{
    for (int i = 0; i < state->n_params; i++) {
        struct state_tensor *t = &state->param[i];
        const int optim = find_optim(o->spec, t->name);
        if (optim < 0)
            return err_set(err, ERR_SPEC,
                           "optimizer: none of %d takes %s: one without "
                           "\"match\" would take all that is left",
                           o->spec->n_optim, t->name);
        t->optim = optim;
        o->group[i] = find_group(&o->spec->optim[optim], t->name);
        t->n_moments =
            optimizer_kind_moments(&o->spec->optim[optim], t->moment_name);
    }
    return state->n_params > 0 ? check_all(o, state, err) : 0;
}

/* ---- runs of elements -----------------------------------------------------*/

static void
start_moments(const struct optimizer *o, struct state *state)
{
    for (int i = 0; i < state->n_params; i++) {
        const struct state_tensor *t = &state->param[i];
        const struct spec_optim *optim = &o->spec->optim[t->optim];
        for (int m = 0; m < t->n_moments; m++) {
            const float v = (float)optimizer_kind_start(
                optim, &optim->group[o->group[i]], m);
            assert(state->moment[m] != NULL);
            for (int64_t k = 0; k < t->n_elems; k++)
                state->moment[m][t->offset + k] = v;
        }
    }
}

static void
add_range(struct ranges *ranges, const struct range *new, bool join)
{
    if (join && ranges->n > 0) {
        struct range *last = &ranges->at[ranges->n - 1];
        if (last->optim == new->optim && last->group == new->group) {
            last->n_elems = new->offset + new->n_elems - last->offset;
            return;
        }
    }
    ranges->at[ranges->n++] = *new;
}

static void
lay_ranges(struct optimizer *o, const struct state *state)
{
    for (int i = 0; i < state->n_params; i++) {
        const struct state_tensor *t = &state->param[i];
        const struct spec_optim *optim = &o->spec->optim[t->optim];
        const int64_t next =
            i + 1 < state->n_params ? t[1].offset : state->param_elems;
        const struct range sweep = {t->offset, t->n_elems, t->optim,
                                    o->group[i]};
        const struct range run = {t->offset, next - t->offset, t->optim, 0};
        /* Only formulas that keep the zeros of the gaps may run over them. */
        add_range(&o->sweeps, &sweep,
                  optimizer_kind_keeps_zero(optim, &optim->group[o->group[i]]));
        add_range(&o->runs, &run, true);
    }
}

int
optimizer_create(const struct spec *spec, struct state *state,
                 const struct kernel_flat *flat, int threads,
                 const struct lrate *lrate, struct optimizer **out,
                 struct err *err)
{
    struct optimizer *o = calloc(1, sizeof(*o));
    const size_t n = (size_t)state->n_params + 1;
    int rc = ERR_NOMEM;

    assert(spec->n_optim >= 1 && spec->n_optim <= SPEC_MAX_OPTIMIZERS);
    *out = NULL;
    if (o == NULL)
        return err_set(err, ERR_NOMEM, "optimizer: no memory");
    o->spec = spec;
    o->flat = *flat;
    o->lrate = *lrate;
    o->threads = threads;
    o->n_params = state->n_params;
    o->group = calloc(n, sizeof(*o->group));
    o->sweeps.at = calloc(n, sizeof(*o->sweeps.at));
    o->runs.at = calloc(n, sizeof(*o->runs.at));
    if (o->group == NULL || o->sweeps.at == NULL || o->runs.at == NULL) {
        err_set(err, rc, "optimizer: no memory");
        goto out;
    }
    rc = assign(o, state, err);
    if (rc != 0)
        goto out;
    state->n_optim = spec->n_optim;
    start_moments(o, state);
    lay_ranges(o, state);
    *out = o;
    o = NULL;
out:
    optimizer_destroy(&o);
    return rc;
}

void
optimizer_destroy(struct optimizer **optimizer)
{
    struct optimizer *o = *optimizer;

    *optimizer = NULL;
    if (o == NULL)
        return;
    free(o->group);
    free(o->sweeps.at);
    free(o->runs.at);
    free(o);
}

int
optimizer_n(const struct optimizer *o)
{
    return o->spec->n_optim;
}

int
optimizer_group_of(const struct optimizer *o, int param)
{
    assert(param >= 0 && param < o->n_params);
    return o->group[param];
}

/* ---- stepping -------------------------------------------------------------*/

static double
group_lr(const struct optimizer *o, int optim, int group,
         const struct state *state)
{
    const int64_t u = o->spec->schedule.count == SPEC_COUNT_ITERATIONS
                          ? state->count.iteration
                          : state->optim_steps[optim];

    return lrate_at(&o->lrate, o->spec->optim[optim].group[group].lr, u);
}

double
optimizer_lr(const struct optimizer *o, const struct state *state)
{
    return group_lr(o, 0, 0, state);
}

void
optimizer_unscale(const struct optimizer *o, struct state *state, int i,
                  float inverse, struct kernel_unscale *result)
{
    memset(result, 0, sizeof(*result));
    if (o->spec->n_optim == 1) {
        o->flat.unscale(state->grads, state->param_elems, inverse, o->threads,
                        result);
        return;
    }
    for (int k = 0; k < o->runs.n; k++) {
        const struct range *r = &o->runs.at[k];
        struct kernel_unscale one;
        if (r->optim != i)
            continue;
        o->flat.unscale(state->grads + r->offset, r->n_elems, inverse,
                        o->threads, &one);
        result->found_inf |= one.found_inf;
        result->sum_squares += one.sum_squares;
    }
}

void
optimizer_step(const struct optimizer *o, struct state *state, int i,
               float clip)
{
    for (int k = 0; k < o->sweeps.n; k++) {
        const struct range *r = &o->sweeps.at[k];
        if (r->optim != i)
            continue;
        const struct optimizer_kind_sweep sweep = {
            .flat = &o->flat,
            .optim = &o->spec->optim[i],
            .group = &o->spec->optim[i].group[r->group],
            .state = state,
            .offset = r->offset,
            .n_elems = r->n_elems,
            .clip = clip,
            .lr = group_lr(o, i, r->group, state),
            .t = state->optim_steps[i] + 1,
            .threads = o->threads,
        };
        optimizer_kind_step(&sweep);
    }
}

void
optimizer_average(const struct optimizer *o, struct state *state, int i,
                  double decay)
{
    for (int k = 0; k < o->runs.n; k++) {
        const struct range *r = &o->runs.at[k];
        if (r->optim == i)
            o->flat.ema(state->ema + r->offset, state->weights + r->offset,
                        r->n_elems, decay, o->threads);
    }
}
