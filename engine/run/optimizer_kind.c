/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/optimizer_kind.h"

#include <assert.h>

static bool
any_momentum(const struct spec_optim *o)
{
    for (int i = 0; i < o->n_group; i++)
        if (o->group[i].momentum != 0)
            return true;
    return false;
}

static bool
any_centered(const struct spec_optim *o)
{
    for (int i = 0; i < o->n_group; i++)
        if (o->group[i].centered)
            return true;
    return false;
}

int
optimizer_kind_moments(const struct spec_optim *optim,
                       const char *name[STATE_MAX_MOMENTS])
{
    int n = 0;

    switch (optim->kind) {
    case SPEC_OPTIMIZER_SGD:
        if (any_momentum(optim))
            name[n++] = "momentum";
        break;
    case SPEC_OPTIMIZER_ADAM:
    case SPEC_OPTIMIZER_ADAMW:
        name[n++] = "m";
        name[n++] = "v";
        break;
    case SPEC_OPTIMIZER_ADAGRAD: name[n++] = "sum"; break;
    case SPEC_OPTIMIZER_RMSPROP:
        name[n++] = "square_avg";
        if (any_momentum(optim))
            name[n++] = "momentum_buffer";
        if (any_centered(optim))
            name[n++] = "grad_avg";
        break;
    case SPEC_OPTIMIZER_LION: name[n++] = "m"; break;
    }
    return n;
}

double
optimizer_kind_start(const struct spec_optim *optim,
                     const struct spec_group *group, int i)
{
    if (optim->kind == SPEC_OPTIMIZER_ADAGRAD && i == 0)
        return group->initial_accumulator;
    return 0;
}

/* With eps 0 those that divide would make 0 / 0 of it. */
bool
optimizer_kind_keeps_zero(const struct spec_optim *optim,
                          const struct spec_group *group)
{
    return optim->kind == SPEC_OPTIMIZER_SGD ||
           optim->kind == SPEC_OPTIMIZER_LION || group->eps > 0;
}

bool
optimizer_kind_is_here(enum spec_optimizer kind, const struct kernel_flat *flat)
{
    switch (kind) {
    case SPEC_OPTIMIZER_SGD: return flat->sgd != NULL;
    case SPEC_OPTIMIZER_ADAM:
    case SPEC_OPTIMIZER_ADAMW: return flat->adam != NULL;
    case SPEC_OPTIMIZER_ADAGRAD: return flat->adagrad != NULL;
    case SPEC_OPTIMIZER_RMSPROP: return flat->rmsprop != NULL;
    case SPEC_OPTIMIZER_LION: return flat->lion != NULL;
    }
    return false;
}

static float *
moment_at(const struct optimizer_kind_sweep *s, int i)
{
    assert(s->state->moment[i] != NULL);
    return s->state->moment[i] + s->offset;
}

static void
step_sgd(const struct optimizer_kind_sweep *s, float *w, const float *g)
{
    const struct kernel_sgd p = {
        .lr = (float)s->lr,
        .momentum = (float)s->group->momentum,
        .dampening = (float)s->group->dampening,
        .weight_decay = (float)s->group->weight_decay,
        .nesterov = s->group->nesterov,
        .first = s->t == 1,
    };
    float *momentum = s->group->momentum != 0 ? moment_at(s, 0) : NULL;

    s->flat->sgd(w, g, momentum, s->n_elems, s->clip, &p, s->threads);
}

static void
step_adam(const struct optimizer_kind_sweep *s, float *w, const float *g)
{
    const struct kernel_adam p = {
        .lr = s->lr,
        .beta1 = s->group->betas[0],
        .beta2 = s->group->betas[1],
        .eps = s->group->eps,
        .weight_decay = s->group->weight_decay,
        .decoupled = s->optim->kind == SPEC_OPTIMIZER_ADAMW,
        .t = s->t,
    };

    s->flat->adam(w, g, moment_at(s, 0), moment_at(s, 1), s->n_elems, s->clip,
                  &p, s->threads);
}

static void
step_adagrad(const struct optimizer_kind_sweep *s, float *w, const float *g)
{
    const struct kernel_adagrad p = {
        .lr = s->lr,
        .lr_decay = s->group->lr_decay,
        .weight_decay = s->group->weight_decay,
        .eps = s->group->eps,
        .t = s->t,
    };

    s->flat->adagrad(w, g, moment_at(s, 0), s->n_elems, s->clip, &p,
                     s->threads);
}

/* The blocks as optimizer_kind_moments() lays them out. */
static void
step_rmsprop(const struct optimizer_kind_sweep *s, float *w, const float *g)
{
    const struct spec_group *group = s->group;
    const struct kernel_rmsprop p = {
        .lr = s->lr,
        .alpha = group->alpha,
        .eps = group->eps,
        .weight_decay = group->weight_decay,
        .momentum = group->momentum,
        .centered = group->centered,
    };
    const int mean_at = any_momentum(s->optim) ? 2 : 1;
    float *momentum = group->momentum != 0 ? moment_at(s, 1) : NULL;
    float *mean = group->centered ? moment_at(s, mean_at) : NULL;

    s->flat->rmsprop(w, g, moment_at(s, 0), momentum, mean, s->n_elems, s->clip,
                     &p, s->threads);
}

static void
step_lion(const struct optimizer_kind_sweep *s, float *w, const float *g)
{
    const struct kernel_lion p = {
        .lr = s->lr,
        .beta1 = s->group->betas[0],
        .beta2 = s->group->betas[1],
        .weight_decay = s->group->weight_decay,
    };

    s->flat->lion(w, g, moment_at(s, 0), s->n_elems, s->clip, &p, s->threads);
}

void
optimizer_kind_step(const struct optimizer_kind_sweep *sweep)
{
    float *w = sweep->state->weights + sweep->offset;
    const float *g = sweep->state->grads + sweep->offset;

    switch (sweep->optim->kind) {
    case SPEC_OPTIMIZER_SGD: step_sgd(sweep, w, g); break;
    case SPEC_OPTIMIZER_ADAM:
    case SPEC_OPTIMIZER_ADAMW: step_adam(sweep, w, g); break;
    case SPEC_OPTIMIZER_ADAGRAD: step_adagrad(sweep, w, g); break;
    case SPEC_OPTIMIZER_RMSPROP: step_rmsprop(sweep, w, g); break;
    case SPEC_OPTIMIZER_LION: step_lion(sweep, w, g); break;
    }
}
