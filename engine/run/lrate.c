/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/lrate.h"

#include <assert.h>
#include <math.h>

void
lrate_init(struct lrate *l, const struct spec *spec, int64_t planned_updates)
{
    l->kind = spec->schedule.kind;
    l->warmup_updates = spec->schedule.warmup_updates;
    l->step_size = spec->schedule.step_size;
    l->gamma = spec->schedule.gamma;
    l->min_lr = spec->schedule.min_lr;
    l->total_updates = spec->schedule.total_updates > 0
                           ? spec->schedule.total_updates
                           : planned_updates;
    if (l->total_updates < 1)
        l->total_updates = 1;
}

static double
progress_at(const struct lrate *l, int64_t u)
{
    const int64_t span = l->total_updates - l->warmup_updates;
    const int64_t done = u - l->warmup_updates;

    if (span <= 0 || done >= span)
        return 1.0;
    return (double)done / (double)span;
}

double
lrate_at(const struct lrate *l, double base, int64_t u)
{
    assert(u >= 0);
    if (u < l->warmup_updates)
        return base * (double)(u + 1) / (double)l->warmup_updates;
    switch (l->kind) {
    case SPEC_SCHEDULE_CONSTANT: return base;
    case SPEC_SCHEDULE_STEP:
        assert(l->step_size > 0);
        return base * pow(l->gamma, (double)(u / l->step_size));
    case SPEC_SCHEDULE_COSINE:
        return l->min_lr +
               (base - l->min_lr) * 0.5 * (1.0 + cos(M_PI * progress_at(l, u)));
    case SPEC_SCHEDULE_LINEAR:
        return l->min_lr + (base - l->min_lr) * (1.0 - progress_at(l, u));
    }
    assert(!"schedule kind");
    return base;
}
