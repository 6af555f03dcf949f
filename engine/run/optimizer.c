/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/optimizer.h"

#include <assert.h>
#include <fnmatch.h>
#include <stdlib.h>

/* Neighbouring parameters of one group, gaps included. */
struct range {
    int64_t offset, n_elems;
    int group;
};

struct optimizer {
    const struct spec *spec; /* borrowed from the engine */
    struct kernel_flat flat;
    struct lrate lrate;
    int threads;
    int n_ranges;
    struct range *range; /* owned */
    int n_params;
    int *group; /* owned: of each parameter */
};

int
optimizer_n_moments(const struct spec *spec)
{
    if (spec->optim[0].kind != SPEC_OPTIMIZER_SGD)
        return 2;
    for (int i = 0; i < spec->optim[0].n_group; i++)
        if (spec->optim[0].group[i].momentum != 0)
            return 1;
    return 0;
}

const char *
optimizer_moment_name(const struct spec *spec, int i)
{
    assert(i >= 0 && i < optimizer_n_moments(spec));
    if (spec->optim[0].kind == SPEC_OPTIMIZER_SGD)
        return "momentum";
    return i == 0 ? "m" : "v";
}

static bool
group_takes(const struct spec_group *g, const char *name)
{
    for (int i = 0; i < g->n_match; i++)
        if (fnmatch(g->match[i], name, 0) == 0)
            return true;
    return false;
}

static int
find_group(const struct spec *spec, const char *name)
{
    for (int i = 1; i < spec->optim[0].n_group; i++)
        if (group_takes(&spec->optim[0].group[i], name))
            return i;
    return 0;
}

/* A pattern that matches nothing is a slip of the pen, not a wish. */
static int
check_groups(const struct optimizer *o, const struct state *state,
             struct err *err)
{
    for (int i = 1; i < o->spec->optim[0].n_group; i++) {
        const struct spec_group *g = &o->spec->optim[0].group[i];
        for (int j = 0; j < g->n_match; j++) {
            bool used = false;
            for (int k = 0; k < state->n_params && !used; k++)
                used = fnmatch(g->match[j], state->param[k].name, 0) == 0;
            if (!used)
                return err_set(err, ERR_SPEC,
                               "optimizer: group %d: \"%s\" matches no "
                               "parameter (there are %s ... %s)",
                               i, g->match[j], state->param[0].name,
                               state->param[state->n_params - 1].name);
        }
    }
    return 0;
}

/* Zero gaps stay zero through every formula but Adam's with eps 0, where
 * 0 / 0 would get in; then each tensor is swept alone. */
static bool
may_join(const struct spec *spec, int group)
{
    return spec->optim[0].kind == SPEC_OPTIMIZER_SGD ||
           spec->optim[0].group[group].eps > 0;
}

static void
join_ranges(struct optimizer *o, const struct state *state)
{
    for (int i = 0; i < state->n_params; i++) {
        const struct state_tensor *t = &state->param[i];
        struct range *last =
            o->n_ranges > 0 ? &o->range[o->n_ranges - 1] : NULL;
        if (last != NULL && last->group == o->group[i] &&
            may_join(o->spec, last->group)) {
            last->n_elems = t->offset + t->n_elems - last->offset;
            continue;
        }
        o->range[o->n_ranges++] =
            (struct range){t->offset, t->n_elems, o->group[i]};
    }
}

int
optimizer_create(const struct spec *spec, const struct state *state,
                 const struct kernel_flat *flat, int threads,
                 const struct lrate *lrate, struct optimizer **out,
                 struct err *err)
{
    struct optimizer *o = calloc(1, sizeof(*o));
    int rc = ERR_NOMEM;

    *out = NULL;
    if (o == NULL)
        return err_set(err, ERR_NOMEM, "optimizer: no memory");
    o->spec = spec;
    o->flat = *flat;
    o->lrate = *lrate;
    o->threads = threads;
    o->n_params = state->n_params;
    o->group = calloc((size_t)state->n_params + 1, sizeof(*o->group));
    o->range = calloc((size_t)state->n_params + 1, sizeof(*o->range));
    if (o->group == NULL || o->range == NULL) {
        err_set(err, rc, "optimizer: no memory");
        goto out;
    }
    for (int i = 0; i < state->n_params; i++)
        o->group[i] = find_group(spec, state->param[i].name);
    if (state->n_params > 0 && (rc = check_groups(o, state, err)) != 0)
        goto out;
    join_ranges(o, state);
    *out = o;
    o = NULL;
    rc = 0;
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
    free(o->range);
    free(o);
}

int
optimizer_group_of(const struct optimizer *o, int param)
{
    assert(param >= 0 && param < o->n_params);
    return o->group[param];
}

static double
group_lr(const struct optimizer *o, int group, const struct state *state)
{
    return lrate_at(&o->lrate, o->spec->optim[0].group[group].lr,
                    state->count.updates);
}

double
optimizer_lr(const struct optimizer *o, const struct state *state)
{
    return group_lr(o, 0, state);
}

static void
step_sgd(const struct optimizer *o, struct state *s, const struct range *r,
         float clip)
{
    const struct spec_group *g = &o->spec->optim[0].group[r->group];
    const struct kernel_sgd p = {
        .lr = (float)group_lr(o, r->group, s),
        .momentum = (float)g->momentum,
        .dampening = (float)g->dampening,
        .weight_decay = (float)g->weight_decay,
        .nesterov = g->nesterov,
        .first = s->count.updates == 0,
    };
    float *momentum = g->momentum != 0 ? s->moment1 + r->offset : NULL;

    o->flat.sgd(s->weights + r->offset, s->grads + r->offset, momentum,
                r->n_elems, clip, &p, o->threads);
}

static void
step_adam(const struct optimizer *o, struct state *s, const struct range *r,
          float clip)
{
    const struct spec_group *g = &o->spec->optim[0].group[r->group];
    const struct kernel_adam p = {
        .lr = group_lr(o, r->group, s),
        .beta1 = g->betas[0],
        .beta2 = g->betas[1],
        .eps = g->eps,
        .weight_decay = g->weight_decay,
        .decoupled = o->spec->optim[0].kind == SPEC_OPTIMIZER_ADAMW,
        .t = s->count.updates + 1,
    };

    o->flat.adam(s->weights + r->offset, s->grads + r->offset,
                 s->moment1 + r->offset, s->moment2 + r->offset, r->n_elems,
                 clip, &p, o->threads);
}

void
optimizer_step(const struct optimizer *o, struct state *state, float clip)
{
    for (int i = 0; i < o->n_ranges; i++) {
        switch (o->spec->optim[0].kind) {
        case SPEC_OPTIMIZER_SGD: step_sgd(o, state, &o->range[i], clip); break;
        case SPEC_OPTIMIZER_ADAM:
        case SPEC_OPTIMIZER_ADAMW:
            step_adam(o, state, &o->range[i], clip);
            break;
        case SPEC_OPTIMIZER_ADAGRAD:
        case SPEC_OPTIMIZER_RMSPROP:
        case SPEC_OPTIMIZER_LION: break;
        }
    }
}
