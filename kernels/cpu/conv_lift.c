/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/conv_lift.h"

#include <assert.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/conv2d.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"

#define ALIGN 64

/* ---- the 2-D signature --------------------------------------------------- */

static enum op
op_2d(enum op op)
{
    switch ((int)op) {
    case OP_CONV1D:
    case OP_CONV_TRANSPOSE2D_DX: return OP_CONV2D;
    case OP_CONV1D_DX:
    case OP_CONV_TRANSPOSE2D: return OP_CONV2D_DX;
    case OP_CONV1D_DW:
    case OP_CONV_TRANSPOSE2D_DW: return OP_CONV2D_DW;
    default: assert(0); return op;
    }
}

static bool
is_signal_op(enum op op)
{
    return op == OP_CONV1D || op == OP_CONV1D_DX || op == OP_CONV1D_DW;
}

/* A dim of 1 before the last of a signal or its weight. */
static struct tensor_desc
with_height(const struct tensor_desc *t)
{
    struct tensor_desc image = *t;

    if (t->dtype == DTYPE_NONE || t->rank != 3)
        return image;
    image.rank = 4;
    image.dim[2] = 1;
    image.dim[3] = t->dim[2];
    return image;
}

/* Without the bias of a transposed convolution, which no 2-D kernel adds. */
static struct kernel_sig
lift(const struct kernel_sig *sig)
{
    struct kernel_sig up = *sig;

    up.op = op_2d(sig->op);
    up.n_in = op_info(up.op)->n_in;
    for (int i = 0; i < OP_MAX_IN; i++) {
        const bool given = i < sig->n_in && i < up.n_in;

        up.in[i] = given ? with_height(&sig->in[i])
                         : (struct tensor_desc){.dtype = DTYPE_NONE};
    }
    up.out[0] = with_height(&sig->out[0]);
    if (is_signal_op(sig->op)) {
        up.params.conv.stride[0] = up.params.conv.dilation[0] = 1;
        up.params.conv.padding[0] = 0;
    } else if (sig->op == OP_CONV_TRANSPOSE2D_DW) {
        up.in[0] = sig->in[1];
        up.in[1] = sig->in[0];
    }
    return up;
}

/* ---- bias of a transposed convolution ------------------------------------ */

static bool
has_bias(const struct kernel_sig *sig)
{
    return sig->op == OP_CONV_TRANSPOSE2D && sig->in[2].dtype != DTYPE_NONE;
}

/* What the workspace holds beside the 2-D kernel's: the sums in float32 where
 * y is half, and the bias spread over a line. */
struct room {
    size_t sums_at, line_at, kernel_at;
};

static size_t
aligned(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static struct room
room_of(const struct kernel_sig *sig)
{
    const struct tensor_desc *y = &sig->out[0];
    struct room r = {0, 0, 0};

    if (!has_bias(sig))
        return r;
    if (y->dtype != DTYPE_F32)
        r.line_at = aligned((size_t)tensor_n_elems(y) * sizeof(float));
    r.kernel_at =
        r.line_at +
        aligned((size_t)rows_make_plan(tensor_n_elems(y), y->dim[1]).line *
                sizeof(float));
    return r;
}

struct bias {
    struct rows_plan plan;
    float *sums, *line;
    void *y;
    enum dtype type;
};

CPU_CLONES static void
add_line(float *sum, const float *bias, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        sum[i] += bias[i];
}

static void
add_chunk(const void *ctx, int64_t item)
{
    const struct bias *b = ctx;
    int64_t begin, end;

    rows_chunk_range(&b->plan, item, &begin, &end);
    for (int64_t at = begin; at < end; at += b->plan.line)
        add_line(b->sums + at, b->line,
                 end - at < b->plan.line ? end - at : b->plan.line);
    if (b->type != DTYPE_F32)
        convert_from_f32((uint16_t *)b->y + begin, b->type, b->sums + begin,
                         end - begin);
}

static void
add_bias(const struct kernel_call *call, float *sums, float *line)
{
    const struct kernel_sig *sig = call->sig;
    const struct tensor_desc *y = &sig->out[0];
    struct bias b = {.plan = rows_make_plan(tensor_n_elems(y), y->dim[1]),
                     .sums = sums,
                     .line = line,
                     .y = call->out[0],
                     .type = y->dtype};

    for (int64_t i = 0; i < b.plan.line; i++)
        line[i] = convert_get(call->in[2], sig->in[2].dtype, i % y->dim[1]);
    parallel_run(b.plan.n_chunks, b.plan.n, sig->threads, add_chunk, &b);
}

/* ---- struct kernel ------------------------------------------------------- */

/* The 2-D kernel writes float32 where a bias is still to come. */
static struct kernel_sig
lift_sums(const struct kernel_sig *sig)
{
    struct kernel_sig up = lift(sig);

    if (has_bias(sig))
        up.out[0].dtype = DTYPE_F32;
    return up;
}

bool
conv_lift_supports(const struct kernel_sig *sig, conv_lift_find_fn *find)
{
    const int rank = is_signal_op(sig->op) ? 3 : 4;
    const struct kernel_sig up = lift_sums(sig);
    const struct kernel *kernel = find(up.op);

    if (sig->in[0].rank != rank || sig->in[1].rank != rank ||
        sig->out[0].rank != rank)
        return false;
    return kernel->supports == NULL || kernel->supports(&up);
}

int
conv_lift_prepare(const struct kernel_sig *sig, conv_lift_find_fn *find,
                  void **state, struct err *err)
{
    const struct kernel_sig up = lift_sums(sig);
    const struct kernel *kernel = find(up.op);

    *state = NULL;
    return kernel->prepare != NULL ? kernel->prepare(&up, state, err) : 0;
}

size_t
conv_lift_workspace_bytes(const struct kernel_sig *sig, conv_lift_find_fn *find,
                          void *state)
{
    const struct kernel_sig up = lift_sums(sig);
    const struct kernel *kernel = find(up.op);

    return room_of(sig).kernel_at + (kernel->workspace_bytes != NULL
                                         ? kernel->workspace_bytes(&up, state)
                                         : 0);
}

void
conv_lift_run(const struct kernel_call *call, conv_lift_find_fn *find)
{
    const struct kernel_sig *sig = call->sig;
    const struct kernel_sig up = lift_sums(sig);
    const struct room room = room_of(sig);
    struct kernel_call inner = *call;
    char *workspace = call->workspace;

    inner.sig = &up;
    for (int i = up.n_in; i < OP_MAX_IN; i++)
        inner.in[i] = NULL;
    if (sig->op == OP_CONV_TRANSPOSE2D_DW) {
        inner.in[0] = call->in[1];
        inner.in[1] = call->in[0];
    } else if (sig->op == OP_CONV_TRANSPOSE2D_DX) {
        inner.in[2] = NULL;
    }
    if (has_bias(sig) && sig->out[0].dtype != DTYPE_F32)
        inner.out[0] = workspace + room.sums_at;
    if (room.kernel_at > 0)
        inner.workspace = workspace + room.kernel_at;
    find(up.op)->run(&inner);
    if (has_bias(sig) && tensor_n_elems(&sig->out[0]) > 0)
        add_bias(call, inner.out[0],
                 (float *)(void *)(workspace + room.line_at));
}

static const struct kernel *
find_reference(enum op op)
{
    return op == OP_CONV2D      ? &conv2d_forward
           : op == OP_CONV2D_DX ? &conv2d_backward_input
                                : &conv2d_backward_weight;
}

CONV_LIFT_KERNEL(conv_lift_kernel, find_reference, NULL)
