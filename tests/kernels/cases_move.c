/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/cases.h"

/* A case as it is, and with every kind of bits; other dtypes once, beside
 * float32. */
static void
emit(const struct cases_maker *m, struct kcase *c)
{
    static const enum dtype others[] = {DTYPE_I32, DTYPE_BOOL};

    m->fn(m->ctx, c);
    for (int i = 0; i < c->sig.n_in; i++)
        c->fill[i] = CHECK_SPECIAL;
    m->fn(m->ctx, c);
    for (int t = 0; t < 2 && m->t == DTYPE_F32; t++) {
        for (int i = 0; i < c->sig.n_in; i++) {
            c->fill[i] = CHECK_CLASS;
            if (c->sig.in[i].dtype != DTYPE_NONE)
                c->sig.in[i].dtype = others[t];
        }
        c->classes = 1000;
        c->sig.out[0].dtype = others[t];
        m->fn(m->ctx, c);
    }
}

static struct tensor_desc
with_layout(struct tensor_desc t, enum tensor_layout layout)
{
    t.layout = layout;
    return t;
}

/* ---- relayout, reshape, transpose ----------------------------------------- */

static void
relayout_cases(const struct cases_maker *m)
{
    static const int64_t images[][4] = {
        {0, 3, 2, 2},  {1, 1, 1, 1},   {2, 3, 4, 5},   {2, 1, 9, 9},
        {2, 33, 1, 1}, {3, 17, 16, 5}, {2, 64, 32, 9}, {3, 70, 41, 1}};

    for (int i = 0; i < 8; i++)
        for (int rank = 3; rank <= 4; rank++)
            for (int way = 0; way < 3; way++) {
                const struct tensor_desc x = tensor_make(m->t, rank, images[i]);
                struct kcase c = cases_start(m);

                c.sig.in[0] =
                    with_layout(x, way == 0 ? TENSOR_ROW : TENSOR_NHWC);
                c.sig.out[0] =
                    with_layout(x, way == 1 ? TENSOR_ROW : TENSOR_NHWC);
                emit(m, &c);
            }
}

static void
reshape_cases(const struct cases_maker *m)
{
    static const struct {
        int from, to;
        int64_t dim[2][4];
    } shapes[] = {
        {2, 3, {{0, 4}, {2, 0, 2}}},
        {0, 1, {{0}, {1}}},
        {3, 2, {{4, 5, 6}, {10, 12}}},
        {2, 2, {{5, 7}, {5, 7}}}, /* in place too */
        {2, 4, {{300, 190}, {3, 100, 19, 10}}},
    };

    for (int i = 0; i < (int)(sizeof(shapes) / sizeof(shapes[0])); i++) {
        struct kcase c = cases_start(m);

        c.sig.in[0] = tensor_make(m->t, shapes[i].from, shapes[i].dim[0]);
        c.sig.out[0] = tensor_make(m->t, shapes[i].to, shapes[i].dim[1]);
        emit(m, &c);
    }
}

static void
transpose_cases(const struct cases_maker *m)
{
    static const struct {
        int rank, dim0, dim1;
        int64_t dim[TENSOR_MAX_RANK];
    } shapes[] = {
        {2, 0, 1, {0, 5}},
        {2, 0, 1, {1, 1}},
        {2, 1, 0, {7, 3}},
        {2, 0, 1, {32, 64}},
        {2, 0, 1, {259, 131}},
        {3, 1, 2, {3, 1, 17}},
        {3, 0, 0, {3, 4, 5}},      /* a copy */
        {4, 1, 2, {2, 33, 4, 16}}, /* [B,T,H,D] to [B,H,T,D] */
        {4, 1, 2, {2, 150, 3, 40}},
        {4, 1, 2, {2, 9, 3, 1}},
        {4, 2, 3, {2, 3, 35, 66}},
        {4, 0, 3, {6, 3, 2, 20}}, /* the outermost becomes the fastest */
        {4, 3, 1, {3, 65, 2, 33}},
        {5, 1, 3, {2, 3, 4, 5, 6}},
        {6, 0, 5, {3, 2, 2, 3, 2, 5}},
        {6, 1, 4, {2, 5, 3, 2, 4, 3}},
        {6, 2, 5, {2, 3, 18, 2, 2, 17}},
    };

    for (int i = 0; i < (int)(sizeof(shapes) / sizeof(shapes[0])); i++) {
        struct kcase c = cases_start(m);
        struct tensor_desc *y = &c.sig.out[0];
        const int a = shapes[i].dim0, b = shapes[i].dim1;

        c.sig.params.transpose.dim0 = a;
        c.sig.params.transpose.dim1 = b;
        c.sig.in[0] = *y = tensor_make(m->t, shapes[i].rank, shapes[i].dim);
        y->dim[a] = c.sig.in[0].dim[b];
        y->dim[b] = c.sig.in[0].dim[a];
        emit(m, &c);
    }
}

/* ---- narrow -------------------------------------------------------------- */

static void
emit_narrow(const struct cases_maker *m, const struct tensor_desc *x, int axis,
            int64_t start, int64_t length)
{
    const bool forward = m->op == OP_NARROW;
    struct kcase c = cases_start(m);
    struct tensor_desc y = *x;

    y.dim[axis] = length;
    c.sig.params.axis.axis = axis;
    c.sig.params.axis.start = start;
    c.sig.params.axis.length = length;
    c.sig.in[0] = forward ? *x : y;
    c.sig.out[0] = forward ? y : *x;
    emit(m, &c);
}

