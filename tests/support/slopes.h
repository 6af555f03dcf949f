/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slopes: a model's gradients against finite differences.
 *
 * The slope along single weights, by two central differences and Richardson's
 * extrapolation: error h^4, and the rounding of a float32 loss over h (2^-24 x
 * 2^10 x loss). What is compared is the norm of the error over the norm of the
 * gradient. Header only; fails the running CMocka test.
 */
#ifndef TESTS_SUPPORT_SLOPES_H
#define TESTS_SUPPORT_SLOPES_H

#include "tests/support/runner.h"

#include <math.h>

static double
slopes_loss_at(struct runner *r, int64_t at, float w, float step)
{
    double loss;

    r->state->weights[at] = w + step;
    r->state->weights_version++;
    loss = runner_run(r);
    r->state->weights[at] = w;
    r->state->weights_version++;
    return loss;
}

/* False at a kink (relu, a maximum, |x|): the two differences disagree, while
 * along a smooth loss they differ by h^2 only. */
static bool
slopes_at(struct runner *r, int64_t at, double *slope)
{
    const float w = r->state->weights[at], h = 0x1p-10f;
    const double near =
        (slopes_loss_at(r, at, w, h) - slopes_loss_at(r, at, w, -h)) /
        (2 * (double)h);
    const double far =
        (slopes_loss_at(r, at, w, 2 * h) - slopes_loss_at(r, at, w, -2 * h)) /
        (4 * (double)h);

    *slope = (4 * near - far) / 3;
    return fabs(near - far) <= 5e-4 + 0.01 * fabs(near);
}

/* |g - slope| over |g| of up to 40 weights of a parameter. */
static void
slopes_check_param(struct runner *r, int param, const float *grad, double whole,
                   double loss)
{
    const struct state_tensor *t = &r->state->param[param];
    double error = 0, norm = 0;
    int64_t stride = t->n_elems / 40 + 1;
    int n = 0, n_kinks = 0;

    for (int64_t i = 0; i < t->n_elems; i += stride) {
        const double g = (double)grad[t->offset + i];
        double slope;

        n++;
        if (!slopes_at(r, t->offset + i, &slope)) {
            n_kinks++;
            continue;
        }
        error += (g - slope) * (g - slope);
        norm += g * g;
    }
    assert_true(2 * n_kinks <= n);
    if (sqrt(error) >
        0.01 * sqrt(norm) + 1e-3 * whole + sqrt(n) * 0x1p-14 * loss)
        fail_msg("gradient of %s: error %g of %g (all: %g)", t->name,
                 sqrt(error), sqrt(norm), whole);
}

/* Takes the graph, with its backward part. */
static MODEL_UNUSED void
slopes_check_take(struct graph *g, uint64_t seed)
{
    struct runner r;
    double whole = 0, loss;
    float *grad;

    runner_init_take(&r, g, seed);
    loss = runner_run(&r);
    assert_true(isfinite(loss));
    grad = calloc((size_t)r.state->param_elems, sizeof(*grad));
    assert_non_null(grad);
    memcpy(grad, r.state->grads, (size_t)r.state->param_elems * sizeof(*grad));
    for (int64_t i = 0; i < r.state->param_elems; i++)
        whole += (double)grad[i] * (double)grad[i];
    whole = sqrt(whole);
    assert_true(whole > 1e-3);
    for (int i = 0; i < r.state->n_params; i++)
        slopes_check_param(&r, i, grad, whole, fabs(loss));
    free(grad);
    runner_fini(&r);
}

static MODEL_UNUSED void
slopes_check_model(const char *model, const char *loss,
                   const struct build_data *data)
{
    struct graph *g = model_graph(model, loss, data, BUILD_TRAIN, 5);

    slopes_check_take(model_autodiff(g, false, false), 11);
    g = model_graph(model, loss, data, BUILD_TRAIN, 5);
    slopes_check_take(model_autodiff(g, false, true), 12);
}

#endif
