/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/golden/golden.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/philox.h"

/* q[b,t,h,d] and so on, packed or not, by plain arithmetic on indices. */
struct problem {
    const struct golden *g;
    int at; /* place of q among the inputs */
    int64_t b, h, t, s, d;
    double scale;
    /* Of one query, each [s]; dw is the weight's gradient, a_ and g_ the sums
     * of absolute terms behind score and dw. */
    double *score, *w, *dw, *a, *ga;
    bool *seen;
};

static const struct tensor_desc *
desc(const struct problem *p, int which)
{
    return &p->g->sig->in[p->at + which];
}

static bool
packed(const struct problem *p)
{
    return desc(p, 1)->dtype == DTYPE_NONE;
}

/* Position of element d of row `pos` in q (0), k (1) or v (2) or its
 * gradient. */
static int64_t
place(const struct problem *p, int which, int64_t b, int64_t h, int64_t pos,
      int64_t d)
{
    const int64_t c = p->h * p->d, n = which == 0 ? p->t : p->s;

    if (packed(p))
        return (b * n + pos) * 3 * c + which * c + h * p->d + d;
    return (b * n + pos) * c + h * p->d + d;
}

static double
value(const struct problem *p, int which, int64_t b, int64_t h, int64_t pos,
      int64_t d)
{
    const double *in = p->g->in[p->at + (packed(p) ? 0 : which)];

    return in[place(p, which, b, h, pos, d)];
}

static int64_t
y_place(const struct problem *p, int64_t b, int64_t h, int64_t t, int64_t d)
{
    return ((b * p->t + t) * p->h + h) * p->d + d;
}

static bool
may_see(const struct problem *p, int64_t b, int64_t t, int64_t s)
{
    const struct tensor_desc *m = desc(p, 3);
    const double *mask = p->g->in[p->at + 3];

    if (p->g->sig->params.attention.causal && s > t + p->s - p->t)
        return false;
    if (m->dtype == DTYPE_NONE)
        return true;
    if (m->rank == 3)
        return mask[(m->dim[1] == 1 ? b : b * p->t + t) * p->s + s] != 0;
    return mask[(m->dim[0] == p->t ? t : b) * p->s + s] != 0;
}

/* What dropout multiplies the weight by. */
static double
keep(const struct problem *p, int64_t b, int64_t h, int64_t t, int64_t s)
{
    const int64_t i = ((b * p->h + h) * p->t + t) * p->s + s;
    const double prob = p->g->sig->params.attention.p;
    uint32_t word[4];

    if (prob == 0)
        return 1;
    philox_words(p->g->step->seed, p->g->sig->params.attention.stream,
                 p->g->step->iteration, p->g->step->micro_batch,
                 (uint32_t)(i / 4), word);
    return (double)philox_uniform(word[i % 4]) >= prob ? 1 / (1 - prob) : 0;
}

static struct problem
problem_open(const struct golden *g)
{
    struct problem p = {.g = g, .at = g->sig->op == OP_ATTENTION_BWD ? 1 : 0};
    int64_t c;

    p.scale = g->sig->params.attention.scale;
    p.h = g->sig->params.attention.n_heads;
    p.b = desc(&p, 0)->dim[0];
    p.t = desc(&p, 0)->dim[1];
    p.s = packed(&p) ? p.t : desc(&p, 1)->dim[1];
    c = desc(&p, 0)->dim[2] / (packed(&p) ? 3 : 1);
    p.d = c / p.h;
    p.score = calloc((size_t)p.s * 5 + 1, sizeof(double));
    p.seen = calloc((size_t)p.s + 1, sizeof(bool));
    if (p.score == NULL || p.seen == NULL)
        abort();
    p.w = p.score + p.s;
    p.dw = p.w + p.s;
    p.a = p.dw + p.s;
    p.ga = p.a + p.s;
    return p;
}

static void
problem_close(struct problem *p)
{
    free(p->score);
    free(p->seen);
}

/* score, a, seen of a query; whether it sees anything. */
static bool
score_query(struct problem *p, int64_t b, int64_t h, int64_t t)
{
    bool any = false;

    for (int64_t s = 0; s < p->s; s++) {
        p->score[s] = p->a[s] = 0;
        p->seen[s] = may_see(p, b, t, s);
        any = any || p->seen[s];
        for (int64_t d = 0; d < p->d; d++) {
            const double term =
                value(p, 0, b, h, t, d) * value(p, 1, b, h, s, d) * p->scale;

            p->score[s] += term;
            p->a[s] += fabs(term);
        }
    }
    return any;
}

static double
log_sum(const struct problem *p)
{
    double max = -INFINITY, sum = 0;

    for (int64_t s = 0; s < p->s; s++)
        if (p->seen[s] && p->score[s] > max)
            max = p->score[s];
    for (int64_t s = 0; s < p->s; s++)
        if (p->seen[s])
            sum += exp(p->score[s] - max);
    return max + log(sum);
}

/* ---- forward -------------------------------------------------------------- *
 * A score is off by 2^-24 of a[s] for each of its terms; a weight by its own
 * score's and the weighted mean of all of them. */

