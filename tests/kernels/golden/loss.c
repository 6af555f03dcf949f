/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/golden/golden.h"

#include <math.h>

/* ---- one prediction, one target ------------------------------------------ */

/* Log-probabilities against probabilities, or their logs. */
static double
kl_loss(const union op_params *p, double x, double t)
{
    if (p->loss.log_target)
        return exp(t) * (t - x) * p->loss.factor;
    return t == 0 ? 0 : t * (log(t) - x) * p->loss.factor;
}

static double
pair_loss(enum op op, const union op_params *p, double x, double t)
{
    const double d = fabs(x - t);

    if (op == OP_SMOOTH_L1)
        return d < p->loss.beta ? d * d / (2 * p->loss.beta)
                                : d - p->loss.beta / 2;
    if (op == OP_HUBER)
        return d <= p->loss.delta ? d * d / 2
                                  : p->loss.delta * (d - p->loss.delta / 2);
    if (op == OP_KL_DIV)
        return kl_loss(p, x, t);
    if (op == OP_MSE)
        return (x - t) * (x - t);
    if (op == OP_L1)
        return fabs(x - t);
    return (x > 0 || isnan(x) ? x : 0) - x * t + log1p(exp(-fabs(x)));
}

static double
pair_mag(enum op op, const union op_params *p, double x, double t)
{
    const double d = fabs(x - t);

    if (op == OP_SMOOTH_L1 && d >= p->loss.beta)
        return d + p->loss.beta / 2;
    if (op == OP_HUBER && d > p->loss.delta)
        return p->loss.delta * (d + p->loss.delta / 2);
    if (op == OP_KL_DIV) {
        const double w = p->loss.log_target ? exp(t) : t;
        const double log_t = p->loss.log_target ? t : t == 0 ? 0 : log(t);

        return fabs(w * p->loss.factor) * (fabs(log_t) + fabs(x));
    }
    if (op == OP_BCE_WITH_LOGITS)
        return fabs(x) + fabs(x * t) + 1;
    return fabs(pair_loss(op, p, x, t));
}

static double
pair_grad(enum op op, const union op_params *p, double x, double t, double *mag)
{
    const double s = 1 / (1 + exp(-x)), d = x - t;

    *mag = 0;
    if (op == OP_SMOOTH_L1_BWD && fabs(d) < p->loss.beta)
        return d / p->loss.beta;
    if (op == OP_HUBER_BWD)
        return isnan(d) ? d : fmax(-p->loss.delta, fmin(p->loss.delta, d));
    if (op == OP_KL_DIV_BWD)
        return p->loss.factor * -(p->loss.log_target ? exp(t) : t);
    if (op == OP_MSE_BWD)
        return 2 * (x - t);
    if (op == OP_L1_BWD || op == OP_SMOOTH_L1_BWD)
        return isnan(x - t) ? x - t : x > t ? 1 : x < t ? -1 : 0;
    *mag = s + fabs(t);
    return s - t;
}

static void
pairs(const struct golden *g)
{
    const union op_params *p = &g->sig->params;
    const int64_t n = tensor_n_elems(&g->sig->in[0]);
    double sum = 0, mag = 0;

    for (int64_t i = 0; i < n; i++) {
        sum += pair_loss(g->sig->op, p, g->in[0][i], g->in[1][i]);
        mag += pair_mag(g->sig->op, p, g->in[0][i], g->in[1][i]);
    }
    g->out[0][0] = sum * g->in[2][0];
    g->mag[0][0] = mag * fabs(g->in[2][0]);
}

static void
pairs_bwd(const struct golden *g)
{
    const int64_t n = tensor_n_elems(&g->sig->in[1]);
    const double dloss = g->in[0][0] * g->in[3][0];

    for (int64_t i = 0; i < n; i++) {
        double mag;

        g->out[0][i] = dloss * pair_grad(g->sig->op, &g->sig->params,
                                         g->in[1][i], g->in[2][i], &mag);
        g->mag[0][i] = fabs(dloss) * mag;
    }
}

/* ---- rows of classes ----------------------------------------------------- */

struct rows {
    const double *x, *target;
    int64_t n, classes;
    double smoothing;
    bool has_ignore;
    int64_t ignore;
};

static struct rows
rows_of(const struct golden *g, int x_in)
{
    const struct tensor_desc *x = &g->sig->in[x_in];
    struct rows r = {.x = g->in[x_in],
                     .target = g->in[x_in + 1],
                     .n = tensor_n_elems(&g->sig->in[x_in + 1]),
                     .classes = x->layout == TENSOR_NHWC ? x->dim[1]
                                                         : x->dim[x->rank - 1]};

    r.smoothing = g->sig->params.loss.label_smoothing;
    r.has_ignore = g->sig->params.loss.has_ignore_index;
    r.ignore = g->sig->params.loss.ignore_index;
    return r;
}

enum kind { ROW_COUNTS, ROW_IGNORED, ROW_BAD };

static enum kind
row_kind(const struct rows *r, int64_t row)
{
    const int64_t t = (int64_t)r->target[row];

    if (r->has_ignore && t == r->ignore)
        return ROW_IGNORED;
    return t >= 0 && t < r->classes ? ROW_COUNTS : ROW_BAD;
}

/* Log of the sum of exponentials of a row. */
static double
log_sum(const struct rows *r, int64_t row)
{
    const double *x = r->x + row * r->classes;
    double max = -INFINITY, sum = 0;

    for (int64_t c = 0; c < r->classes; c++)
        if (x[c] > max || isnan(x[c]))
            max = x[c];
    for (int64_t c = 0; c < r->classes; c++)
        sum += exp(x[c] - max);
    return max + log(sum);
}

