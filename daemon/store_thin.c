/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/store_private.h"

#include <math.h>

void
store_thin_init(struct store_thin *t, int64_t n_rows, int64_t max_points)
{
    t->group = max_points <= 0 ? 1 : (n_rows + max_points - 1) / max_points;
    if (t->group < 1)
        t->group = 1;
    t->in_group = 0;
    t->n_finite = 0;
    t->sum = 0;
}

/* The group's loss: the mean of what is finite; with nothing finite, the
 * last value, so that NaN and inf stay told apart. */
static void
finish(struct store_thin *t, struct view_metric *out)
{
    *out = t->row;
    if (t->n_finite > 0)
        out->loss = t->sum / (double)t->n_finite;
    t->in_group = 0;
    t->n_finite = 0;
    t->sum = 0;
}

bool
store_thin_add(struct store_thin *t, const struct view_metric *row,
               struct view_metric *out)
{
    const struct view_metric before = t->row;

    t->row = *row;
    t->row.n = 1;
    t->row.n_skipped = row->skipped;
    t->row.loss_min = t->row.loss_max = row->loss;
    if (t->in_group > 0) {
        t->row.n = before.n + 1;
        t->row.n_skipped = before.n_skipped + row->skipped;
        t->row.skipped = t->row.n_skipped > 0;
        t->row.loss_min = fmin(before.loss_min, row->loss);
        t->row.loss_max = fmax(before.loss_max, row->loss);
        t->row.samples = before.samples + row->samples;
        t->row.step_us = before.step_us + row->step_us;
    }
    if (isfinite(row->loss)) {
        t->n_finite++;
        t->sum += row->loss;
    }
    if (++t->in_group < t->group)
        return false;
    finish(t, out);
    return true;
}

bool
store_thin_end(struct store_thin *t, struct view_metric *out)
{
    if (t->in_group == 0)
        return false;
    finish(t, out);
    return true;
}
