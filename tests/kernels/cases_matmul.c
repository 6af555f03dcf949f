/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/cases.h"

struct size {
    int64_t b, h, m, k, n; /* b or h -1: no such dimension */
};

static const struct size sizes[] = {
    {-1, -1, 1, 1, 1},   {-1, -1, 5, 3, 7},     {2, -1, 0, 3, 2},
    {2, -1, 3, 0, 2},    {2, -1, 3, 4, 0},      {0, -1, 3, 4, 5},
    {3, -1, 9, 33, 17},  {2, 3, 4, 5, 6},       {-1, -1, 65, 129, 131},
    {5, 2, 33, 64, 48},  {2, -1, 2, 3000, 3},   {3, -1, 1, 16, 100},
    {7, -1, 70, 64, 64}, {-1, -1, 128, 64, 10},
};
#define N_SIZES (int)(sizeof(sizes) / sizeof(sizes[0]))

static struct tensor_desc
stack(enum dtype t, const struct size *s, int64_t rows, int64_t cols,
      bool transposed)
{
    int64_t dim[4];
    int rank = 0;

    if (s->b >= 0)
        dim[rank++] = s->b;
    if (s->h >= 0)
        dim[rank++] = s->h;
    dim[rank++] = transposed ? cols : rows;
    dim[rank++] = transposed ? rows : cols;
    return tensor_make(t, rank, dim);
}

static void
emit(const struct cases_maker *m, const struct size *s, bool a_t, bool b_t)
{
    struct kcase c = cases_start(m);
    const struct tensor_desc a = stack(m->t, s, s->m, s->k, a_t);
    const struct tensor_desc b = stack(m->t, s, s->k, s->n, b_t);
    const struct tensor_desc y = stack(m->t, s, s->m, s->n, false);

    c.sig.params.matmul.a_transposed = a_t;
    c.sig.params.matmul.b_transposed = b_t;
    c.sig.in[0] = m->op == OP_MATMUL ? a : y;
    c.sig.in[1] = m->op == OP_MATMUL_DB ? a : b;
    c.sig.out[0] = m->op == OP_MATMUL ? y : m->op == OP_MATMUL_DA ? a : b;
    for (int i = 0; i < 2; i++) {
        c.fill[0] = c.fill[1] = i == 0 ? CHECK_NORMAL : CHECK_SUMMED;
        m->fn(m->ctx, &c);
    }
}

void
cases_matmul(const struct cases_maker *m)
{
    for (int i = 0; i < N_SIZES; i++)
        for (int how = 0; how < 4; how++)
            emit(m, &sizes[i], how & 1, how & 2);
}