static void
cross_entropy(const struct golden *g)
{
    const struct rows r = rows_of(g, 0);
    double total = 0, mag = 0;

    for (int64_t row = 0; row < r.n; row++) {
        const double *x = r.x + row * r.classes;
        const int64_t t = (int64_t)r.target[row];
        double log_z, spread = 0, spread_mag = 0;

        if (row_kind(&r, row) == ROW_IGNORED)
            continue;
        if (row_kind(&r, row) == ROW_BAD) {
            total = NAN;
            continue;
        }
        log_z = log_sum(&r, row);
        for (int64_t c = 0; c < r.classes && r.smoothing > 0; c++) {
            spread += (log_z - x[c]) / (double)r.classes;
            spread_mag += (fabs(log_z) + fabs(x[c])) / (double)r.classes;
        }
        total += (1 - r.smoothing) * (log_z - x[t]) + r.smoothing * spread;
        mag += fabs(log_z) + fabs(x[t]) + r.smoothing * spread_mag;
    }
    g->out[0][0] = total * g->in[2][0];
    g->mag[0][0] = mag * fabs(g->in[2][0]);
}

static void
cross_entropy_bwd(const struct golden *g)
{
    const struct rows r = rows_of(g, 1);
    const double dloss = g->in[0][0] * g->in[3][0];

    for (int64_t row = 0; row < r.n; row++) {
        const enum kind kind = row_kind(&r, row);
        const double log_z = kind == ROW_COUNTS ? log_sum(&r, row) : 0;

        for (int64_t c = 0; c < r.classes; c++) {
            const int64_t at = row * r.classes + c;
            const double p = exp(r.x[at] - log_z);
            const double hit = (int64_t)r.target[row] == c;
            const double goal =
                (1 - r.smoothing) * hit + r.smoothing / (double)r.classes;

            g->out[0][at] = kind == ROW_COUNTS    ? (p - goal) * dloss
                            : kind == ROW_IGNORED ? 0
                                                  : NAN;
            g->mag[0][at] = kind == ROW_COUNTS ? (p + goal) * fabs(dloss) : 0;
        }
    }
}

static void
nll(const struct golden *g)
{
    const struct rows r = rows_of(g, 0);
    double total = 0, mag = 0;

    for (int64_t row = 0; row < r.n; row++) {
        const int64_t t = (int64_t)r.target[row];

        if (row_kind(&r, row) == ROW_IGNORED)
            continue;
        if (row_kind(&r, row) == ROW_BAD) {
            total = NAN;
            continue;
        }
        total -= r.x[row * r.classes + t];
        mag += fabs(r.x[row * r.classes + t]);
    }
    g->out[0][0] = total * g->in[2][0];
    g->mag[0][0] = mag * fabs(g->in[2][0]);
}

static void
nll_bwd(const struct golden *g)
{
    const struct rows r = rows_of(g, 1);

    for (int64_t i = 0; i < r.n * r.classes; i++) {
        const int64_t row = i / r.classes, c = i % r.classes;
        const bool hit = (int64_t)r.target[row] == c;

        g->out[0][i] = row_kind(&r, row) == ROW_BAD ? (double)NAN
                       : row_kind(&r, row) == ROW_COUNTS && hit
                           ? -g->in[0][0] * g->in[3][0]
                           : 0;
    }
}

static bool
has_nan(const struct rows *r, int64_t row)
{
    for (int64_t c = 0; c < r->classes; c++)
        if (isnan(r->x[row * r->classes + c]))
            return true;
    return false;
}

/* Whether class c comes before class t, by score, then by number. */
static bool
before(const struct rows *r, int64_t row, int64_t c, int64_t t)
{
    const double *x = r->x + row * r->classes;

    return x[c] > x[t] || (x[c] == x[t] && c < t);
}

static void
correct(const struct golden *g)
{
    const struct rows r = rows_of(g, 0);
    const int64_t k = g->sig->params.loss.k;

    for (int64_t row = 0; row < r.n; row++) {
        int64_t n = 0;

        if (row_kind(&r, row) != ROW_COUNTS || has_nan(&r, row))
            continue;
        for (int64_t c = 0; c < r.classes; c++)
            n += before(&r, row, c, (int64_t)r.target[row]);
        g->out[0][0] += n < (k == 0 ? 1 : k);
    }
}

/* The first maximum is what no class comes before. */
static void
confusion(const struct golden *g)
{
    const struct rows r = rows_of(g, 0);

    for (int64_t row = 0; row < r.n; row++)
        for (int64_t c = 0; c < r.classes; c++) {
            bool first = true;

            if (row_kind(&r, row) != ROW_COUNTS || has_nan(&r, row))
                break;
            for (int64_t other = 0; other < r.classes; other++)
                first = first && !before(&r, row, other, c);
            if (first)
                g->out[0][(int64_t)r.target[row] * r.classes + c] += 1;
        }
}

void
golden_loss(const struct golden *g)
{
    const enum op op = g->sig->op;

    switch ((int)op) {
    case OP_CROSS_ENTROPY: cross_entropy(g); break;
    case OP_CROSS_ENTROPY_BWD: cross_entropy_bwd(g); break;
    case OP_NLL: nll(g); break;
    case OP_NLL_BWD: nll_bwd(g); break;
    case OP_CORRECT: correct(g); break;
    case OP_CONFUSION: confusion(g); break;
    case OP_MSE:
    case OP_L1:
    case OP_BCE_WITH_LOGITS:
    case OP_SMOOTH_L1:
    case OP_HUBER:
    case OP_KL_DIV: pairs(g); break;
    default: pairs_bwd(g); break;
    }
}
