/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/cases.h"

#include <math.h>

enum mask { MASK_NONE, MASK_PAIRS, MASK_KEYS, MASK_ROWS, MASK_FULL };

struct shape {
    int64_t b, t, s, h, d; /* s 0: as many as t, packed */
};

static const struct shape shapes[] = {
    {1, 1, 1, 1, 1},    {2, 3, 5, 2, 5},      {2, 5, 3, 1, 4},
    {0, 3, 4, 2, 8},    {2, 0, 4, 2, 8},      {2, 4, -1, 2, 3},
    {3, 2, 9, 3, 0},    {1, 1, 40, 2, 33},    {2, 33, 1, 1, 8},
    {2, 37, 70, 2, 33}, {1, 9, 0, 1, 16},     {2, 5, 0, 3, 5},
    {2, 70, 0, 1, 64},  {1, 150, 131, 1, 20},
};
#define N_SHAPES (int)(sizeof(shapes) / sizeof(shapes[0]))

struct variant {
    enum mask mask;
    bool causal;
    double p;
};

static const struct variant variants[] = {
    {MASK_NONE, false, 0}, {MASK_NONE, true, 0},     {MASK_PAIRS, false, 0},
    {MASK_KEYS, true, 0},  {MASK_FULL, false, 0.25}, {MASK_NONE, true, 0.5},
    {MASK_FULL, true, 0},  {MASK_ROWS, false, 0},    {MASK_ROWS, true, 0.25},
};
#define N_VARIANTS (int)(sizeof(variants) / sizeof(variants[0]))

static struct tensor_desc
cube(enum dtype t, int64_t a, int64_t b, int64_t c)
{
    return tensor_make(t, 3, (int64_t[]){a, b, c});
}

static void
set_mask(struct kcase *c, int at, const struct shape *s, int64_t keys,
         enum mask mask)
{
    c->fill[at] = CHECK_MASK;
    if (mask == MASK_PAIRS)
        c->sig.in[at] = cases_matrix(DTYPE_BOOL, s->t, keys);
    if (mask == MASK_KEYS)
        c->sig.in[at] = cases_matrix(DTYPE_BOOL, s->b, keys);
    if (mask == MASK_ROWS)
        c->sig.in[at] = cube(DTYPE_BOOL, s->b, 1, keys);
    if (mask == MASK_FULL)
        c->sig.in[at] = cube(DTYPE_BOOL, s->b, s->t, keys);
}

static void
emit(const struct cases_maker *m, const struct shape *s,
     const struct variant *v)
{
    const bool backward = m->op == OP_ATTENTION_BWD, packed = s->s == 0;
    /* -1: none at all */
    const int64_t keys = packed ? s->t : s->s < 0 ? 0 : s->s, c = s->h * s->d;
    const struct tensor_desc y = cube(m->t, s->b, s->t, c);
    const struct tensor_desc q = cube(m->t, s->b, s->t, packed ? 3 * c : c);
    const struct tensor_desc k = cube(m->t, s->b, keys, c);
    const struct tensor_desc lse = cube(DTYPE_F32, s->b, s->h, s->t);
    struct kcase k_case = cases_start(m);
    struct tensor_desc *in = k_case.sig.in + (backward ? 1 : 0);
    struct tensor_desc *out = k_case.sig.out;

    k_case.sig.params.attention.n_heads = s->h;
    k_case.sig.params.attention.causal = v->causal;
    k_case.sig.params.attention.scale = s->d > 0 ? 1 / sqrt((double)s->d) : 1;
    k_case.sig.params.attention.p = v->p;
    k_case.sig.params.attention.stream = 7;
    in[0] = q;
    if (!packed)
        in[1] = in[2] = k;
    set_mask(&k_case, backward ? 4 : 3, s, keys, v->mask);
    if (backward) {
        k_case.sig.in[0] = in[4] = y;
        in[5] = lse;
        out[0] = q;
        if (!packed)
            out[1] = out[2] = k;
    } else {
        out[0] = y;
        out[1] = lse;
    }
    m->fn(m->ctx, &k_case);
    /* A spoiled query spoils its own row; a spoiled value its column, of the
     * queries that may see it. */
    if (packed || backward)
        return;
    k_case.fill[0] = CHECK_SUMMED;
    m->fn(m->ctx, &k_case);
    k_case.fill[0] = CHECK_NORMAL;
    k_case.fill[2] = CHECK_SUMMED;
    if (v->mask == MASK_NONE && !v->causal)
        m->fn(m->ctx, &k_case);
}

void
cases_attention(const struct cases_maker *m)
{
    for (int i = 0; i < N_SHAPES; i++)
        for (int j = 0; j < N_VARIANTS; j++)
            emit(m, &shapes[i], &variants[j]);
}