static void
forward_query(struct problem *p, int64_t b, int64_t h, int64_t t)
{
    const struct golden *g = p->g;
    const bool any = score_query(p, b, h, t);
    const double lse = any ? log_sum(p) : (double)-INFINITY;
    double mean_a = 0;

    for (int64_t s = 0; s < p->s; s++) {
        p->w[s] = p->seen[s] ? exp(p->score[s] - lse) : 0;
        if (p->seen[s])
            mean_a += p->w[s] * p->a[s];
    }
    if (g->out[1] != NULL) {
        g->out[1][(b * p->h + h) * p->t + t] = lse;
        g->mag[1][(b * p->h + h) * p->t + t] = any ? fabs(lse) + mean_a + 1 : 0;
    }
    for (int64_t d = 0; d < p->d; d++) {
        double sum = 0, mag = 0;

        for (int64_t s = 0; s < p->s; s++) {
            const double kept = keep(p, b, h, t, s);
            double term;

            if (!p->seen[s])
                continue;
            term = (kept > 0 ? p->w[s] * kept : 0) * value(p, 2, b, h, s, d);
            sum += term;
            if (term != 0)
                mag += fabs(term) * (1 + p->a[s] + mean_a);
        }
        g->out[0][y_place(p, b, h, t, d)] = sum;
        g->mag[0][y_place(p, b, h, t, d)] = mag;
    }
}

/* ---- backward ------------------------------------------------------------- *
 * Weights are exp(score - lse) with the lse that is given. */

struct grads {
    double *q, *k, *v, *q_mag, *k_mag, *v_mag; /* packed: one tensor */
};

static void
add(double *sum, double *mag, int64_t at, double term, double term_mag)
{
    if (sum == NULL)
        return;
    sum[at] += term;
    mag[at] += term_mag;
}

/* w, dw, ga, and their weighted sum delta with its magnitude. */
static void
weigh_query(struct problem *p, int64_t b, int64_t h, int64_t t, double lse,
            double *delta, double *delta_mag)
{
    const double *dy = p->g->in[0];

    *delta = *delta_mag = 0;
    for (int64_t s = 0; s < p->s; s++) {
        p->w[s] = p->seen[s] ? exp(p->score[s] - lse) : 0;
        p->dw[s] = p->ga[s] = 0;
        if (!p->seen[s] || keep(p, b, h, t, s) == 0)
            continue;
        for (int64_t d = 0; d < p->d; d++) {
            const double term = dy[y_place(p, b, h, t, d)] *
                                value(p, 2, b, h, s, d) * keep(p, b, h, t, s);

            p->dw[s] += term;
            p->ga[s] += fabs(term);
        }
        *delta += p->w[s] * p->dw[s];
        *delta_mag +=
            p->w[s] * (p->ga[s] + fabs(p->dw[s]) * (1 + p->a[s] + fabs(lse)));
    }
}

static void
backward_query(struct problem *p, const struct grads *out, int64_t b, int64_t h,
               int64_t t)
{
    const double *dy = p->g->in[0];
    const double lse = p->g->in[6][(b * p->h + h) * p->t + t];
    double delta, delta_mag;

    score_query(p, b, h, t);
    weigh_query(p, b, h, t, lse, &delta, &delta_mag);
    for (int64_t s = 0; s < p->s; s++) {
        const double off = 1 + p->a[s] + fabs(lse); /* of the weight */
        const double kept = p->seen[s] ? keep(p, b, h, t, s) : 0;
        const double ds = p->w[s] * (p->dw[s] - delta) * p->scale;
        const double ds_mag =
            fabs(p->w[s] * p->scale) *
            ((fabs(p->dw[s]) + fabs(delta)) * off + p->ga[s] + delta_mag);

        if (!p->seen[s])
            continue;
        for (int64_t d = 0; d < p->d; d++) {
            const double g = dy[y_place(p, b, h, t, d)];
            const double q = value(p, 0, b, h, t, d);
            const double k = value(p, 1, b, h, s, d);

            add(out->q, out->q_mag, place(p, 0, b, h, t, d), ds * k,
                ds_mag * fabs(k));
            add(out->k, out->k_mag, place(p, 1, b, h, s, d), ds * q,
                ds_mag * fabs(q));
            add(out->v, out->v_mag, place(p, 2, b, h, s, d), p->w[s] * kept * g,
                fabs(p->w[s] * kept * g) * off);
        }
    }
}

void
golden_attention(const struct golden *g)
{
    const bool backward = g->sig->op == OP_ATTENTION_BWD;
    struct problem p = problem_open(g);
    const int k = packed(&p) ? 0 : 1, v = packed(&p) ? 0 : 2;
    const struct grads out = {g->out[0], g->out[k], g->out[v],
                              g->mag[0], g->mag[k], g->mag[v]};

    for (int i = 0; backward && i < g->sig->n_out; i++)
        for (int64_t j = 0;
             g->out[i] != NULL && j < tensor_n_elems(&g->sig->out[i]); j++)
            g->out[i][j] = g->mag[i][j] = 0;
    for (int64_t b = 0; b < p.b; b++)
        for (int64_t h = 0; h < p.h; h++)
            for (int64_t t = 0; t < p.t; t++) {
                if (backward)
                    backward_query(&p, &out, b, h, t);
                else
                    forward_query(&p, b, h, t);
            }
    problem_close(&p);
}
