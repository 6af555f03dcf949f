/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/metric.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/class_rows.h"
#include "kernels/cpu/convert.h"

struct scores {
    struct class_rows r;
    const void *x;
    enum dtype dtype;
};

static struct scores
scores_make(const struct kernel_call *call)
{
    struct scores s = {.r = class_rows_make(call->sig, 0),
                       .x = call->in[0],
                       .dtype = call->sig->in[0].dtype};

    s.r.target = call->in[1];
    return s;
}

/* The row's target; -1: the row does not count. */
static int64_t
target_of(const struct scores *s, int64_t row)
{
    const int64_t t = s->r.target[row];

    return class_rows_in_range(&s->r, t) && !class_rows_ignored(&s->r, t) ? t
                                                                          : -1;
}

/* How many classes come before class t; -1 when there is a NaN. */
static int64_t
rank_of(const struct scores *s, int64_t row, int64_t t)
{
    const int64_t begin = row * s->r.classes;
    const float score = convert_get(s->x, s->dtype, begin + t);
    int64_t before = 0;

    for (int64_t i = 0; i < s->r.classes; i++) {
        const float v = convert_get(s->x, s->dtype, begin + i);

        if (isnan(v))
            return -1;
        if (v > score || (i < t && v == score))
            before++;
    }
    return before;
}

static void
run_correct(const struct kernel_call *call)
{
    const struct scores s = scores_make(call);
    const int64_t asked = call->sig->params.loss.k, k = asked > 0 ? asked : 1;
    float *count = call->out[0];
    int64_t n = 0;

    for (int64_t row = 0; row < s.r.rows; row++) {
        const int64_t t = target_of(&s, row);
        const int64_t rank = t >= 0 ? rank_of(&s, row, t) : -1;

        if (rank >= 0 && rank < k)
            n++;
    }
    count[0] = (float)n;
}

/* The first maximum; -1 when there is a NaN. */
static int64_t
best_of(const struct scores *s, int64_t row)
{
    const int64_t begin = row * s->r.classes;
    float max = -INFINITY;
    int64_t best = 0;

    for (int64_t i = 0; i < s->r.classes; i++) {
        const float v = convert_get(s->x, s->dtype, begin + i);

        if (isnan(v))
            return -1;
        if (v > max) {
            max = v;
            best = i;
        }
    }
    return best;
}

static void
run_confusion(const struct kernel_call *call)
{
    const struct scores s = scores_make(call);
    const int64_t n = s.r.classes;
    float *counts = call->out[0];

    memset(counts, 0, (size_t)(n * n) * sizeof(float));
    for (int64_t row = 0; row < s.r.rows; row++) {
        const int64_t t = target_of(&s, row);
        const int64_t best = t >= 0 ? best_of(&s, row) : -1;

        if (best >= 0)
            counts[t * n + best]++;
    }
}

const struct kernel metric_correct = {.run = run_correct};
const struct kernel metric_confusion = {.run = run_confusion};
