/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/store_group.h"

#include <math.h>

void
store_group_single(struct view_metric *row)
{
    row->n = 1;
    row->n_skipped = row->skipped;
    row->first = row->iteration;
    row->n_bad = !isfinite(row->loss);
    row->n_bad_norm = !isfinite(row->grad_norm);
    row->loss_min = row->loss_max = row->n_bad != 0 ? (double)NAN : row->loss;
    row->grad_norm_min = row->grad_norm_max =
        row->n_bad_norm != 0 ? (double)NAN : row->grad_norm;
    row->scale_min = row->scale_max = row->scale;
}

void
store_group_init(struct store_group *g)
{
    view_init(VIEW_ID_metric, &g->row);
    g->loss_sum = g->norm_sum = 0;
}

/* Of a group's mean and how many it is the mean of. */
static double
sum_of(double mean, int64_t n)
{
    return n > 0 ? mean * (double)n : 0;
}

void
store_group_add(struct store_group *g, const struct view_metric *row)
{
    const struct view_metric before = g->row;
    struct view_metric *r = &g->row;

    *r = *row;
    g->loss_sum += sum_of(row->loss, row->n - row->n_bad);
    g->norm_sum += sum_of(row->grad_norm, row->n - row->n_bad_norm);
    if (before.n == 0)
        return;
    r->first = before.first;
    r->n += before.n;
    r->n_skipped += before.n_skipped;
    r->n_bad += before.n_bad;
    r->n_bad_norm += before.n_bad_norm;
    r->loss_min = fmin(before.loss_min, row->loss_min);
    r->loss_max = fmax(before.loss_max, row->loss_max);
    r->grad_norm_min = fmin(before.grad_norm_min, row->grad_norm_min);
    r->grad_norm_max = fmax(before.grad_norm_max, row->grad_norm_max);
    r->scale_min = fmin(before.scale_min, row->scale_min);
    r->scale_max = fmax(before.scale_max, row->scale_max);
    r->samples += before.samples;
    r->step_us += before.step_us;
}

bool
store_group_take(struct store_group *g, struct view_metric *out)
{
    struct view_metric *r = &g->row;

    if (r->n == 0)
        return false;
    if (r->n > r->n_bad)
        r->loss = g->loss_sum / (double)(r->n - r->n_bad);
    if (r->n > r->n_bad_norm)
        r->grad_norm = g->norm_sum / (double)(r->n - r->n_bad_norm);
    r->skipped = r->n_skipped > 0;
    *out = *r;
    store_group_init(g);
    return true;
}