static void
narrow_cases(const struct cases_maker *m)
{
    const struct tensor_desc image = tensor_make_nhwc(m->t, 3, 5, 4, 6);
    const struct tensor_desc signal = tensor_make_nlc(m->t, 2, 33, 600);
    const struct tensor_desc row = tensor_make(m->t, 3, (int64_t[]){3, 7, 5});
    const struct tensor_desc none = tensor_make(m->t, 2, (int64_t[]){0, 4});
    const struct tensor_desc flat = cases_vector(m->t, 70001);

    for (int axis = 0; axis < 4; axis++) {
        emit_narrow(m, &image, axis, 0, image.dim[axis]);
        emit_narrow(m, &image, axis, 1, 2);
        emit_narrow(m, &image, axis, image.dim[axis] - 1, 1);
        emit_narrow(m, &image, axis, 2, 0);
    }
    for (int axis = 0; axis < 3; axis++) {
        emit_narrow(m, &row, axis, 1, 2);
        emit_narrow(m, &signal, axis, 0, signal.dim[axis] - 1);
    }
    emit_narrow(m, &none, 1, 1, 2);
    emit_narrow(m, &flat, 0, 3, 69990);
}

/* ---- cat, stack ------------------------------------------------------------ */

/* lengths: of each part along the axis, ended by -1. start is the second
 * part's place: where its gradient is. */
static void
emit_cat(const struct cases_maker *m, struct tensor_desc y, int axis,
         const int64_t *lengths)
{
    struct kcase c = cases_start(m);

    c.sig.params.axis.axis = axis;
    c.sig.params.axis.start = lengths[0];
    y.dim[axis] = 0;
    for (int i = 0; lengths[i] >= 0; i++) {
        c.sig.in[i] = y;
        c.sig.in[i].dim[axis] = lengths[i];
    }
    for (int i = 0; lengths[i] >= 0; i++)
        y.dim[axis] += lengths[i];
    c.sig.out[0] = y;
    emit(m, &c);
}

static void
cat_cases(const struct cases_maker *m)
{
    static const int64_t lengths[][9] = {{3, 5, -1},
                                         {0, 2, 1, -1},
                                         {4, 1, 0, 7, -1},
                                         {1, 1, 1, 1, 1, 1, 1, 1, -1},
                                         {64, 32, 16, 8, -1}};
    const struct tensor_desc shapes[] = {
        tensor_make_nhwc(m->t, 3, 2, 4, 3),
        tensor_make_nhwc(m->t, 2, 5, 9, 17),
        tensor_make_nlc(m->t, 2, 6, 31),
        tensor_make(m->t, 3, (int64_t[]){3, 2, 5}),
        tensor_make(m->t, 2, (int64_t[]){2, 40}),
    };

    for (int i = 0; i < 5; i++)
        for (int axis = 0; axis < shapes[i].rank; axis++)
            emit_cat(m, shapes[i], axis, lengths[(i + axis) % 5]);
    emit_cat(m, tensor_make(m->t, 2, (int64_t[]){0, 3}), 1, lengths[0]);
    emit_cat(m, cases_vector(m->t, 0), 0, (int64_t[]){40000, 30001, -1});
}

/* n parts of shape x; start is the one whose gradient is asked for. */
static void
emit_stack(const struct cases_maker *m, const struct tensor_desc *x, int axis,
           int n, int64_t start)
{
    struct tensor_desc y = *x;
    struct kcase c = cases_start(m);

    for (int i = x->rank; i > axis; i--)
        y.dim[i] = y.dim[i - 1];
    y.dim[axis] = n;
    y.rank++;
    c.sig.params.axis.axis = axis;
    c.sig.params.axis.start = start;
    if (m->op == OP_STACK)
        for (int i = 0; i < n; i++)
            c.sig.in[i] = *x;
    else
        c.sig.in[0] = y;
    c.sig.out[0] = m->op == OP_STACK ? y : *x;
    emit(m, &c);
}

static void
stack_cases(const struct cases_maker *m)
{
    const struct tensor_desc shapes[] = {
        cases_scalar(m->t),
        cases_matrix(m->t, 5, 7),
        cases_matrix(m->t, 0, 3),
        cases_matrix(m->t, 1, 1),
        cases_matrix(m->t, 210, 170),
        tensor_make(m->t, 5, (int64_t[]){2, 1, 3, 2, 4}),
    };

    for (int i = 0; i < 6; i++)
        for (int axis = 0; axis <= shapes[i].rank; axis++)
            emit_stack(m, &shapes[i], axis, 2 + (i + axis) % 7, i % 2);
}

void
cases_move(const struct cases_maker *m)
{
    if (m->op == OP_RELAYOUT)
        relayout_cases(m);
    else if (m->op == OP_RESHAPE)
        reshape_cases(m);
    else if (m->op == OP_TRANSPOSE)
        transpose_cases(m);
    else if (m->op == OP_NARROW || m->op == OP_NARROW_BWD)
        narrow_cases(m);
    else if (m->op == OP_CAT)
        cat_cases(m);
    else
        stack_cases(m);
}
