/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/golden/golden.h"

#include <assert.h>

/* index without dim axis, or with a dim of index `at` put in there. */
static void
drop_axis(int64_t *index, int rank, int axis)
{
    for (int i = axis; i + 1 < rank; i++)
        index[i] = index[i + 1];
}

static void
insert_axis(int64_t *index, int rank, int axis, int64_t at)
{
    for (int i = rank; i > axis; i--)
        index[i] = index[i - 1];
    index[axis] = at;
}

/* The input that entry index[axis] of a cat lies in; index becomes its own. */
static int
find_part(const struct kernel_sig *sig, int axis, int64_t *index)
{
    int i = 0;

    while (index[axis] >= sig->in[i].dim[axis]) {
        index[axis] -= sig->in[i].dim[axis];
        i++;
        assert(i < sig->n_in && sig->in[i].dtype != DTYPE_NONE);
    }
    return i;
}

/* The element that output element index is, or 0 where it is none. index is
 * changed. */
static double
moved(const struct golden *g, int64_t *index)
{
    const struct kernel_sig *sig = g->sig;
    const union op_params *p = &sig->params;
    const int axis = p->axis.axis;
    int from = 0;

    if (sig->op == OP_TRANSPOSE) {
        const int64_t old = index[p->transpose.dim0];

        index[p->transpose.dim0] = index[p->transpose.dim1];
        index[p->transpose.dim1] = old;
    } else if (sig->op == OP_NARROW) {
        index[axis] += p->axis.start;
    } else if (sig->op == OP_NARROW_BWD) {
        index[axis] -= p->axis.start;
        if (index[axis] < 0 || index[axis] >= sig->in[0].dim[axis])
            return 0;
    } else if (sig->op == OP_CAT) {
        from = find_part(sig, axis, index);
    } else if (sig->op == OP_STACK) {
        from = (int)index[axis];
        drop_axis(index, sig->out[0].rank, axis);
    } else if (sig->op == OP_STACK_BWD) {
        insert_axis(index, sig->out[0].rank, axis, p->axis.start);
    }
    return g->in[from][tensor_ravel(&sig->in[from], index)];
}

void
golden_move(const struct golden *g)
{
    const struct tensor_desc *out = &g->sig->out[0];

    for (int64_t i = 0; i < tensor_n_elems(out); i++) {
        int64_t index[TENSOR_MAX_RANK + 1];

        tensor_unravel(out, i, index);
        g->out[0][i] = g->sig->op == OP_RESHAPE ? g->in[0][i] : moved(g, index);
    }
}
