/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/cases.h"

/* Every finite number, squares out of float32's range among them: forward
 * only, where the statistics fit. */
static void
emit(const struct cases_maker *m, struct kcase *k, bool forward)
{
    m->fn(m->ctx, k);
    k->fill[0] = CHECK_SUMMED;
    m->fn(m->ctx, k);
    if (forward) {
        k->fill[0] = CHECK_WIDE;
        m->fn(m->ctx, k);
    }
}

/* ---- group_norm ---------------------------------------------------------- */

static void
emit_group(const struct cases_maker *m, const struct tensor_desc *x,
           int64_t n_groups, bool affine)
{
    const struct tensor_desc stats =
        cases_matrix(DTYPE_F32, x->dim[0], n_groups);
    struct tensor_desc w = cases_vector(DTYPE_F32, x->dim[1]);
    struct kcase k = cases_start(m);

    if (!affine)
        w.dtype = DTYPE_NONE;
    k.sig.params.group_norm.eps = 1e-5;
    k.sig.params.group_norm.n_groups = n_groups;
    k.sig.out[0] = *x;
    if (m->op == OP_GROUP_NORM_BWD) {
        k.sig.in[0] = k.sig.in[1] = *x;
        k.sig.in[2] = k.sig.out[1] = k.sig.out[2] = w;
        k.sig.in[3] = k.sig.in[4] = stats;
        k.fill[4] = CHECK_POSITIVE;
    } else {
        k.sig.in[0] = *x;
        k.sig.in[1] = k.sig.in[2] = w;
        k.sig.out[1] = k.sig.out[2] = stats;
    }
    emit(m, &k, m->op == OP_GROUP_NORM);
}

static void
group_cases(const struct cases_maker *m)
{
    static const struct {
        int rank;
        int64_t dim[4], n_groups;
    } shapes[] = {
        {4, {0, 4, 3, 3}, 2},     /* no image */
        {3, {2, 4, 0}, 2},        /* nothing in an image */
        {2, {1, 1}, 1},           /* one of everything */
        {2, {5, 6}, 3},           /* [N,C] */
        {2, {7, 2100}, 4},        /* wider than a segment */
        {3, {3, 6, 7}, 2},        /* signals */
        {3, {2, 10, 301}, 5},     /* lines with a rest */
        {4, {2, 6, 5, 4}, 1},     /* as layer_norm over an image */
        {4, {2, 6, 5, 4}, 6},     /* a channel each */
        {4, {3, 32, 9, 11}, 8},   /* several lines */
        {4, {2, 1536, 3, 2}, 32}, /* groups over two segments */
        {4, {5, 16, 40, 33}, 4},  /* several chunks, threads */
    };

    for (int i = 0; i < (int)(sizeof(shapes) / sizeof(shapes[0])); i++) {
        struct tensor_desc x = tensor_make(m->t, shapes[i].rank, shapes[i].dim);

        if (x.rank > 2)
            x.layout = TENSOR_NHWC;
        emit_group(m, &x, shapes[i].n_groups, i % 4 != 3);
    }
}

/* ---- rms_norm ------------------------------------------------------------ */

static void
emit_rms(const struct cases_maker *m, const struct tensor_desc *x, int n_dims,
         bool affine)
{
    const int lead = x->rank - n_dims;
    const struct tensor_desc rows = tensor_make(DTYPE_F32, lead, x->dim);
    struct tensor_desc w = tensor_make(DTYPE_F32, n_dims, x->dim + lead);
    struct kcase k = cases_start(m);

    if (!affine)
        w.dtype = DTYPE_NONE;
    k.sig.params.layer_norm.eps = 1e-6;
    k.sig.params.layer_norm.n_dims = n_dims;
    k.sig.out[0] = *x;
    if (m->op == OP_RMS_NORM_BWD) {
        k.sig.in[0] = k.sig.in[1] = *x;
        k.sig.in[2] = k.sig.out[1] = w;
        k.sig.in[3] = rows;
        k.fill[3] = CHECK_POSITIVE;
    } else {
        k.sig.in[0] = *x;
        k.sig.in[1] = w;
        k.sig.out[1] = rows;
    }
    emit(m, &k, m->op == OP_RMS_NORM);
}

static void
rms_cases(const struct cases_maker *m)
{
    static const int64_t rows[][2] = {{0, 5},    {4, 0},    {1, 1},    {3, 17},
                                      {130, 33}, {5, 2049}, {40, 1024}};
    struct tensor_desc x;

    for (int i = 0; i < 7; i++) {
        x = tensor_make(m->t, 2, rows[i]);
        emit_rms(m, &x, 1, true);
        emit_rms(m, &x, 1, false);
    }
    for (int rank = 3; rank <= 4; rank++)
        for (int n_dims = 1; n_dims <= rank; n_dims++) {
            x = tensor_make(m->t, rank, (int64_t[]){2, 3, 4, 5});
            emit_rms(m, &x, n_dims, true);
            x.layout = TENSOR_NHWC;
            emit_rms(m, &x, n_dims, n_dims != 2);
        }
}

void
cases_group_norm(const struct cases_maker *m)
{
    if (m->op == OP_GROUP_NORM || m->op == OP_GROUP_NORM_BWD)
        group_cases(m);
    else
        rms_cases(m);
}
